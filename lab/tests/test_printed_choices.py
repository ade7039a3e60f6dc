import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import DataError
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import PrintedTopK, ScriptedPublic
from dptransfer_lab.tasks import Task


def task(public=None):
    rows, labels = np.random.default_rng(0).normal(size=(20, 12)), np.arange(20) % 2
    return Task(rows, labels, ("cat", "dog"), rows, labels, public)


def test_the_script_of_public_prototypes_draws_by_its_weights():
    scores, runs = np.array([0.0, 1.0, 2.0]), 40_000
    chosen = ScriptedPublic().choose(scores, 1.0, np.random.default_rng(0), times=runs)
    expected = np.exp(scores) / np.exp(scores).sum()
    assert np.bincount(chosen) / runs == pytest.approx(expected, abs=0.012)


def test_its_weights_end_at_nothing():
    """e^−104 is 0 in float32 and e^−103 is not: possible on one side only, which no pure ε allows."""
    assert np.exp(np.float32(-104)) == 0 < np.exp(np.float32(-103))


def test_the_script_of_public_prototypes_needs_a_pool():
    budget, rng = Budget.pure(1.0), np.random.default_rng(0)
    with pytest.raises(DataError, match="public rows"):
        ScriptedPublic().fit(task(), budget, rng)
    model = ScriptedPublic().fit(task(PublicEmbeddings(np.eye(5, 12))), budget, rng)
    assert "exponent 2" in model.note
    assert set(model.prototypes) == {"cat", "dog"}


def test_top_k_needs_a_pool_that_is_large_enough():
    mechanism, budget, rng = PrintedTopK(k=5), Budget(epsilon=1.0, delta=1e-5), np.random.default_rng(0)
    with pytest.raises(DataError, match="public rows"):
        mechanism.fit(task(), budget, rng)
    with pytest.raises(DataError, match="more than 5"):
        mechanism.fit(task(PublicEmbeddings(np.eye(5, 12))), budget, rng)


def test_top_k_draws_sets_by_the_printed_weights():
    scores, epsilon, k, runs = np.array([3.0, 2.0, 1.0, 0.0]), 1.0, 2, 40_000
    chosen = PrintedTopK(k=k).choose(scores, epsilon, np.random.default_rng(0), times=runs)
    assert (np.diff(chosen, axis=1) > 0).all()
    worst = np.bincount(chosen.max(axis=1), minlength=4) / runs
    weights = np.array([0, 1, 3, 6]) * np.exp(epsilon / 2 * scores)
    assert worst == pytest.approx(weights / weights.sum(), abs=0.012)
    right = np.array([0, 1, 2, 3]) * np.exp(epsilon / 2 * scores)
    assert worst != pytest.approx(right / right.sum(), abs=0.012)


def test_from_zero_never_chooses_the_best_set():
    scores, rng = np.array([9.0, 9.0, 0.0, 0.0]), np.random.default_rng(0)
    best = [0, 1]
    assert best not in PrintedTopK(k=2, from_zero=True).choose(scores, 1.0, rng, times=5000).tolist()
    assert best in PrintedTopK(k=2).choose(scores, 1.0, rng, times=5000).tolist()
