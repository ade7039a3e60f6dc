import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dptransfer.accounting import (
    area_ceiling,
    composition_words,
    delta_of,
    delta_of_mu,
    epsilon_of,
    guarantee_of,
    membership_advantage,
    mu_of,
    pure_epsilon_of,
    rho_of,
    selection_delta,
    true_positive_rate,
)
from dptransfer.errors import ArgumentError, BudgetError, RelationMismatch
from dptransfer.privacy import BestOfManyEvent, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

checked = settings(max_examples=25, deadline=None, derandomize=True)


def noise(z, slack=0.0, relation=ADD):
    return GaussianEvent(z, relation, numeric_epsilon=slack)


def choice(epsilon, bounded=True, relation=ADD):
    return SelectionEvent(epsilon, relation, bounded, "exponential" if bounded else "permute-and-flip")


def test_a_hundred_gaussian_releases_compose_to_ten_times_mu():
    assert mu_of([noise(7.0)] * 100) == pytest.approx(10 / 7, rel=1e-14)
    assert delta_of([noise(7.0)] * 100, 1.0) == pytest.approx(delta_of_mu(10 / 7, 1.0), rel=1e-12)
    assert delta_of([noise(7.0)] * 99, 1.0) < delta_of_mu(10 / 7, 1.0) * 0.999


def test_rho_one_half_of_gaussian_noise_costs_4_377():
    assert rho_of([noise(1.0)]) == 0.5
    assert epsilon_of([noise(1.0)], 1e-5) == pytest.approx(4.377178, abs=1e-6)
    # The same rho from selections is not Gaussian, and costs what the conversion of zCDP costs.
    assert rho_of([choice(0.2)] * 100) == pytest.approx(0.5)
    assert 4.5 < epsilon_of([choice(0.2)] * 100, 1e-5) < 4.74


def test_a_hundred_selections_cost_what_the_best_rule_says():
    assert epsilon_of([choice(0.1)] * 100, 1e-5) == pytest.approx(2.1661, abs=1e-4)  # by Rényi divergences
    assert epsilon_of([choice(0.1, bounded=False)] * 100, 1e-5) == pytest.approx(4.30679, abs=1e-4)  # by PLD
    assert pure_epsilon_of([choice(0.1)] * 100) == pytest.approx(10.0)


def test_a_single_selection_uses_the_closed_form_and_pure_epsilon_at_delta_zero():
    assert delta_of([choice(1.0)], 0.5) == selection_delta(1.0, True, 0.5)
    assert delta_of([choice(1.0)], 1.0) == 0.0 < delta_of([choice(1.0)], 0.999)
    assert epsilon_of([choice(1.0)], 0.0) == 1.0
    assert epsilon_of([choice(1.0)], 1e-5) < 0.9951 < epsilon_of([choice(1.0, bounded=False)], 1e-5)


@given(
    z=st.floats(0.8, 20),
    epsilon=st.floats(0.01, 2),
    bounded=st.booleans(),
    times=st.integers(1, 4),
    delta=st.sampled_from([1e-9, 1e-5, 1e-2]),
)
@checked
def test_a_mixture_costs_more_than_its_noise_and_less_than_both_added(z, epsilon, bounded, times, delta):
    events = [noise(z), *[choice(epsilon, bounded)] * times]
    found = epsilon_of(events, delta)
    alone = epsilon_of([noise(z)], delta)
    assert delta_of(events, found) <= delta
    assert alone <= found <= (alone + times * epsilon) * (1 + 1e-6)
    if found > 0:
        assert delta_of(events, found * (1 - 1e-6)) > delta


@given(z=st.floats(0.3, 30), more=st.floats(0.3, 30), epsilon=st.floats(0, 6))
@checked
def test_another_release_never_makes_it_cheaper(z, more, epsilon):
    epsilon = 0.0 if epsilon < 1e-300 else epsilon
    assert delta_of([noise(z)], epsilon) <= delta_of([noise(z), noise(more)], epsilon) * (1 + 1e-9)
    assert delta_of([noise(z)], epsilon) <= delta_of([noise(z), choice(0.2)], epsilon) * (1 + 1e-9)


def test_the_lattice_is_paid_for_in_epsilon_and_delta():
    slack = 0.05
    events = [noise(4.0, slack / 2), noise(4.0, slack / 2)]
    mu = math.sqrt(2) / 4
    assert delta_of(events, 1.0) == pytest.approx(math.exp(slack) * delta_of_mu(mu, 1.0 - slack), rel=1e-9)
    assert delta_of(events, 1.0) > delta_of([noise(4.0)] * 2, 1.0) * 1.1
    # At an epsilon below the slack the curve is continued, not cut off.
    at_zero = math.exp(slack) * (1 - math.exp(-slack) * (1 - delta_of_mu(mu, slack)))
    assert delta_of(events, 0.0) == pytest.approx(at_zero, rel=1e-9)
    assert mu < mu_of(events) < mu + 2 * slack


