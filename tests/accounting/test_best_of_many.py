import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import (
    delta_of,
    epsilon_of,
    fits,
    guarantee_of,
    halting_probability,
    mean_trials_of,
    mu_of,
    noise_multiplier_for,
    pure_epsilon_of,
    rho_of,
)
from dptransfer.accounting.renyi import ORDERS
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


def test_it_composes_with_other_events_and_nests():
    before = [GaussianEvent(4.0, ADD), SelectionEvent(0.1, ADD, True, "exponential")]
    together = epsilon_of([*before, tuned()], 1e-5)
    assert epsilon_of([tuned()], 1e-5) < together
    assert delta_of([*before, tuned()], together) <= 1e-5
    assert together < epsilon_of([tuned()], 1e-5) + epsilon_of(before, 1e-5)
    nested = tuned((tuned(mean=3.0, shape=1.0),), mean=3.0, shape=1.0)
    assert epsilon_of([tuned(mean=3.0, shape=1.0)], 1e-5) < epsilon_of([nested], 1e-5)


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
    with pytest.raises(BudgetError, match=r"tuning needs an \(epsilon, delta\) budget"):
        rho_of([event])
    assert guarantee_of([event], 1e-5).rho is None
    with pytest.raises(BudgetError, match="tuning needs"):
        guarantee_of([event], 0.0)
    for budget in (Budget.zcdp(100.0), Budget.gdp(100.0), Budget.pure(100.0)):
        assert not fits([event], budget)
        with pytest.raises(BudgetError, match="tuning needs"):
            noise_multiplier_for(budget, lambda z: [tuned((GaussianEvent(z, ADD),))])
    assert fits([event], Budget(epsilon=100.0, delta=1e-5))


def test_calibration_finds_noise_for_tuned_steps():
    budget = Budget(epsilon=1.0, delta=1e-5)

    def make(z):
        return [tuned((SampledGaussianEvent(z, 0.01, 500, ADD),), (GaussianEvent(4 * z, ADD),), mean=10.0)]

    z = noise_multiplier_for(budget, make)
    assert fits(make(z), budget)
    assert not fits(make(z * (1 - 2e-6)), budget)


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
