from types import SimpleNamespace

import numpy as np
import pytest

from dptransfer_lab.demo.run import logistic_test


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = rng.exponential(size=(4, 12))
    labels = np.repeat(np.arange(4), 30)
    return centres[labels] + rng.exponential(0.05, (120, 12)), labels


def test_a_probe_is_scored_by_class_on_the_test_rows(rows):
    x, y = rows
    sets = SimpleNamespace(classes=("a", "b", "c", "d"), sizes=(40, 30, 20, 10))
    wrong = np.where(y == 3, 0, y)  # the last class is never learned
    right, taught_wrong = (logistic_test((x, labels), (x, y), sets) for labels in (y, wrong))
    assert right.recall == (1, 1, 1, 1)
    assert taught_wrong.recall[3] == taught_wrong.minority_accuracy == 0
    assert taught_wrong.balanced_accuracy == pytest.approx(np.mean(taught_wrong.recall))