@pytest.mark.parametrize("slack", [0.0, 1e-12, 1e-3, 0.5])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.3])
def test_epsilon_was_checked_with_the_lattice_included(slack, delta):
    for events in ([noise(2.0, slack)], [noise(2.0, slack), choice(0.5)]):
        epsilon = epsilon_of(events, delta)
        assert delta_of(events, epsilon) <= delta
        assert epsilon == 0 or delta_of(events, epsilon * (1 - 1e-6)) > delta


def test_events_of_two_relations_are_not_added():
    for events in ([noise(1.0), noise(1.0, relation=REPLACE)], [noise(1.0), choice(1.0, relation=REPLACE)]):
        for call in (
            lambda e: delta_of(e, 1.0),
            lambda e: epsilon_of(e, 1e-5),
            rho_of,
            mu_of,
            pure_epsilon_of,
        ):
            with pytest.raises(RelationMismatch):
                call(events)
    assert delta_of([noise(1.0, relation=REPLACE)], 1.0) == delta_of([noise(1.0)], 1.0)  # one alone is fine


def test_no_step_at_all_costs_nothing():
    assert delta_of([], 0.0) == epsilon_of([], 0.0) == epsilon_of([], 1e-5) == 0.0
    assert rho_of([]) == mu_of([]) == pure_epsilon_of([]) == 0.0
    for relation in Relation:
        promise = guarantee_of([], 1e-5, ("public rows only",), relation=relation)
        assert (promise.epsilon, promise.delta, promise.relation) == (0.0, 0.0, relation)
        assert (promise.rho, promise.mu) == (0.0, 0.0)
        assert "(ε = 0)-differentially private" in str(promise)
    with pytest.raises(RelationMismatch, match="no events"):
        guarantee_of([], 1e-5)


def test_a_guarantee_under_another_relation_than_its_events_is_refused():
    assert guarantee_of([noise(1.0)], 1e-5, relation=ADD) == guarantee_of([noise(1.0)], 1e-5)
    with pytest.raises(RelationMismatch, match="events and replace-one"):
        guarantee_of([noise(1.0)], 1e-5, relation=REPLACE)


@given(z=st.floats(0.5, 50), times=st.integers(1, 1000), epsilon=st.floats(0.01, 5))
@checked
def test_times_is_so_many_events(z, times, epsilon):
    once = [GaussianEvent(z, ADD, times=times, numeric_epsilon=1e-9)]
    apart = [noise(z, 1e-9 / times)] * times
    assert delta_of(once, epsilon) == pytest.approx(delta_of(apart, epsilon), rel=1e-9)
    assert mu_of(once) == pytest.approx(mu_of(apart), rel=1e-9)
    assert rho_of(once) == pytest.approx(times / (2 * z * z), rel=1e-12)
    more = delta_of([GaussianEvent(z, ADD, times=2 * times, numeric_epsilon=1e-9)], epsilon)
    assert more > delta_of(once, epsilon) or more == 1.0


def test_cut_tails_add_one_plus_e_to_the_epsilon_times_their_distance():
    for epsilon in (0.0, 1.0, 3.0):
        more = delta_of([GaussianEvent(1.0, ADD, numeric_delta=1e-6)], epsilon) - delta_of(
            [noise(1.0)], epsilon
        )
        assert more == pytest.approx((1 + math.exp(epsilon)) * 1e-6, rel=1e-6)
    both = [GaussianEvent(1.0, ADD, numeric_delta=1e-6), GaussianEvent(2.0, ADD, numeric_delta=3e-6)]
    joined = delta_of(both, 1.0) - delta_of([noise(1.0), noise(2.0)], 1.0)
    assert joined == pytest.approx((1 + math.e) * 4e-6, rel=1e-6)


def test_that_constant_is_reached_and_half_of_it_would_be_wrong():
    """Two laws on three outcomes: each moved by total variation η to where it hurts."""
    ideal_p, ideal_q, eta, epsilon = np.array([0.6, 0.2, 0.2]), np.array([0.3, 0.35, 0.35]), 0.01, 0.4
    ran_p = ideal_p + np.array([eta, -eta, 0])
    ran_q = ideal_q + np.array([-eta, 0, eta])

    def delta(p, q):
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())

    assert delta(ran_p, ran_q) == pytest.approx(delta(ideal_p, ideal_q) + (1 + math.exp(epsilon)) * eta)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
@pytest.mark.parametrize("cut", [1e-25, 1e-15, 1e-11])
def test_epsilon_was_checked_with_cut_tails_included(cut, delta):
    for events in (
        [GaussianEvent(2.0, ADD, numeric_delta=cut)],
        [GaussianEvent(2.0, ADD, numeric_delta=cut), choice(0.5)],
    ):
        found = epsilon_of(events, delta)
        assert delta_of(events, found) <= delta < delta_of(events, found * (1 - 1e-6))


