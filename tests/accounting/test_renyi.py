import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, logsumexp, ndtr

from dptransfer.accounting import (
    delta_of,
    delta_of_mu,
    epsilon_of,
    epsilon_of_mu,
    fits,
    guarantee_of,
    halting_probability,
    mean_trials_of,
    mu_of,
    noise_multiplier_for,
    pure_epsilon_of,
    rho_of,
)
from dptransfer.accounting.exact_curves import SelectionGroup
from dptransfer.accounting.renyi import (
    ORDERS,
    argmax_divergence,
    delta_of_renyi,
    divergences,
    epsilon_at_order,
    epsilon_of_renyi,
)
from dptransfer.accounting.sampled import SampledGroup
from dptransfer.accounting.steps import Steps
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
)


def test_divergences_of_steps_add_up():
    groups, sampled = (SelectionGroup(0.3, True, 4),), (SampledGroup(2.0, 0.1, False, 5),)
    parts = divergences(0.5, ()), divergences(0.0, groups), divergences(0.0, (), sampled)
    assert divergences(0.5, groups, sampled) == pytest.approx(sum(parts), rel=1e-9, abs=1e-14)
    assert divergences(0.5, ()) == pytest.approx(np.array(ORDERS) / 8)


def test_conversion_is_the_librarys_and_never_below_the_truth():
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant(ORDERS).compose(dp_event.GaussianDpEvent(2.0))
    for epsilon in (0.1, 1.0, 3.0):
        found = delta_of_renyi(divergences(0.5, ()), epsilon)
        assert found == pytest.approx(theirs.get_delta(epsilon), rel=1e-6)
        assert found > delta_of_mu(0.5, epsilon)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_epsilon_and_delta_are_inverse_to_each_other(delta):
    bounds = divergences(0.5, ())
    epsilon = epsilon_of_renyi(bounds, delta)
    assert delta_of_renyi(bounds, epsilon) == pytest.approx(delta, rel=1e-6)


def test_numbers_too_large_have_no_divergence():
    assert divergences(1e101, ()) is None
    assert divergences(1.0, (), (SampledGroup(1e-101, 0.1, False, 1),)) is None
    assert np.isfinite(divergences(1e-300, ())).all()
    assert (divergences(1e-300, ()) > 0).all()
    assert not math.isnan(delta_of_renyi(divergences(1e90, ()), 1.0))


@pytest.mark.parametrize("mu", [1e-3, 1e-5, 1e-6])
def test_tiny_losses_are_converted_by_their_root_and_not_below_the_truth(mu):
    found = delta_of_renyi(divergences(mu, ()), 0.0)
    assert delta_of_mu(mu, 0.0) < found < 2 * delta_of_mu(mu, 0.0)


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 9.0])
def test_what_floats_may_round_off_is_added(epsilon):
    bounds = divergences(1.0, ())
    with localcontext() as context:
        context.prec = 50
        known = [(Decimal(a), Decimal(float(b))) for a, b in zip(ORDERS, bounds, strict=True) if a < 100]
        exact = min(((a - 1) * (bound - Decimal(epsilon) + (1 - 1 / a).ln())).exp() / a for a, bound in known)
    more = float(Decimal(delta_of_renyi(bounds, epsilon)) / exact) - 1
    assert 0.9e-8 * (1 + epsilon) < more < 1.1e-8 * (1 + epsilon)


ADD = Relation.ADD_REMOVE

checked = settings(max_examples=20, deadline=None, derandomize=True)

NOISE = GaussianEvent(2.0, ADD)  # rho = 0.125


def tuned(*candidates, mean=21.0, shape=0.0):
    return BestOfManyEvent(tuple(candidates) or ((NOISE,),), mean, shape)


def test_about_twenty_trials_double_epsilon():
    assert epsilon_of([NOISE], 1e-5) == pytest.approx(1.99, abs=0.005)
    assert epsilon_of([tuned()], 1e-5) == pytest.approx(3.89, abs=0.01)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 7.0, math.inf])
@pytest.mark.parametrize("mean", [1.0, 5.0, 21.0, 400.0])
def test_it_is_the_librarys_formula(shape, mean):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    trial = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(2.0), dp_event.ZCDpEvent(0.02)])
    theirs = RdpAccountant(ORDERS).compose(dp_event.RepeatAndSelectDpEvent(trial, mean, shape))
    choice = SelectionEvent(0.4, ADD, True, "exponential")
    found = epsilon_of([tuned((NOISE, choice), mean=mean, shape=shape)], 1e-5)
    assert found == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-6)


