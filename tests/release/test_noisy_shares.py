import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptransfer.release.evaluation import wilson
from dptransfer.release.noisy_counts import NOTHING, Noisy, Z, mean_share, pooled, share

amounts = st.floats(-1e6, 1e6)
variances = st.floats(0.0, 1e9)
pairs = st.tuples(st.builds(Noisy, amounts, variances), st.builds(Noisy, amounts, variances))


@given(pair=pairs, bound=st.sampled_from([0.5, 1.0, 8.0]))
def test_an_interval_is_never_empty_nor_nan_and_holds_its_value(pair, bound):
    found = share(*pair, bound)
    assert 0 <= found.low <= found.high <= 1
    assert found == NOTHING or found.low <= found.value <= found.high


some_noise = st.builds(Noisy, amounts, st.floats(1e-6, 1e9))  # counts that are released have some


@given(several=st.lists(st.tuples(some_noise, some_noise), max_size=5))
def test_a_mean_is_never_nan_either(several):
    found = mean_share(several)
    assert 0 <= found.low <= found.high <= 1
    assert found == NOTHING or found.low <= found.value <= found.high


def test_without_noise_it_is_wilsons_interval():
    found = share(Noisy(80, 0.0), Noisy(20, 0.0))
    assert np.allclose(found[1:], wilson(80, 100), atol=0.006)


def test_an_interval_solves_what_it_is_derived_from():
    right, wrong = Noisy(700.0, 900.0), Noisy(300.0, 400.0)
    found, total = share(right, wrong, bound=2.0), 1000.0
    for end in found[1:]:
        variance = 2.0 * end * (1 - end) * total + (1 - end) ** 2 * 900 + end**2 * 400
        assert math.isclose((700 - end * total) ** 2, Z**2 * variance, rel_tol=1e-9)


def test_where_noise_could_have_made_up_the_count_nothing_can_be_said():
    assert share(Noisy(5.0, 100.0), Noisy(5.0, 100.0)) == NOTHING
    assert share(Noisy(-5.0, 1.0), Noisy(-5.0, 1.0)) == NOTHING
    assert share(Noisy(50.0, 100.0), Noisy(50.0, 100.0)) != NOTHING
    assert mean_share([]) == NOTHING


def test_a_small_class_may_have_any_recall_and_the_mean_allows_for_it():
    large, small = (Noisy(900.0, 1.0), Noisy(100.0, 1.0)), (Noisy(1.0, 1.0), Noisy(0.0, 1.0))
    found = mean_share([large, small])
    assert found.value == pytest.approx(0.9, abs=0.001)
    assert found.low < 0.45
    assert found.high > 0.95
    assert mean_share([large, large]).high < 0.93


def test_those_near_the_limit_are_allowed_for_whatever_their_size():
    """The part by which a share shrinks because only totals above three deviations count, by integration."""
    t = np.linspace(-9, 30, 40001)
    near, inside = 0.2 * np.exp(-((t - 3) ** 2) / 2), t > 3
    inverse = 1 / np.maximum(t, 3)
    inverse = inside * (inverse - inverse**3 + 3 * inverse**5)
    for mean in np.arange(0.0, 15, 0.25):
        law = np.exp(-((t - mean) ** 2) / 2)
        law /= law.sum()
        shrunk = law[inside].sum() - mean * (law @ inverse)
        assert abs(shrunk) <= law @ near + 1e-4


@pytest.mark.parametrize(
    ("classes", "size", "recall"),
    [(40, 1.5, 1.0), (40, 2.0, 1.0), (40, 2.5, 1.0), (40, 2.5, 0.0), (120, 6.0, 0.9)],
)
def test_the_mean_over_many_small_classes_is_covered_at_the_ends_too(classes, size, recall):
    rng, deviation, held = np.random.default_rng(7), math.hypot(20, 30), 0
    for _ in range(150):
        sizes = rng.poisson(size * deviation, classes)
        right = rng.binomial(sizes, recall)
        told = [
            (Noisy(one + 20 * rng.normal(), 400.0), Noisy(other + 30 * rng.normal(), 900.0))
            for one, other in zip(right, sizes - right, strict=True)
        ]
        found = mean_share(told)
        held += found.low <= recall <= found.high
    assert held > 127  # of 150: fewer have a chance below 1e-6 if 95 % are


def test_counts_of_the_same_thing_are_weighted_by_how_sure_they_are():
    assert pooled(Noisy(10.0, 1.0), Noisy(20.0, 1e12)).count == pytest.approx(10.0)
    assert pooled(*[Noisy(3.0, 8.0)] * 4) == Noisy(3.0, 2.0)
