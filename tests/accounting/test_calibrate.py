import inspect
import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import (
    delta_of,
    delta_of_mu,
    fits,
    largest_times,
    noise_multiplier_for,
    selection_epsilon_for,
    warn_if_weak,
)
from dptransfer.accounting.calibrate import WEAK_DELTA_WARNING, WEAK_EPSILON_WARNING
from dptransfer.errors import BudgetError, PrivacyWarning, RelationMismatch
from dptransfer.privacy import Budget, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

checked = settings(max_examples=30, deadline=None, derandomize=True)


def noise(z, slack=0.0, relation=ADD):
    return GaussianEvent(z, relation, numeric_epsilon=slack)


def choice(epsilon, bounded=True, relation=ADD):
    return SelectionEvent(epsilon, relation, bounded, "exponential")


def test_sums_with_counts_need_scale_5_276_at_epsilon_one():
    budget = Budget(epsilon=1.0, delta=1e-5)
    z = noise_multiplier_for(budget, lambda z: [GaussianEvent(z, ADD, sensitivity=math.sqrt(2))])
    assert GaussianEvent(z, ADD, sensitivity=math.sqrt(2)).scale == pytest.approx(5.276, abs=5e-4)
    assert delta_of([GaussianEvent(1.23 / math.sqrt(2), ADD)], 1.0) > 0.17  # the printed scale, for contrast
    replaced = GaussianEvent(z, REPLACE, sensitivity=2.0)
    assert replaced.scale == pytest.approx(7.461, abs=5e-4)


BUDGETS = [
    Budget(epsilon=1.0, delta=1e-5),
    Budget(epsilon=0.05, delta=1e-9),
    Budget(epsilon=20.0, delta=1e-2),
    Budget.zcdp(0.3),
    Budget.gdp(0.7),
    Budget(epsilon=1.0, delta=1e-5, relation=REPLACE),
]

PLANS = {
    "one release": lambda z, r: [noise(z, relation=r)],
    "a hundred": lambda z, r: [noise(z, relation=r)] * 100,
    "on a lattice": lambda z, r: [noise(z, 1e-7, r)] * 3,
    "with a selection": lambda z, r: [noise(z, relation=r), choice(0.02, relation=r)],
}


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("plan", PLANS)
def test_the_noise_fits_and_the_next_smaller_noise_fails_the_budget(budget, plan):
    def make(z):
        return PLANS[plan](z, budget.relation)

    if budget.mu is not None and plan == "with a selection":
        with pytest.raises(BudgetError, match="Gaussian noise only"):
            noise_multiplier_for(budget, make)
        return
    z = noise_multiplier_for(budget, make)
    assert fits(make(z), budget)
    assert not fits(make(z * (1 - 2e-6)), budget)


@given(epsilon=st.floats(0.01, 20), more=st.floats(1.01, 3), log_delta=st.floats(-30, -2))
@checked
def test_a_larger_budget_needs_less_noise(epsilon, more, log_delta):
    delta = math.exp(log_delta)
    small = noise_multiplier_for(Budget(epsilon=epsilon, delta=delta), lambda z: [noise(z)])
    large = noise_multiplier_for(Budget(epsilon=epsilon * more, delta=delta), lambda z: [noise(z)])
    wide = noise_multiplier_for(Budget(epsilon=epsilon, delta=delta * more), lambda z: [noise(z)])
    assert large < small
    assert wide < small


@pytest.mark.parametrize("budget", [b for b in BUDGETS if b.mu is None], ids=str)
@pytest.mark.parametrize("times", [1, 20])
def test_the_selection_epsilon_fits_and_the_next_larger_one_fails(budget, times):
    def make(epsilon):
        return [choice(epsilon, relation=budget.relation)] * times

    epsilon = selection_epsilon_for(budget, make)
    assert fits(make(epsilon), budget)
    assert not fits(make(epsilon * (1 + 2e-6)), budget)


def test_a_pure_budget_is_shared_exactly():
    assert selection_epsilon_for(Budget.pure(0.3), lambda e: [choice(e)]) == 0.3
    assert selection_epsilon_for(Budget.pure(1.0), lambda e: [choice(e)] * 4) == 0.25
    uneven = selection_epsilon_for(Budget.pure(1.0), lambda e: [choice(e), choice(0.4)])
    assert uneven == pytest.approx(0.6, rel=1e-5)
    assert uneven <= 0.6


