import math

import pytest

from dptransfer.accounting import Requests, epsilon_of, fits, guarantee_of, mu_for, noise_multiplier_for
from dptransfer.accounting.renyi import ORDERS
from dptransfer.accounting.requests import RESERVE, SHARE, _order, _room
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
)

ADD = Relation.ADD_REMOVE
BUDGET = Budget(epsilon=1.0, delta=1e-5)
SAMPLED = SampledGaussianEvent(4.0, 0.05, 100, ADD)
TUNED = BestOfManyEvent(((GaussianEvent(20.0, ADD),),), 5, 1.0)


def gauss(noise_multiplier, **numerics):
    return GaussianEvent(noise_multiplier, ADD, **numerics)


def chosen(epsilon):
    return SelectionEvent(epsilon, ADD, True, "exponential")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("numerics", [{}, {"numeric_epsilon": 1e-12, "numeric_delta": 1e-50}])
def test_gaussian_requests_lose_nothing(part, numerics):
    first = gauss(1 / (part * mu_for(1.0, 1e-5)), **numerics)
    smallest = noise_multiplier_for(BUDGET, lambda z: [first, gauss(z, **numerics)]) * (1 + 1e-9)
    assert Requests.of([[first], [gauss(smallest, **numerics)]]).fit(BUDGET)
    assert not Requests.of([[first], [gauss(smallest * (1 - 1e-6), **numerics)]]).fit(BUDGET)


@pytest.mark.parametrize(
    ("budget", "requests"),
    [
        (Budget(epsilon=1.0), [[chosen(0.4)], [chosen(0.6)]]),
        (Budget(epsilon=1.0, delta=1e-5), [[chosen(0.4)], [chosen(0.6)]]),
        (Budget.zcdp(0.25), [[gauss(2.0)], [chosen(1.0)]]),
        (Budget.gdp(0.5), [[gauss(math.sqrt(8))], [gauss(math.sqrt(8))]]),
    ],
)
def test_sums_of_epsilon_rho_and_mu_squared_are_filled_to_the_brim(budget, requests):
    assert Requests.of(requests).fit(budget)
    assert not Requests.of([*requests, [chosen(1e-3) if budget.mu is None else gauss(1e3)]]).fit(budget)


@pytest.mark.parametrize(
    "first", [[gauss(4.0)], [chosen(0.5)], [SAMPLED], [TUNED], [gauss(9.0), SAMPLED, chosen(0.1)]]
)
def test_one_request_is_composed_exactly_whatever_it_holds(first):
    alone = Requests.of([first])
    assert alone.guarantee(1e-5, ADD) == guarantee_of(first, 1e-5)
    exact = Budget(epsilon=epsilon_of(first, 1e-5), delta=1e-5)
    assert alone.fit(exact)
    assert not alone.fit(Budget(epsilon=exact.epsilon * 0.999, delta=1e-5))
    assert not Requests.of([first, [gauss(1e3)]]).fit(exact)  # a full account grants nothing more


def test_the_first_request_is_composed_exactly_with_what_follows():
    first = [chosen(0.5)]
    rest = noise_multiplier_for(BUDGET, lambda z: [*first, gauss(z)]) * (1 + 1e-8)
    assert Requests.of([first, [gauss(rest)]]).fit(BUDGET)
    assert not Requests.of([[gauss(rest)], first]).fit(BUDGET)  # asked for later, the selection costs more


def test_only_what_is_fixed_in_advance_may_use_the_curve_of_the_whole():
    steps = [gauss(1 / 0.2144), SampledGaussianEvent(0.288, 1e-4, 1, ADD)]
    assert fits(steps, BUDGET)
    assert Requests.of([steps]).fit(BUDGET)
    assert not Requests.of([[one] for one in steps]).fit(BUDGET)


def test_the_rule_is_the_owners_or_the_first_requests():
    assert Requests.of([[gauss(4.0)], [TUNED]]).rule == "gaussian"
    assert Requests.of([[chosen(0.1)], [TUNED]]).rule == "gaussian"
    for first in ([SAMPLED], [TUNED], [gauss(4.0), SAMPLED]):
        assert Requests.of([first, [gauss(4.0)]]).rule == "renyi"
        assert Requests.of([first, [gauss(4.0)]], "gaussian").rule == "gaussian"
    assert Requests.of([[], [SAMPLED]]).first == (SAMPLED,)  # a request without steps says nothing


def test_tuned_steps_after_others_fit_by_renyi_where_they_do_not_in_mu():
    requests = [[gauss(9.0)], [TUNED]]
    assert not Requests.of(requests).fit(BUDGET)
    assert Requests.of(requests, "renyi").fit(BUDGET)


@pytest.mark.parametrize("rule", ["gaussian", "renyi"])
@pytest.mark.parametrize("later", [[gauss(6.0)], [SAMPLED], [chosen(0.2)], [TUNED]])
def test_the_stated_epsilon_is_that_of_the_smallest_budget_that_grants_them(rule, later):
    requests = Requests.of([[gauss(8.0)], later], rule)
    stated = requests.guarantee(1e-5, ADD).epsilon
    assert requests.fit(Budget(epsilon=stated * (1 + 1e-6), delta=1e-5))
    assert not requests.fit(Budget(epsilon=stated * (1 - 1e-6), delta=1e-5))
    assert stated >= epsilon_of(requests.events, 1e-5) * (1 - 1e-9)  # never less than if fixed in advance


def test_a_limit_and_the_stated_epsilon_never_disagree():
    for parts in (1, 3, 10, 30):
        requests = Requests.of([[SAMPLED]] * parts)
        for limit in (0.3, 0.7, 1.0, 1.5, 3.0):
            stated = requests.guarantee(1e-5, ADD, limit).epsilon
            assert (stated <= limit) == requests.fit(Budget(epsilon=limit, delta=1e-5))


@pytest.mark.parametrize("epsilon", [1e-7, 1.0, 2e4])
def test_by_renyi_a_budget_of_any_size_is_judged_at_its_own_order(epsilon):
    """Not at that of a smaller ε, which would depend on what was asked for."""
    delta = 1e-3
    order = _order(epsilon, delta * (1 - RESERVE))
    most = math.sqrt(_room(epsilon, delta * (1 - RESERVE))[order] / ORDERS[order])  # μ of each of two
    for factor, granted in ((0.999, True), (1.001, False)):
        requests = Requests.of([[gauss(1 / (factor * most))]] * 2, "renyi")
        assert requests.fit(Budget(epsilon=epsilon, delta=delta)) == granted


def test_requests_without_any_price_are_refused_and_not_an_error():
    for later in (chosen(70.0), chosen(1000.0), BestOfManyEvent(((gauss(0.1),),), 5, 1.0)):
        requests = Requests.of([[gauss(9.0)], [later]])
        assert not requests.fit(BUDGET)
        assert math.isinf(requests.guarantee(1e-5, ADD).epsilon)


def test_what_is_kept_back_runs_out_before_it_is_overdrawn():
    most = round(RESERVE / 2 / SHARE)
    tiny = [SampledGaussianEvent(1e4, 1e-3, 1, ADD)]
    wide = Budget(epsilon=3.0, delta=1e-5)
    assert Requests.of([[gauss(4.0)], *[tiny] * most]).fit(wide)
    assert not Requests.of([[gauss(4.0)], *[tiny] * (most + 1)]).fit(wide)
    assert Requests.of([[gauss(4.0)], *[[gauss(1e4)]] * (most + 1)]).fit(wide)
    cut = gauss(1e4, numeric_delta=1e-5 * RESERVE)
    assert not Requests.of([[gauss(4.0)], [cut]]).fit(wide)
