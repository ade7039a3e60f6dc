import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dptransfer.accounting import delta_of, delta_of_mu, epsilon_of
from dptransfer.accounting.exact_curves import SelectionGroup, deltas_of_mu
from dptransfer.accounting.mixed import mixed_delta, mixed_epsilons
from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent

checked = settings(max_examples=15, deadline=None, derandomize=True)
TWO = (SelectionGroup(0.3, False, 2),)


def exact_delta(mu, groups, epsilon):
    """δ of the Gaussian with every selection as randomised response: one sum, no grid, no transform."""
    losses, chances = np.zeros(1), np.ones(1)
    for group in groups:
        high = np.arange(group.times + 1)
        loss = (2 * high - group.times) * group.epsilon
        chance = binom.pmf(high, group.times, 1 / (1 + math.exp(-group.epsilon)))
        losses, chances = np.add.outer(losses, loss).ravel(), np.multiply.outer(chances, chance).ravel()
    gaps = epsilon - losses
    return float(chances @ (deltas_of_mu(mu, gaps) if mu else -np.expm1(np.minimum(gaps, 0.0))))


CASES = [
    (0.2, TWO, 3e-4),
    (0.0, (SelectionGroup(0.1, False, 100),), 1e-4),
    (1.0, (SelectionGroup(0.05, False, 200),), 1e-4),
    (5.0, (SelectionGroup(1.0, False, 3),), 1e-4),
    (0.02, (SelectionGroup(0.1, False, 1000),), 1e-4),
    (0.3, (SelectionGroup(0.1, False, 20), SelectionGroup(0.37, False, 3)), 0.03),
    (0.5, (SelectionGroup(1e-5, False, 2),), 1e-3),
]


@pytest.mark.parametrize(("mu", "groups", "slack"), CASES)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9, 1e-12])
def test_it_lies_above_the_exact_sum_and_close_to_it(mu, groups, slack, delta):
    epsilon = mixed_epsilons(mu, groups, delta)[0]
    found, exact = mixed_delta(mu, groups, epsilon), exact_delta(mu, groups, epsilon)
    assert exact <= found
    assert found <= exact * (1 + slack) + 1e-15 * (60 + 2 * sum(group.times for group in groups))


def test_two_selections_beside_noise_have_the_known_price():
    events = [GaussianEvent(5.0, Relation.ADD_REMOVE)]
    events += [SelectionEvent(0.3, Relation.ADD_REMOVE, False, "permute-and-flip")] * 2
    found = epsilon_of(events, 1e-5)
    assert found == pytest.approx(1.26814, abs=1e-5)
    assert exact_delta(0.2, TWO, found) <= 1e-5 < exact_delta(0.2, TWO, found - 1e-5)
    ranged = [events[0], *[SelectionEvent(0.3, Relation.ADD_REMOVE, True, "exponential")] * 2]
    assert epsilon_of(ranged, 1e-5) == pytest.approx(1.19699, abs=1e-5)


def test_it_agrees_with_the_library_used_another_way():
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
    from dp_accounting.rdp import RdpAccountant

    noise = privacy_loss_distribution.from_gaussian_mechanism(5.0, value_discretization_interval=1e-4)
    choice = privacy_loss_distribution.from_randomized_response(  # e^0.3 to 1, on its own grid
        2 / (1 + math.exp(0.3)), 2, value_discretization_interval=1e-4
    )
    theirs = noise.compose(choice).compose(choice)
    ours = next(e for e in mixed_epsilons(0.2, TWO, 1e-5) if e < 1.28)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-3)
    alone = PLDAccountant().compose(dp_event.GaussianDpEvent(5.0)).get_epsilon(1e-5)
    assert ours > alone * 1.4

    hundred = RdpAccountant().compose(dp_event.ZCDpEvent(0.01 / 8), 100).get_epsilon(1e-5)
    ours = mixed_epsilons(0.0, (SelectionGroup(0.1, True, 100),), 1e-5)[0]
    assert ours == pytest.approx(hundred, rel=1e-3)  # other orders
    assert max(ours, hundred) < 2.52


def test_no_adaptive_choice_of_two_bounded_range_steps_beats_it():
    eta, grid = 1.0, np.linspace(0, 1, 11)

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
        found = mixed_delta(0.0, (SelectionGroup(eta, True, 2),), epsilon)
        assert worst <= found < 1
        assert worst > 0.5 * mixed_delta(0.0, (SelectionGroup(eta / 2, True, 2),), epsilon)  # it has power


