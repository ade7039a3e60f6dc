import math

import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from dptransfer.accounting import delta_of_mu
from dptransfer.accounting.pure import SelectionGroup
from dptransfer.accounting.renyi import renyi_delta

HUNDRED = [SelectionGroup(0.1, True, 100)]


def test_a_hundred_bounded_range_selections_agree_with_dp_accounting():
    orders = [1 + 0.25 * i for i in range(1, 400)]
    theirs = rdp.compute_epsilon(orders, [0.125 * a for a in orders], 1e-5)[0]
    assert theirs < 2.52
    assert renyi_delta(0.0, HUNDRED, theirs * 1.0001) <= 1e-5 < renyi_delta(0.0, HUNDRED, theirs * 0.999)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_it_lies_above_the_exact_gaussian_curve(epsilon):
    assert delta_of_mu(0.5, epsilon) < renyi_delta(0.5, [], epsilon)
    assert renyi_delta(0.4, [], epsilon) < renyi_delta(0.5, [], epsilon)  # and moves with the noise


def test_randomised_response_helps_where_epsilon_is_large():
    group = SelectionGroup(6.0, False, 4)
    by_rho = [0.5 * 36 * 4 * a for a in range(2, 50)]
    assert renyi_delta(0.0, [group], 23.9) < rdp.compute_delta(range(2, 50), by_rho, 23.9)[0]


def test_nothing_costs_nothing_and_everything_costs_one():
    assert renyi_delta(0.0, [SelectionGroup(1e-9, True, 1)], 1.0) < 1e-100
    assert renyi_delta(1e3, [], 1.0) == 1.0
    assert math.isfinite(renyi_delta(1e150, [], 1.0))
