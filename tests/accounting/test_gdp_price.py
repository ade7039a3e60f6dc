import math

import mpmath
import numpy as np
import pytest

from dptransfer.accounting import delta_of, epsilon_of, gdp_price, mu_of, mu_with_slack
from dptransfer.accounting.filters import _smallest_mu
from dptransfer.accounting.gaussian_curve import deltas_of_mu
from dptransfer.privacy import BestOfManyEvent, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
LOST = 1e-5 * 2.0**-50
STEPS = {
    "exponential": [SelectionEvent(0.7, ADD, True, "exponential")],
    "permute-and-flip": [SelectionEvent(0.7, ADD, False, "permute-and-flip")] * 3,
    "sampled": [SampledGaussianEvent(3.0, 0.05, 50, ADD)],
    "sampled, replaced": [SampledGaussianEvent(6.0, 0.05, 50, REPLACE)],
    "mixed": [GaussianEvent(8.0, ADD), SelectionEvent(0.1, ADD, True, "exponential")],
    "tuned": [BestOfManyEvent(((GaussianEvent(8.0, ADD),),), 5, 1.0)],
    "on a lattice": [SampledGaussianEvent(3.0, 0.05, 50, ADD, numeric_epsilon=1e-6)],
}


@pytest.mark.parametrize("name", STEPS)
def test_the_gaussian_curve_lies_above_that_of_the_steps_everywhere(name):
    mu = gdp_price(STEPS[name], LOST)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-5, 30, 200)])  # not the points it was found at
    curve = np.array([delta_of(STEPS[name], epsilon) for epsilon in epsilons])
    assert (curve <= deltas_of_mu(mu, epsilons) + LOST).all()
    assert (curve > deltas_of_mu(mu * 0.99, epsilons) + LOST).any()  # and not much further above than it must


def test_gaussian_steps_cost_their_own_mu():
    steps = [GaussianEvent(4.0, ADD, times=4), GaussianEvent(2.0, ADD)]
    assert gdp_price(steps, 0.0) == math.hypot(0.5, 0.5)
    rough = [GaussianEvent(4.0, ADD, numeric_epsilon=1e-6)]
    assert gdp_price(rough, 0.0) == mu_with_slack(0.25, 1e-6)
    assert gdp_price([], 0.0) == 0.0


def test_cut_tails_are_left_to_whoever_counts_them():
    whole, cut = (GaussianEvent(4.0, ADD, numeric_delta=eta) for eta in (0.0, 1e-30))
    assert gdp_price([cut], LOST) == gdp_price([whole], LOST)


def test_what_has_no_gaussian_bound_has_an_infinite_price():
    for epsilon in (50.0, 100.0, 5000.0):  # its curve begins at 1, or does not end
        assert gdp_price([SelectionEvent(epsilon, ADD, False, "permute-and-flip")], LOST) == math.inf
    assert gdp_price([BestOfManyEvent(((GaussianEvent(0.1, ADD),),), 5, 1.0)], LOST) == math.inf


def test_sampled_steps_never_cost_more_than_without_sampling():
    for z, rate, relation in ((4.0, 1.0, REPLACE), (0.03, 0.5, ADD)):
        steps = [SampledGaussianEvent(z, rate, 10, relation, numeric_epsilon=1e-9)]
        assert gdp_price(steps, LOST) == mu_of(steps)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 1e-5, 1e-3, 0.1])
def test_a_point_is_covered_by_the_true_curve_and_not_by_its_rounding(epsilon):
    """At small μ `delta_of_mu` is rounded up by much more than a part in 10¹²."""
    for needed in (1e-9, 1e-7, 1e-5, 1e-3):
        mu = _smallest_mu(epsilon, needed)
        with mpmath.workdps(40):
            a, b = (
                mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu,
                mpmath.mpf(mu) / 2 + mpmath.mpf(epsilon) / mu,
            )
            assert mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(-b) >= needed


def test_many_sampled_steps_are_nearly_gaussian_and_one_selection_is_not():
    steps = [SampledGaussianEvent(5.0, 0.01, 1000, ADD)]
    plain = 0.01 * math.sqrt(1000 * math.expm1(1 / 25))  # the standard deviation of the loss, about
    assert plain < gdp_price(steps, LOST) < 1.1 * plain
    choice = [SelectionEvent(0.5, ADD, True, "exponential")]
    assert epsilon_of([GaussianEvent(1 / gdp_price(choice, LOST), ADD)], 1e-5) > 2 * epsilon_of(choice, 1e-5)
