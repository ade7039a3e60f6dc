import numpy as np
import pytest

import dptransfer as dpt
from dptransfer_lab.demo.reference import logistic_result, result_of


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = rng.exponential(size=(4, 12))
    labels = np.repeat(np.arange(4), 30)
    return centres[labels] + rng.exponential(0.05, (120, 12)), labels


def test_a_probe_is_scored_by_class_on_the_test_rows(rows):
    x, y = rows
    wrong = np.where(y == 3, 0, y)  # the last class is never learned
    right = logistic_result("probe", "not private", (x, y), (x, y), small=(3,))
    taught_wrong = logistic_result("probe", "not private", (x, wrong), (x, y), small=(3,))
    assert right.recall == (1, 1, 1, 1)
    assert taught_wrong.recall[3] == taught_wrong.smallest == 0
    assert taught_wrong.balanced == pytest.approx(np.mean(taught_wrong.recall))


def test_an_evaluation_becomes_the_same_numbers(rows):
    x, y = rows
    private = dpt.PrivateEmbeddings(x, y, classes=["a", "b", "c", "d"])
    budget, ledger = dpt.Budget(epsilon=10.0, delta=1e-5), dpt.Ledger.in_memory()
    model = dpt.MeanPrototypes().fit(private, budget=budget, ledger=ledger, noise=dpt.SeededNoise(0))
    tested = dpt.evaluate(model, x, y, minority_of=[40, 30, 10, 20])
    result = result_of("mean", "ε = 10", tested)
    assert result.small == (2,)
    assert result.balanced == pytest.approx(tested.balanced_accuracy)
    assert result.smallest == pytest.approx(tested.minority_accuracy)