def test_tails_cut_by_more_than_a_negligible_amount_leave_no_rho_and_no_mu():
    cut = [GaussianEvent(2.0, ADD, numeric_delta=1e-25)]
    assert (rho_of(cut), mu_of(cut)) == (0.125, 0.5)
    cut = [GaussianEvent(2.0, ADD, numeric_delta=1e-19)]
    assert rho_of(cut) is mu_of(cut) is None
    assert guarantee_of(cut, 1e-5).rho is None
    assert guarantee_of(cut, 1e-5).epsilon >= guarantee_of([noise(2.0)], 1e-5).epsilon
    assert epsilon_of([GaussianEvent(2.0, ADD, numeric_delta=0.5)], 1e-5) == math.inf


def test_mu_needs_all_gaussian_and_pure_needs_none():
    mixed = [noise(2.0), choice(0.5)]
    assert mu_of(mixed) is None
    assert pure_epsilon_of(mixed) is None
    assert rho_of(mixed) == pytest.approx(1 / 8 + 1 / 32)
    assert rho_of([noise(2.0), choice(0.5, bounded=False)]) == pytest.approx(1 / 8 + 1 / 8)
    assert mu_of([noise(2.0)]) == 0.5
    assert pure_epsilon_of([choice(0.5)]) == 0.5


def test_a_guarantee_carries_every_currency_and_the_relation():
    guarantee = guarantee_of([noise(2.0, relation=REPLACE)], 1e-5, ("real arithmetic",))
    assert guarantee.epsilon == epsilon_of([noise(2.0, relation=REPLACE)], 1e-5)
    assert (guarantee.delta, guarantee.rho, guarantee.mu) == (1e-5, 0.125, 0.5)
    assert guarantee.relation is REPLACE
    assert "replacing one example" in str(guarantee)
    assert "real arithmetic" in str(guarantee)
    assert guarantee_of([choice(0.5)], 1e-5).mu is None


def test_how_steps_are_added_up_is_said_in_words():
    tuned, sampled = BestOfManyEvent(((noise(2.0),),), 5, 1.0), SampledGaussianEvent(1.0, 0.1, 5, ADD)
    for events, said in (
        ([noise(1.0)], "exact Gaussian curve"),
        ([choice(1.0)], "the sum of their"),
        ([noise(1.0), choice(1.0)], "with selections"),
        ([noise(1.0), sampled], "random samples"),
        ([sampled, tuned], "only the best was released"),
    ):
        assert said in composition_words(events)


def test_a_guarantee_says_delta_zero_where_delta_buys_nothing():
    assert guarantee_of([choice(1e-4)], 0.0).delta == 0
    assert guarantee_of([choice(1.0)], 1e-5).delta == 1e-5
    assert guarantee_of([choice(0.7)], 1e-300).delta == 0
    with pytest.raises(BudgetError, match="pure-epsilon"):
        guarantee_of([noise(1.0)], 0.0)


def test_extreme_events_do_not_overflow():
    assert delta_of([noise(1e-200)], 1.0) == 1.0
    assert delta_of([noise(1e300)], 0.0) < 1e-299
    assert delta_of([choice(5000.0), noise(1.0)], 1.0) == 1.0
    assert epsilon_of([noise(1e-200)], 1e-5) == math.inf
    assert epsilon_of([noise(1.7e308)], 1e-5) == 0.0
    assert delta_of([noise(5.0, 2.0)], 9.0) == 1.0  # a lattice so coarse is not a Gaussian any more
    assert 0 < epsilon_of([noise(5.0)], 3e-308) < 10


@pytest.mark.parametrize("bad", [math.nan, -1.0, 5e-324])
def test_numbers_that_are_not_numbers_are_refused(bad):
    for call in (delta_of, epsilon_of, guarantee_of):
        with pytest.raises(ArgumentError):
            call([noise(1.0)], bad)


def test_importing_accounting_imports_neither_scipy_nor_dp_accounting():
    code = (
        "import sys; from dptransfer.accounting import fits, Requests; "
        "print(*(name in sys.modules for name in ('scipy', 'dp_accounting', 'numpy')))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False", "True"]


LOUD = GaussianEvent(0.8, Relation.ADD_REMOVE)
ODDS = SelectionEvent(1.5, Relation.ADD_REMOVE, False, "permute-and-flip")


@given(z=st.floats(0.2, 20), rate=st.floats(1e-9, 0.999))
@checked
def test_gaussian_noise_limits_the_attacker_exactly(z, rate):
    exact = norm.cdf(norm.ppf(rate) + 1 / z)
    found = true_positive_rate([noise(z)], rate)
    assert exact <= found <= min(1.0, exact * (1 + 1e-8))
    assert found > norm.cdf(norm.ppf(rate) + 0.99 / z) or found == 1.0