def test_bounded_range_is_worth_something():
    for mu in (0.0, 0.5):
        with_range = mixed_epsilons(mu, (SelectionGroup(0.2, True, 20),), 1e-5)[0]
        assert with_range < 0.8 * mixed_epsilons(mu, (SelectionGroup(0.2, False, 20),), 1e-5)[0]


@given(
    mu=st.floats(0.05, 2),
    step=st.floats(0.02, 1),
    times=st.integers(1, 30),
    bounded=st.booleans(),
    epsilon=st.floats(0, 8),
)
@checked
def test_more_costs_more(mu, step, times, bounded, epsilon):
    epsilon = 0.0 if epsilon < 1e-300 else epsilon
    found = mixed_delta(mu, (SelectionGroup(step, bounded, times),), epsilon)
    assert delta_of_mu(mu, epsilon) <= found
    assert mixed_delta(mu, (SelectionGroup(step, bounded, times),), epsilon + 0.1) <= found
    for mu_, step_, times_, bounded_ in (
        (mu * 1.1, step, times, bounded),
        (mu, step * 1.1, times, bounded),
        (mu, step, times + 1, bounded),
        (mu, step, times, False),
    ):
        assert found <= mixed_delta(mu_, (SelectionGroup(step_, bounded_, times_),), epsilon) * (1 + 1e-4)


@given(mu=st.floats(0.05, 3), step=st.floats(0.01, 3), times=st.integers(1, 50), log_delta=st.floats(-60, -2))
@checked
def test_it_never_costs_more_than_its_parts_added_up(mu, step, times, log_delta):
    from dptransfer.accounting import epsilon_of_mu

    delta, groups = math.exp(log_delta), (SelectionGroup(step, True, times),)
    assert mixed_epsilons(mu, groups, delta)[0] <= epsilon_of_mu(mu, delta) + times * step * (1 + 1e-12)
    assert mixed_epsilons(0.0, groups, delta)[0] <= times * step * (1 + 1e-12)
    assert mixed_delta(0.0, groups, times * step * (1 + 1e-12)) == 0.0
    assert mixed_delta(mu, groups, times * step + 40.0) > 0.0  # noise is never pure


@pytest.mark.parametrize("mu", [0.0, 1e-307, 1e-9, 1.0, 30.0, 1e90, 1e150])
@pytest.mark.parametrize("step", [1e-300, 1e-9, 1.0, 30.0, 1e200])
def test_extreme_events_neither_raise_nor_warn_nor_come_out_free(mu, step):
    groups = (SelectionGroup(step, True, 1), SelectionGroup(step / 3, False, 12))
    for epsilon in (0.0, 1.0, 1e3):
        found = mixed_delta(mu, groups, epsilon)
        assert (found == 0.0) is (mu == 0 and epsilon >= step + 12 * (step / 3))
        assert (delta_of_mu(mu, epsilon) if mu else 0.0) <= found <= 1
    for delta in (1e-300, 1e-13, 1e-5, 0.5):
        epsilons = mixed_epsilons(mu, groups, delta)
        assert epsilons == sorted(epsilons)
        assert not any(math.isnan(epsilon) or epsilon < 0 for epsilon in epsilons)


def test_many_different_selections_are_rounded_up_together():
    groups = tuple(SelectionGroup(0.02 * (1 + i / 200), False, 1) for i in range(100))
    fewer = (SelectionGroup(0.02, False, 100),)
    more = (SelectionGroup(0.03, False, 100),)
    found = [mixed_epsilons(0.3, each, 1e-5)[0] for each in (fewer, groups, more)]
    assert found == sorted(found)


def test_the_library_says_nothing_on_the_side():
    code = (
        "from dptransfer.accounting import epsilon_of\n"
        "from dptransfer.privacy import *\n"
        "r = Relation.ADD_REMOVE\n"
        "events = [GaussianEvent(5.0, r), *[SelectionEvent(0.3, r, True, 'exponential')] * 20]\n"
        "epsilon_of(events, 1e-5), epsilon_of(events, 1e-200), epsilon_of(events, 0.9)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert (answer.stdout, answer.stderr) == ("", "")


def test_the_relation_does_not_change_what_the_numbers_mean():
    mixes = [
        [GaussianEvent(2.0, relation), SelectionEvent(0.3, relation, True, "exponential")]
        for relation in Relation
    ]
    assert delta_of(mixes[0], 1.0) == delta_of(mixes[1], 1.0)
    assert delta_of(mixes[0], 1.0) < delta_of([GaussianEvent(1.9, Relation.ADD_REMOVE), mixes[0][1]], 1.0)