@pytest.mark.parametrize("shape", [-0.9, -0.5, 0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("mean", [1.0, 1.5, 21.0, 1e3])
def test_the_chance_of_halting_gives_the_mean(shape, mean):
    gamma = halting_probability(mean, shape)
    assert mean_trials_of(gamma, shape) == pytest.approx(mean, rel=1e-9)
    assert mean_trials_of(gamma, shape) >= mean * (1 - 1e-15)


@pytest.mark.parametrize("shape", [-0.5, 0.5, 2.0])
def test_the_mean_is_that_of_the_stated_law(shape):
    gamma, k = 0.2, np.arange(1, 2000)
    logs = k * math.log1p(-gamma) + [math.lgamma(n + shape) - math.lgamma(n + 1) for n in k]
    weights = np.exp(logs - logs.max())
    assert mean_trials_of(gamma, shape) == pytest.approx(float(weights @ k / weights.sum()), rel=1e-9)


def test_a_heavier_tail_is_cheaper_at_the_same_mean():
    prices = [epsilon_of([tuned(shape=shape)], 1e-5) for shape in (-0.5, 0.0, 1.0, math.inf)]
    assert prices == sorted(prices)
    assert prices[0] < 3.5 < 7 < prices[-1]


def test_candidates_count_by_their_average_and_never_above_the_worst():
    cheap, dear = (GaussianEvent(8.0, ADD),), (NOISE,)
    assert epsilon_of([tuned(dear, dear)], 1e-5) == pytest.approx(epsilon_of([tuned(dear)], 1e-5), rel=1e-9)
    mixed = epsilon_of([tuned(cheap, dear)], 1e-5)
    assert epsilon_of([tuned(cheap)], 1e-5) < mixed < epsilon_of([tuned(dear)], 1e-5)
    low = np.array(ORDERS)[:150] - 1
    one, other = Steps.of(cheap).divergences()[:150], Steps.of(dear).divergences()[:150]
    average = np.log((np.exp(low * one) + np.exp(low * other)) / 2) / low
    once = Steps.of([tuned(cheap, dear, mean=1.0, shape=1.0)]).divergences()[:150]
    extra = 2 * float((low / (1 + low) * average).min())  # what the theorem adds to a single trial
    assert once == pytest.approx(average + extra, rel=1e-9)
    assert (average < other).all()


@pytest.mark.parametrize("shape", [1.0, math.inf])
def test_no_law_of_two_outcomes_is_told_apart_better_than_the_price_says(shape):
    """Randomised response, repeated and selected: the exact laws of the best, for every ε."""
    step, mean = 0.5, 4.0
    chance = 1 / (1 + math.exp(-step))
    counts = np.arange(400)
    if shape == 1.0:
        weights = np.where(counts > 0, (1 / mean) * (1 - 1 / mean) ** np.maximum(counts - 1, 0), 0.0)
    else:
        weights = np.exp(counts * math.log(mean) - mean - [math.lgamma(k + 1) for k in counts])
    laws = []
    for high in (chance, 1 - chance):
        none = float(weights @ (1 - high) ** counts)  # no trial reached the better outcome
        laws.append(np.array([weights[0], none - weights[0], 1 - none]))
    event = tuned((SelectionEvent(step, ADD, False, "response"),), mean=mean, shape=shape)
    worst = 0.0
    for epsilon in (0.0, 0.3, 0.6, 1.0, 1.5):
        both = [float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in (laws, laws[::-1])]
        assert max(both) <= delta_of([event], epsilon)
        worst = max(worst, max(both) - delta_of([SelectionEvent(step, ADD, False, "response")], epsilon))
    assert worst > 0.01  # selecting does cost more than one trial


@given(mean=st.floats(1, 100), shape=st.sampled_from([-0.5, 0.0, 1.0, math.inf]), z=st.floats(0.7, 10))
@checked
def test_more_trials_and_less_noise_cost_more(mean, shape, z):
    here = epsilon_of([tuned((GaussianEvent(z, ADD),), mean=mean, shape=shape)], 1e-5)
    assert here <= epsilon_of([tuned((GaussianEvent(z, ADD),), mean=1.5 * mean, shape=shape)], 1e-5) + 1e-9
    assert here <= epsilon_of([tuned((GaussianEvent(z / 1.2, ADD),), mean=mean, shape=shape)], 1e-5)
    assert here >= epsilon_of([GaussianEvent(z, ADD)], 1e-5)


def test_sampled_trials_pay_for_their_lattice():
    trial = SampledGaussianEvent(1.0, 0.01, 200, ADD)
    rough = SampledGaussianEvent(1.0, 0.01, 200, ADD, numeric_epsilon=0.01)
    one, other = Steps.of([trial]).divergences(), Steps.of([rough]).divergences()
    orders = np.array(ORDERS)
    assert other - one == pytest.approx(0.01 * orders / (orders - 1), rel=1e-6)
    assert epsilon_of([tuned((rough,))], 1e-5) > epsilon_of([tuned((trial,))], 1e-5) + 0.01


def test_cut_tails_of_every_trial_count():
    cut = tuned((GaussianEvent(2.0, ADD, numeric_delta=1e-9), NOISE), (NOISE,), mean=10.0)
    assert cut.numeric_delta == pytest.approx(1e-8, rel=1e-9)
    assert delta_of([cut], 5.0) > delta_of([tuned((NOISE, NOISE), (NOISE,), mean=10.0)], 5.0) + 1e-8


def test_there_is_no_rho_mu_or_pure_epsilon():
    event = tuned((SelectionEvent(0.1, ADD, True, "exponential"),))
    assert mu_of([event]) is None
    assert pure_epsilon_of([event]) is None
    assert rho_of([event]) is None
    assert guarantee_of([event], 1e-5).rho is None
    with pytest.raises(BudgetError, match="tuning needs"):
        guarantee_of([event], 0.0)
    for budget in (Budget.zcdp(100.0), Budget.gdp(100.0), Budget.pure(100.0)):
        assert not fits([event], budget)
        with pytest.raises(BudgetError, match="tuning needs"):
            noise_multiplier_for(budget, lambda z: [tuned((GaussianEvent(z, ADD),))])
    assert fits([event], Budget(epsilon=100.0, delta=1e-5))


def test_numbers_that_make_no_law_are_refused():
    for call in (
        lambda: halting_probability(0.5, 1.0),
        lambda: halting_probability(2.0, -1.0),
        lambda: halting_probability(1e300, 0.5),
        lambda: mean_trials_of(0.0, 1.0),
        lambda: mean_trials_of(1.5, 1.0),
        lambda: mean_trials_of(0.5, math.inf),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert Steps.of([tuned((GaussianEvent(1e-101, ADD),))]).divergences() is None
    assert delta_of([tuned((GaussianEvent(1e-101, ADD),))], 1.0) == 1.0
    assert epsilon_of([tuned((GaussianEvent(1e-101, ADD),))], 1e-5) == math.inf


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
