import math
from functools import lru_cache

import mpmath
import numpy as np
import pytest

from dptransfer.accounting import sampled as replaced_moments
from dptransfer.accounting.sampled import replaced_log_moments

CASES = [
    (1.0, 0.5, 2.0), (0.5, 0.2, 5.5), (0.3, 0.05, 3.0), (3.0, 0.5, 17.0), (0.8, 1e-3, 1.5), (2.0, 0.999, 6.0),
    (0.7, 1 - 1e-10, 4.0),
]  # fmt: skip


def replaced_log_moment(z, q, order):
    return float(replaced_log_moments(z, q, [order])[0])


@lru_cache
def to_many_digits(z, q, order):
    """Log of ∫ P^α Q^(1−α) by mpmath's own rule, over pieces of about one standard deviation."""
    with mpmath.workdps(25):
        z, q, order = map(mpmath.mpf, (z, q, order))

        def integrand(t):
            one, other = (1 - q + q * mpmath.exp((side * t - 0.5) / z**2) for side in (1, -1))
            return mpmath.npdf(t, 0, z) * one**order * other ** (1 - order)

        pieces = int((2 * order + 20 * z) / z) + 2
        return mpmath.log(mpmath.quad(integrand, mpmath.linspace(-1 - 10 * z, 2 * order + 10 * z, pieces)))


@pytest.mark.parametrize(("z", "q", "order"), CASES)
def test_moments_are_never_below_the_truth_and_good_to_twelve_digits(z, q, order):
    exact = to_many_digits(z, q, order)
    excess = float(mpmath.mpf(replaced_log_moment(z, q, order)) - exact)
    assert 0 <= excess <= 1e-12 * (1 + float(exact))


@pytest.mark.parametrize("fault", [{"_REACH": 2.0}, {"_DIGITS": 8.0}])
def test_a_rule_that_is_too_short_or_too_coarse_is_caught(fault, monkeypatch):
    for name, value in fault.items():
        monkeypatch.setattr(replaced_moments, name, value)
    excesses = [replaced_log_moment(*case) - float(to_many_digits(*case)) for case in CASES]
    assert not all(0 <= excess <= 1e-12 * (1 + abs(excess)) for excess in excesses)


def test_a_rate_next_to_one_is_a_release_without_sampling():
    for z, order in ((1.0, 3.0), (2.5, 7.5)):
        assert replaced_log_moment(z, 1 - 1e-12, order) == pytest.approx(2 * order * (order - 1) / z**2)


def test_log_moments_are_convex_and_grow_with_the_rate():
    orders = np.linspace(1.1, 30, 40)
    for z in (0.4, 1.0, 4.0):
        low, high = ([replaced_log_moment(z, q, order) for order in orders] for q in (0.1, 0.2))
        assert (np.diff(low, 2) > -1e-9).all()
        assert (np.array(low) < high).all()


def test_a_rule_of_very_many_points_is_left_to_other_bounds():
    assert math.isinf(replaced_log_moment(0.1, 0.5, 500.0))
    assert math.isfinite(replaced_log_moment(0.1, 0.5, 2.0))


def test_many_orders_at_once_are_the_same_as_one_by_one():
    for z, q in ((0.4, 0.1), (2.0, 0.7)):
        orders = (1.1, 2.0, 7.5, 16.0)
        single = [replaced_log_moment(z, q, order) for order in orders]
        assert replaced_log_moments(z, q, orders) == pytest.approx(single, rel=1e-9, abs=1e-10)
