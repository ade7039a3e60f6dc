import math

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp, ndtr

from dptransfer.accounting import epsilon_of_mu
from dptransfer.accounting.renyi import argmax_divergence, epsilon_at_order
from dptransfer.errors import ArgumentError

PROBABILITIES = np.concatenate([np.geomspace(1e-300, 1e-3, 200), np.linspace(1e-3, 1.0, 300)])
CASES = [(0.03, 20.0), (0.3, 5.0), (1.0, 2.0), (1.9, 1.5), (0.01, 200.0), (1.8, 20.0)]


def two_winners(lead, mu, order):
    """The exact divergence of two candidates' winner, worse direction, if one vote changes sides."""
    t = lead / math.sqrt(2)
    p, q = (log_ndtr(np.array([x, -x])) for x in (t, t - mu))
    both = [logsumexp(order * a + (1 - order) * b) / (order - 1) for a, b in ((p, q), (q, p))]
    return max(both), float(log_ndtr(mu - t))


@pytest.mark.parametrize(("mu", "order"), CASES)
def test_a_nearly_settled_outcome_costs_less_and_never_more_than_all_votes(mu, order):
    found = argmax_divergence(np.log(PROBABILITIES), mu, order)
    assert (found <= order * mu * mu / 2).all()
    assert (np.diff(found) >= -1e-15 * found[-1]).all()
    assert found[0] < 1e-100 or mu > 1
    assert found[-1] == order * mu * mu / 2


@pytest.mark.parametrize(("mu", "order"), CASES)
def test_it_covers_the_winner_of_two(mu, order):
    below = 0
    for lead in np.append(np.linspace(0, 12, 200), np.linspace(12, 120, 100)):
        true, log_other = two_winners(lead, mu, order)
        bound = float(argmax_divergence(np.array([log_other]), mu, order)[0])
        assert true <= bound * (1 + 1e-9) + 1e-15
        below += bound < order * mu * mu / 2
    assert below or mu > 1


def papernot(q, mu, order):
    """Theorem 6 of Papernot et al. (2018) for GNMax, with the further orders that their code takes."""
    second = math.sqrt(math.log(1 / q)) * math.sqrt(2) / mu
    first = second + 1
    prices = [one * mu * mu / 2 for one in (first, second)]
    limit = (second - 1) * prices[1] - second * math.log(first / (first - 1) * second / (second - 1))
    if second <= 1 or first < order or math.log(q) > limit:
        return order * mu * mu / 2
    a = (1 - q) / (1 - (q * math.exp(prices[1])) ** ((second - 1) / second))
    b = math.exp(prices[0]) / q ** (1 / (first - 1))
    return math.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)


@pytest.mark.parametrize(("mu", "order"), CASES[:2])
def test_it_is_never_above_the_published_bound_and_mostly_below(mu, order):
    below = 0
    for q in np.geomspace(1e-12, 0.1, 100):
        ours, theirs = float(argmax_divergence(np.log([q]), mu, order)[0]), papernot(q, mu, order)
        assert ours <= theirs * (1 + 1e-9)
        below += ours < 0.95 * theirs
    assert below > 50


def test_what_is_too_unlikely_for_a_float_is_not_taken_for_impossible():
    """45 standard deviations: 1e-441, which neighbours tell apart nearly as well as by all votes."""
    true, log_other = two_winners(45 * math.sqrt(2), 1.8, 20.0)
    assert math.exp(log_other) == 0
    assert true > 20
    assert float(argmax_divergence(np.array([log_other]), 1.8, 20.0)[0]) >= true


def test_without_the_part_where_others_win_it_would_not():
    mu, order = 0.3, 5.0
    true, log_other = two_winners(2.5, mu, order)
    other = math.exp(log_other)
    t = 2.5 / math.sqrt(2) - mu
    first = order * math.log1p(-other) - (order - 1) * math.log1p(-float(ndtr(mu - t)))
    assert true > first / (order - 1)


def test_one_order_gives_no_less_than_the_exact_curve():
    for order in (3.0, 6.0, 20.0):
        assert epsilon_at_order(order / 2, order, 1e-5) > epsilon_of_mu(1.0, 1e-5)
    best = min(epsilon_at_order(order / 2, order, 1e-5) for order in np.linspace(2, 20, 200))
    assert best == pytest.approx(4.73, abs=0.01)  # where the exact one is 4.377


@pytest.mark.parametrize("order", [1.0, 0.5, math.inf, 1e6])
def test_an_order_that_bounds_nothing_is_refused(order):
    with pytest.raises(ArgumentError, match="order must be"):
        argmax_divergence(np.log(PROBABILITIES), 0.3, order)
