import itertools
import math

import numpy as np
import pytest

from dptransfer.accounting import delta_of_mu, selection_delta
from dptransfer.accounting.loss import grid_delta, selection_loss
from dptransfer.accounting.pure import SelectionGroup


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("eta", [1e-3, 0.5, 3.0, 50.0, 2000.0])
def test_one_selection_on_the_grid_is_its_closed_form_rounded_up(eta, bounded):
    for share in (0.0, 0.3, 0.7, 0.95):
        exact = selection_delta(eta, bounded, share * eta)
        found = grid_delta(0.0, (SelectionGroup(eta, bounded, 1),), share * eta)
        assert exact * (1 - 1e-12) <= found
        assert found <= exact * 1.01 or eta > 100


@pytest.mark.parametrize(
    "groups",
    [
        (SelectionGroup(0.1, True, 100),),
        (SelectionGroup(0.2, False, 7), SelectionGroup(0.37, True, 3)),
        (SelectionGroup(8.0, True, 2),),
    ],
)
def test_the_grid_is_a_pair_of_distributions(groups):
    losses, chances = selection_loss(groups)
    assert chances.sum() == pytest.approx(1.0, abs=1e-10)
    assert (chances * np.exp(-losses)).sum() == pytest.approx(1.0, abs=1e-10)
    assert np.abs((chances * np.exp(-losses))[::-1] - chances).max() < 1e-12  # the same in both directions
    assert losses[-1] >= sum(g.epsilon * g.times for g in groups)
    assert not losses.flags.writeable


def test_randomised_response_composes_to_the_binomial():
    exact = sum(
        math.comb(100, k) * p**k * (1 - p) ** (100 - k) * max(0.0, -math.expm1(4.0 - 0.1 * (2 * k - 100)))
        for p in [1 / (1 + math.exp(-0.1))]
        for k in range(101)
    )
    found = grid_delta(0.0, (SelectionGroup(0.1, False, 100),), 4.0)
    assert exact <= found <= exact * (1 + 1e-6)


def test_it_agrees_with_dp_accounting_when_noise_and_selections_mix():
    from dp_accounting.pld import privacy_loss_distribution as pld

    noise = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
    choice = pld.from_privacy_parameters(pld.common.DifferentialPrivacyParameters(0.3, 0.0), 1e-4)
    together = noise.compose(choice).compose(choice)
    for epsilon in (0.5, 1.0, 2.0):
        theirs = together.get_delta_for_epsilon(epsilon)
        assert grid_delta(0.5, (SelectionGroup(0.3, False, 2),), epsilon) == pytest.approx(theirs, rel=1e-3)
        assert grid_delta(0.5, (SelectionGroup(0.3, False, 1),), epsilon) < 0.9 * theirs


def test_no_adaptive_choice_of_two_bounded_range_steps_beats_the_grid():
    eta, grid = 1.0, np.linspace(0, 1, 21)

    def outcomes(t):
        chance = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
        return [(chance, t), (1 - chance, t - eta)]

    for epsilon in (0.0, 0.5, 1.0, 1.5):
        worst = 0.0
        for first, if_high, if_low in itertools.product(grid, repeat=3):
            delta = 0.0
            for (chance, loss), second in zip(outcomes(first), (if_high, if_low), strict=True):
                for other, more in outcomes(second):
                    delta += chance * other * max(0.0, 1 - math.exp(epsilon - loss - more))
            worst = max(worst, delta)
        found = grid_delta(0.0, (SelectionGroup(eta, True, 2),), epsilon)
        assert 0.6 * found < worst <= found
        assert worst > selection_delta(eta, True, epsilon)  # one step's price would not have covered it


def test_selections_next_to_overwhelming_noise_cost_what_the_noise_costs():
    found = grid_delta(0.5, (SelectionGroup(1e-6, True, 1),), 1.0)
    assert delta_of_mu(0.5, 1.0) <= found <= delta_of_mu(0.5, 1.0) * 1.001
    assert grid_delta(0.5, (SelectionGroup(0.1, True, 1),), 1.0) > delta_of_mu(0.5, 1.0) * 1.01


def test_too_many_selections_for_the_grid_get_the_trivial_bound():
    assert grid_delta(0.0, (SelectionGroup(0.1, True, 5_001),), 1.0) == 1.0
