import numpy as np
import pytest
from scipy.special import logsumexp

from dptransfer.exact.softmax import log_mean_softmax


def depths(classes, rows, spread, seed):
    logits = np.random.default_rng([classes, seed]).normal(size=(classes, rows)) * spread
    return logits.max(axis=0) - logits


@pytest.mark.parametrize("classes", [1, 2, 10, 1000])
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_it_is_the_logarithm_of_the_mean(classes, spread):
    first, second = depths(classes, 50, spread, 0), depths(classes, 50, spread, 1)
    logs = [-one - logsumexp(-one, axis=0) for one in (first, second)]
    wanted = np.logaddexp(*logs) - np.log(2)
    found = log_mean_softmax(first, second)
    likely = wanted > np.log(1e-5)
    assert np.abs(found - wanted)[likely].max() < 1e-6
    if spread:
        assert np.abs(found - logs[0])[likely].max(initial=0) > 1e-3 or classes == 1


def test_a_row_is_the_same_to_the_last_bit_in_any_company():
    first, second = depths(37, 501, 4.0, 2), depths(37, 501, 4.0, 3)
    whole = log_mean_softmax(first, second)
    for place in range(0, 501, 50):
        alone = log_mean_softmax(first[:, place : place + 1].copy(), second[:, place : place + 1].copy())
        assert (alone[:, 0] == whole[:, place]).all()
    order = np.random.default_rng(0).permutation(501)
    assert (log_mean_softmax(first[:, order], second[:, order]) == whole[:, order]).all()


def test_what_neither_holds_possible_has_a_finite_score():
    far = np.array([[0.0], [1e300]])
    found = log_mean_softmax(far, far)
    assert np.isfinite(found).all()
    assert found[0, 0] == pytest.approx(0, abs=1e-9)
    assert found[1, 0] < -20