def test_gaussian_noise_never_fits_a_pure_budget():
    assert not fits([noise(1e9)], Budget.pure(10.0))
    assert fits([choice(10.0)], Budget.pure(10.0))
    with pytest.raises(BudgetError, match="pure-epsilon"):
        noise_multiplier_for(Budget.pure(1.0), lambda z: [noise(z)])
    with pytest.raises(BudgetError, match="top-k"):
        selection_epsilon_for(Budget.pure(1.0), lambda e: [noise(5.0), choice(e)])


def test_every_flavour_is_counted_in_its_own_currency():
    assert fits([noise(1.0)], Budget.zcdp(0.5))
    assert not fits([noise(1.0)], Budget.zcdp(0.4999))
    assert fits([choice(2.0)], Budget.zcdp(0.5))
    assert not fits([choice(2.0, bounded=False)], Budget.zcdp(0.5))
    assert fits([noise(1.0)], Budget.gdp(1.0))
    assert not fits([noise(1.0, 1e-6)], Budget.gdp(1.0))  # the lattice is paid for
    assert not fits([choice(1e-3)], Budget.gdp(1.0))
    assert fits([choice(1.0)], Budget.pure(1.0))
    assert not fits([choice(1.001)], Budget.pure(1.0))


def test_the_budgets_relation_must_be_the_events():
    with pytest.raises(RelationMismatch, match="the budget add"):
        fits([noise(1.0, relation=REPLACE)], Budget(epsilon=1.0, delta=1e-5))
    with pytest.raises(RelationMismatch):
        noise_multiplier_for(Budget(epsilon=1.0, delta=1e-5, relation=REPLACE), lambda z: [noise(z)])
    assert fits([noise(9.0, relation=REPLACE)], Budget(epsilon=1.0, delta=1e-5, relation=REPLACE))


def test_a_budget_that_nothing_fits_is_refused_with_a_remedy():
    with pytest.raises(BudgetError, match="Raise epsilon"):
        noise_multiplier_for(Budget(epsilon=1.0, delta=1e-5), lambda z: [noise(z), choice(5.0)])
    with pytest.raises(BudgetError, match="Raise epsilon"):
        selection_epsilon_for(Budget.zcdp(0.1), lambda e: [noise(1.0), choice(e)])


def test_no_events_fit_every_budget():
    for relation in Relation:
        for budget in (Budget.pure(1e-9, relation=relation), Budget.zcdp(1e-9), Budget.gdp(1e-9)):
            assert fits([], budget)


@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 28), (3.0, 206)])
def test_noise_of_twenty_allows_the_known_number_of_steps(epsilon, times):
    budget = Budget(epsilon=epsilon, delta=1e-5)

    def make(count):
        return [GaussianEvent(20.0, ADD, times=count)]

    assert largest_times(budget, make) == times
    assert fits(make(times), budget)
    assert not fits(make(times + 1), budget)
    assert largest_times(budget, make, at_most=10) == 10


def test_a_budget_for_not_even_one_step_is_refused_with_a_remedy():
    with pytest.raises(BudgetError, match="the noise multiplier"):
        largest_times(Budget(epsilon=0.1, delta=1e-5), lambda times: [GaussianEvent(1.0, ADD, times=times)])
    with pytest.raises(BudgetError, match="pure-epsilon"):
        largest_times(Budget.pure(1.0), lambda times: [GaussianEvent(1.0, ADD, times=times)])


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("rate", "times", "epsilon"), [(0.01, 1000, 1.0), (0.1, 200, 8.0), (0.5, 1, 0.3)])
def test_sampled_noise_fits_and_the_next_smaller_fails(relation, rate, times, epsilon):
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)

    def make(z):
        return [SampledGaussianEvent(z, rate, times, relation)]

    z = noise_multiplier_for(budget, make)
    assert fits(make(z), budget)
    assert not fits(make(z * (1 - 2e-6)), budget)


@pytest.mark.parametrize(
    ("relation", "rate", "times", "z"),
    [(ADD, 0.01, 1000, 1.4149), (ADD, 0.1, 200, 5.4270), (REPLACE, 0.01, 1000, 2.3651)],
)
def test_sampled_noise_is_the_known_one(relation, rate, times, z):
    budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
    found = noise_multiplier_for(budget, lambda z: [SampledGaussianEvent(z, rate, times, relation)])
    assert found == pytest.approx(z, rel=1e-3)


