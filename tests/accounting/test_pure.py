import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import selection_delta, selection_rho
from dptransfer.accounting.pure import SelectionGroup, total_epsilon
from dptransfer.accounting.steps import Steps
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation, SelectionEvent

checked = settings(max_examples=80, deadline=None, derandomize=True)


def two_point_delta(eta, t, epsilon):
    """δ of the loss t with its forced probability, else t − η: the family that is maximised over t."""
    chance = (np.exp(eta) - np.exp(t)) / np.expm1(eta)
    return chance * np.maximum(0, -np.expm1(epsilon - t))


@given(eta=st.floats(0.01, 20), share=st.floats(0, 1))
@checked
def test_bounded_range_is_the_worst_of_all_two_point_losses(eta, share):
    epsilon = share * eta if share * eta > 1e-300 else 0.0
    worst = two_point_delta(eta, np.linspace(0, eta, 20_001), epsilon).max()
    closed = selection_delta(eta, True, epsilon)
    assert worst <= closed * (1 + 1e-9) + 1e-15
    assert worst >= 0.999 * closed or closed < 1e-9  # and the worst case is reached


def test_no_pair_of_bounded_range_beats_the_closed_form():
    rng = np.random.default_rng(5)
    reached = 0.0
    for _ in range(300):
        eta, size = rng.uniform(0.1, 3), rng.integers(2, 6)
        q = rng.dirichlet(np.ones(size))
        p = q * np.exp(rng.uniform(0, 1, size) ** rng.choice([0.1, 1]) * eta)  # losses within η of each other
        p /= p.sum()
        for epsilon in (0.0, eta / 4, eta / 2):
            delta = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert delta <= selection_delta(eta, True, epsilon) + 1e-12
            reached = max(reached, delta / selection_delta(eta, True, epsilon))
    assert reached > 0.8


def test_pure_selection_is_randomised_response():
    p, q = np.array([math.e, 1]) / (1 + math.e), np.array([1, math.e]) / (1 + math.e)
    for epsilon in (0.0, 0.3, 0.9):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert selection_delta(1.0, False, epsilon) == pytest.approx(exact, rel=1e-12)
        assert selection_delta(1.0, True, epsilon) < 0.6 * exact


@given(eta=st.floats(0.01, 8), order=st.floats(1.01, 60))
@checked
def test_bounded_range_meets_its_rho_at_every_order(eta, order):
    t = np.linspace(1e-6, eta - 1e-6, 201)
    chance = (np.exp(eta) - np.exp(t)) / np.expm1(eta)
    moment = np.logaddexp(np.log(chance) + (order - 1) * t, np.log1p(-chance) + (order - 1) * (t - eta))
    divergence = (moment / (order - 1)).max()
    assert divergence <= order * selection_rho(eta, True) * (1 + 1e-9)


def test_bounded_range_rho_is_tight_for_small_steps():
    eta, t, order = 0.01, 0.005, 2.0
    chance = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
    moment = math.log(chance * math.exp(t) + (1 - chance) * math.exp(t - eta))
    assert moment / (order - 1) > 0.99 * order * selection_rho(eta, True)


def test_selections_are_grouped_and_summed():
    step = SelectionEvent(0.1, Relation.ADD_REMOVE, True, "exponential")
    other = SelectionEvent(0.1, Relation.ADD_REMOVE, False, "permute-and-flip")
    groups = Steps.of([step, other, step]).groups
    assert groups == (SelectionGroup(0.1, False, 1), SelectionGroup(0.1, True, 2))
    assert total_epsilon(groups) == pytest.approx(0.3)


@pytest.mark.parametrize("bad", [math.nan, -1.0, 5e-324, math.inf])
def test_numbers_that_are_not_numbers_are_refused(bad):
    for call in (
        lambda: selection_delta(bad, True, 0.0),
        lambda: selection_delta(1.0, True, bad),
        lambda: selection_rho(bad, True),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert selection_delta(1e4, True, 0.0) == pytest.approx(1.0)  # while large ones do not overflow


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_rho_covers_every_divergence_of_the_worst_pair_and_is_reached_by_small_steps(bounded, epsilon):
    if bounded:  # an interval of losses of length ε, by the worst place of it
        places = np.linspace(0.01, 0.99, 99) * epsilon
        p = (np.exp(epsilon) - np.exp(places)) / np.expm1(epsilon)  # mass under P of that loss
        q = p * np.exp(-places)
    else:
        p = np.array([1 / (1 + math.exp(-epsilon))])
        q = 1 - p
    reached = 0.0
    for order in (1.01, 1.5, 2.0, 8.0):
        with np.errstate(divide="ignore"):
            moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        reached = max(reached, float((np.log(moment) / (order - 1) / order).max()))
    rho = selection_rho(epsilon, bounded)
    assert reached <= rho * (1 + 1e-6)
    assert epsilon > 0.1 or reached >= 0.999 * rho