def test_the_likelihood_ratio_attack_reaches_the_limit_and_does_not_pass_it():
    rng = np.random.default_rng(3)
    inside, outside = rng.normal(1.0, 1.0, 400_000), rng.normal(0.0, 1.0, 400_000)
    for threshold in (0.0, 1.0, 2.0):
        false, true = (outside > threshold).mean(), (inside > threshold).mean()
        limit = true_positive_rate([noise(1.0)], float(false))
        assert true <= limit + 0.01
        assert true >= limit - 0.01
        assert true > true_positive_rate([noise(1.2)], float(false))  # more noise would be contradicted


def test_randomised_response_is_limited_by_its_corner():
    chance = 1 / (1 + math.exp(-1.0))
    found = true_positive_rate([choice(1.0, bounded=False)], 1 - chance)
    assert chance <= found <= chance * 1.02
    assert true_positive_rate([choice(0.9, bounded=False)], 1 - chance) < chance


@given(epsilon=st.floats(0.05, 4), rate=st.floats(1e-6, 0.99))
@checked
def test_bounded_range_is_limited_by_the_shifted_logistic(epsilon, rate):
    logit = math.log(rate / (1 - rate)) + epsilon
    exact = 1 / (1 + math.exp(-logit))
    found = true_positive_rate([choice(epsilon)], rate)
    assert exact * (1 - 1e-9) <= found <= min(1.0, math.exp(epsilon) * rate * (1 + 1e-9))
    assert found <= exact * 1.03


def test_mixtures_and_lattices_give_the_attacker_more():
    alone = true_positive_rate([noise(2.0)], 0.01)
    assert true_positive_rate([noise(2.0), choice(0.5)], 0.01) > alone
    assert true_positive_rate([noise(2.0, 0.01)], 0.01) > alone
    assert true_positive_rate([noise(2.0, 0.01)], 0.01) < alone * 1.1


def test_a_rate_of_zero_gives_nothing_and_weak_noise_gives_everything():
    assert true_positive_rate([noise(1.0)], 0.0) == 0.0
    assert true_positive_rate([choice(1.0)], 0.0) < 1e-12
    assert true_positive_rate([noise(1e-3)], 0.01) == 1.0
    assert true_positive_rate([noise(1e-3, 1e-3)], 0.01) == 1.0


def test_advantage_is_the_total_variation():
    assert membership_advantage([noise(1.0)]) == pytest.approx(2 * norm.cdf(0.5) - 1, rel=1e-12)
    assert membership_advantage([choice(1.0)]) == pytest.approx(math.tanh(0.25), rel=1e-12)
    assert membership_advantage([noise(1.1)]) < membership_advantage([noise(1.0)])
    rates = np.linspace(0.01, 0.99, 99)
    gaps = [true_positive_rate([noise(1.0)], float(rate)) - rate for rate in rates]
    assert max(gaps) == pytest.approx(membership_advantage([noise(1.0)]), rel=1e-3)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.0, 5e-324])
def test_a_rate_that_is_no_rate_is_refused(bad):
    with pytest.raises(ArgumentError):
        true_positive_rate([noise(1.0)], bad)


def test_without_private_rows_an_attack_is_a_guess():
    assert membership_advantage([]) == 0.0
    assert area_ceiling([]) == 0.5 < area_ceiling([LOUD]) - 0.1
    for rate in (0.0, 0.01, 0.5):
        assert true_positive_rate([], rate) == rate


def test_the_area_is_that_under_the_rates():
    """The same curve by another route."""
    for events in ([LOUD], [ODDS]):
        alarms = np.linspace(0, 1, 201)[:-1]
        under = np.trapezoid([true_positive_rate(events, float(rate)) for rate in alarms] + [1.0], dx=1 / 200)
        assert under - 1e-3 < area_ceiling(events) < under + 5e-3


def test_randomised_response_reaches_the_area_of_pure_privacy():
    """The law that is worst for pure ε: the truth with odds e^ε."""
    truth = np.exp(1.5) / (1 + np.exp(1.5))
    assert area_ceiling([ODDS]) == pytest.approx(truth, abs=1e-3)
    assert area_ceiling([ODDS]) >= truth


def test_cut_tails_help_an_attacker_on_both_sides():
    """Laws that are η off the ideal ones: so many more alarms, and so many more hits."""
    cut = 1e-21
    event = GaussianEvent(0.8, Relation.ADD_REMOVE, numeric_delta=cut)
    assert true_positive_rate([event], 1e-25) >= cut + norm.cdf(norm.ppf(cut) + 1 / 0.8)
    assert true_positive_rate([replace(event, noise_multiplier=1e9)], 1e-25) >= 2 * cut