def test_sampled_noise_in_other_currencies_is_that_without_sampling():
    def make(z):
        return [SampledGaussianEvent(z, 0.01, 100, ADD)]

    assert noise_multiplier_for(Budget.gdp(0.5), make) == pytest.approx(20.0, rel=1e-8)
    assert noise_multiplier_for(Budget.zcdp(0.125), make) == pytest.approx(20.0, rel=1e-8)
    with pytest.raises(BudgetError, match="pure-epsilon"):
        noise_multiplier_for(Budget.pure(1.0), make)
    # A budget so large that the smallest noise fits, and one that a selection has used up.
    assert noise_multiplier_for(Budget(epsilon=1e6, delta=1e-5), make) == 1 / 40
    with pytest.raises(BudgetError, match="Raise epsilon"):
        noise_multiplier_for(Budget(epsilon=1.0, delta=1e-5), lambda z: [*make(z), choice(5.0)])


def test_cut_tails_fit_rho_and_mu_only_while_they_are_negligible():
    for cut, fine in ((1e-25, True), (1e-15, False)):
        event = GaussianEvent(10.0, ADD, numeric_delta=cut)
        assert fits([event], Budget(epsilon=1.0, delta=1e-5))
        for budget in (Budget.zcdp(1.0), Budget.gdp(1.0)):
            assert fits([event], budget) is fine
            if not fine:
                with pytest.raises(BudgetError, match="tails cut"):
                    noise_multiplier_for(budget, lambda z: [GaussianEvent(z, ADD, numeric_delta=1e-15)])


def test_calibration_with_sampled_steps_takes_few_looks():
    from dptransfer.accounting import steps

    budget = Budget(epsilon=1.0, delta=1e-5)
    steps._distribution.cache_clear()
    noise_multiplier_for(budget, lambda z: [SampledGaussianEvent(z, 0.02, 500, ADD)])
    assert steps._distribution.cache_info().misses <= 14


def said(budget, size=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_weak(budget, size)
    assert all(one.category is PrivacyWarning for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("budget", "weak"),
    [
        (Budget(epsilon=10.0, delta=1e-5), False),
        (Budget(epsilon=10.0001, delta=1e-5), True),
        (Budget(epsilon=700.0, delta=1e-5), True),
        (Budget.pure(10.0), False),
        (Budget.pure(11.0), True),
    ],
)
def test_an_epsilon_above_ten_brings_a_warning_in_every_currency(budget, weak):
    assert said(budget) == [WEAK_EPSILON_WARNING] * weak


def test_rho_and_mu_are_judged_by_the_epsilon_they_have_at_their_delta():
    mu = 2.0
    while delta_of_mu(mu, 10.0) < 1e-5:
        mu += 1e-3
    for factor, weak in ((0.998, False), (1.002, True)):
        assert said(Budget.gdp(factor * mu)) == [WEAK_EPSILON_WARNING] * weak
        assert said(Budget.zcdp((factor * mu) ** 2 / 2)) == [WEAK_EPSILON_WARNING] * weak


@pytest.mark.parametrize(
    ("delta", "size", "weak"),
    [
        (1e-3, None, False),
        (1.01e-3, None, True),
        (1e-5, 10_000, False),
        (1e-5, 10_001, True),
        (0.0, 10**9, False),
    ],
)
def test_a_delta_above_a_tenth_of_one_over_the_declared_size_brings_a_warning(delta, size, weak):
    assert said(Budget(epsilon=1.0, delta=delta), size) == [WEAK_DELTA_WARNING] * weak


@pytest.mark.parametrize(
    "budget",
    [Budget(epsilon=700.0001, delta=1e-5), Budget.pure(1e308), Budget.zcdp(1e308), Budget.gdp(40.0)],
)
def test_an_epsilon_that_bounds_nothing_is_refused(budget):
    with pytest.raises(BudgetError, match="at most 700"):
        warn_if_weak(budget)


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.999])
def test_a_delta_of_a_tenth_is_refused_whatever_the_size(delta):
    for size in (None, 1):
        with pytest.raises(BudgetError, match=r"below 0\.1"):
            warn_if_weak(Budget(epsilon=1.0, delta=delta), size)
    said(Budget(epsilon=1.0, delta=math.nextafter(0.1, 0)))


def test_both_are_said_and_neither_names_a_number_of_the_budget():
    """One text for all budgets, so that a sweep over a hundred of them is one warning each."""
    first, second = said(Budget(epsilon=50.0, delta=0.01)), said(Budget(epsilon=60.0, delta=0.02), 10**6)
    assert first == second == [WEAK_EPSILON_WARNING, WEAK_DELTA_WARNING]


def test_a_warning_points_at_the_line_that_asked_and_is_shown_once_in_a_loop():
    def asks():
        warn_if_weak(Budget.pure(50.0), stacklevel=2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(5):
            asks()  # this line
    (shown,) = caught
    assert shown.filename == __file__
    assert inspect.getsource(inspect.getmodule(asks)).splitlines()[shown.lineno - 1].endswith("# this line")
