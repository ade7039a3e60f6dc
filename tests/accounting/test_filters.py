import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest

import dptransfer.accounting.filters as requests_module
from dptransfer.accounting import (
    Requests,
    delta_of,
    epsilon_of,
    fits,
    gdp_price,
    guarantee_of,
    mu_for,
    mu_of,
    mu_with_slack,
    noise_multiplier_for,
)
from dptransfer.accounting.exact_curves import deltas_of_mu
from dptransfer.accounting.filters import (
    BASIC_SHARE,
    RESERVE,
    SHARE,
    _order,
    _pair_epsilon,
    _price,
    _room,
    _smallest_mu,
)
from dptransfer.accounting.renyi import ORDERS
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    DisjointEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


BUDGET = Budget(epsilon=1.0, delta=1e-5)

RULE = replace(BUDGET, delta=1e-5 * (1 - BASIC_SHARE))  # what the rule beside basic composition has

SAMPLED = SampledGaussianEvent(4.0, 0.05, 100, ADD)

TUNED = BestOfManyEvent(((GaussianEvent(20.0, ADD),),), 5, 1.0)


def gauss(noise_multiplier, **numerics):
    return GaussianEvent(noise_multiplier, ADD, **numerics)


def chosen(epsilon):
    return SelectionEvent(epsilon, ADD, True, "exponential")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("numerics", [{}, {"numeric_epsilon": 1e-12, "numeric_delta": 1e-50}])
def test_gaussian_requests_lose_the_share_of_basic_composition_and_nothing_else(part, numerics):
    first = gauss(1 / (part * mu_for(1.0, 1e-5)), **numerics)
    smallest = noise_multiplier_for(RULE, lambda z: [first, gauss(z, **numerics)]) * (1 + 1e-9)
    assert Requests.of([[first], [gauss(smallest, **numerics)]]).fit(BUDGET)
    assert not Requests.of([[first], [gauss(smallest * (1 - 1e-6), **numerics)]]).fit(BUDGET)


def test_a_budget_in_mu_grants_nothing_that_has_no_mu():
    asked = [[gauss(8.0)], [SelectionEvent(1e-3, ADD, True, "exponential")]]
    assert not Requests.of(asked).fit(Budget.gdp(0.5))
    assert not Requests.of(asked[::-1]).fit(Budget.gdp(0.5))
    assert Requests.of(asked[:1] * 2).fit(Budget.gdp(0.5))


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
    rest = noise_multiplier_for(RULE, lambda z: [*first, gauss(z)]) * (1 + 1e-8)
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
    requests = [[gauss(9.0)], [TUNED], [gauss(9.0)], [gauss(9.0)]]
    assert not Requests.of(requests).fit(BUDGET)
    assert Requests.of(requests, "renyi").fit(replace(BUDGET, epsilon=1.1))
    assert not Requests.of(requests).fit(replace(BUDGET, epsilon=1.1))


@pytest.mark.parametrize("rule", ["gaussian", "renyi"])
@pytest.mark.parametrize("later", [[gauss(6.0)], [SAMPLED], [chosen(0.2)], [TUNED], [chosen(0.02)] * 30])
def test_the_stated_epsilon_is_that_of_the_smallest_budget_that_grants_them(rule, later):
    requests = Requests.of([[gauss(8.0)], later], rule)
    stated = requests.guarantee(1e-5, ADD).epsilon
    assert requests.fit(Budget(epsilon=stated * (1 + 1e-6), delta=1e-5))
    assert not requests.fit(Budget(epsilon=stated * (1 - 1e-6), delta=1e-5))
    assert stated >= epsilon_of(requests.events, 1e-5) * (1 - 1e-9)  # never less than if fixed in advance


@pytest.mark.parametrize("epsilon", [1e-7, 1.0, 2e4])
def test_by_renyi_a_budget_of_any_size_is_judged_at_its_own_order(epsilon):
    """Not at that of a smaller ε, which would depend on what was asked for."""
    delta = 1e-3
    left = delta * (1 - BASIC_SHARE) * (1 - RESERVE)
    order = _order(epsilon, left)
    most = math.sqrt(2 * _room(epsilon, left)[order] / ORDERS[order] / 40)  # μ of each of 40
    for factor, granted in ((0.999, True), (1.001, False)):
        requests = Requests.of([[gauss(1 / (factor * most))]] * 40, "renyi")
        assert requests.fit(Budget(epsilon=epsilon, delta=delta)) == granted


def test_requests_without_any_price_are_refused_and_not_an_error():
    for later in (gauss(1e4, numeric_delta=1e-5), GaussianEvent(1e-200, ADD)):
        requests = Requests.of([[gauss(9.0)], [later]])
        assert not requests.fit(BUDGET)
        assert math.isinf(requests.guarantee(1e-5, ADD).epsilon)
    loud = [BestOfManyEvent(((GaussianEvent(0.1, ADD),),), 5, 1.0)]
    assert math.isinf(Requests.of([[gauss(9.0)], loud])._by_rule(RULE.delta, None))
    assert math.isinf(Requests.of([[SAMPLED], [gauss(1e-200)]])._by_rule(RULE.delta, None))


def test_what_is_kept_back_runs_out_before_it_is_overdrawn(monkeypatch):
    assert round(RESERVE / 2 / SHARE) == 131_072
    monkeypatch.setattr(requests_module, "SHARE", 2.0**-40)
    most = 128
    tiny = [SampledGaussianEvent(1e4, 1e-3, 1, ADD)]
    # Too little for basic composition of the first, and of noise with so many others.
    wide = Budget(epsilon=1.01 * epsilon_of([gauss(4.0)], RULE.delta), delta=1e-5)
    assert Requests.of([[gauss(4.0)], *[tiny] * most]).fit(wide)
    assert not Requests.of([[gauss(4.0)], *[tiny] * (most + 1)]).fit(wide)
    assert Requests.of([[gauss(4.0)], *[[gauss(1e4)]] * (most + 1)]).fit(wide)
    cut = gauss(1e4, numeric_delta=1e-5 * RESERVE)
    assert not Requests.of([[gauss(4.0)], [cut]]).fit(wide)
    assert math.isfinite(Requests.of([[gauss(4.0)], *[tiny] * (most + 1)]).guarantee(1e-5, ADD).epsilon)


FULL = gauss(1 / mu_for(1.0, 1e-5))  # (1, 1e-5) by itself

PURE = SelectionEvent(1.0, ADD, False, "permute-and-flip")


def test_a_gaussian_and_a_selection_cost_about_the_sum_in_either_order():
    stated = {}
    for order in permutations((FULL, PURE)):
        requests = Requests.of([one] for one in order)
        stated[order[0]] = requests.guarantee(1e-5, ADD).epsilon
        assert requests.fit(Budget(epsilon=2.22, delta=1e-5))
        assert not requests.fit(Budget(epsilon=1.95, delta=1e-5))
    assert stated[FULL] == pytest.approx(2.2106, abs=1e-3)
    assert stated[PURE] == pytest.approx(1.9835, abs=1e-3)


def by_hand(requests, delta):
    """Basic composition as the module's docstring has it, with shares in exact arithmetic."""
    total, number, shares = 0.0, 0, Fraction(0)
    for events in requests:
        if all(isinstance(one, SelectionEvent) for one in events):
            total += sum(one.epsilon for one in events)
            continue
        number += 1
        bits = len(bin(number)) - 2
        share = Fraction(2, 4**bits)
        shares += share
        total += epsilon_of(events, float(share) * delta * BASIC_SHARE)
    assert shares <= 1
    return total


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_basic_composition_pays_each_request_at_its_own_share_of_delta(count):
    mixed = [[gauss(9.0 + n)] if n % 2 else [chosen(0.3)] for n in range(2 * count)]
    mixed += [[TUNED], [SAMPLED, chosen(0.2)]]
    requests = Requests.of(mixed)
    total = by_hand(mixed, 1e-5)
    assert requests._by_basic_composition(1e-5 * BASIC_SHARE, math.inf) == pytest.approx(total, rel=1e-9)
    if count < 3:
        assert requests.counted_by(1e-5) == "basic"
        assert requests.guarantee(1e-5, ADD).epsilon == pytest.approx(total, rel=1e-9)
        assert requests.fit(Budget(epsilon=total * (1 + 1e-6), delta=1e-5))
        assert not requests.fit(Budget(epsilon=total * (1 - 1e-6), delta=1e-5))


def test_shares_of_all_requests_add_up_to_one_at_most():
    seen = []
    asked = [[gauss(1e3 + n)] for n in range(70)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            requests_module, "_pair_epsilon", lambda events, delta: seen.append(delta) or (0.0, True)
        )
        Requests.of(asked)._by_basic_composition(1.0, math.inf)
    assert seen[:9] == [1 / 2, 1 / 8, 1 / 8, *[1 / 32] * 4, *[1 / 128] * 2]
    assert len(set(seen)) == 7  # equal requests have few prices
    assert 0.98 < sum(seen) <= 1


def test_selections_pay_no_delta_unless_that_makes_them_much_cheaper():
    many = [chosen(0.05)] * 40
    assert epsilon_of(many, 1e-5 * BASIC_SHARE / 2) < 0.9 * 2.0
    first = Requests.of([many, [gauss(9.0)]])
    expected = by_price(many, 1) + by_price([gauss(9.0)], 2)
    assert first._by_basic_composition(1e-5 * BASIC_SHARE, math.inf) == pytest.approx(expected, rel=1e-9)
    for few in ([chosen(0.05)], [chosen(0.5)] * 2):  # their whole sum, and the first share is left
        requests = Requests.of([few, [gauss(9.0)]])
        expected = sum(one.epsilon for one in few) + by_price([gauss(9.0)], 1)
        assert requests._by_basic_composition(1e-5 * BASIC_SHARE, math.inf) == pytest.approx(expected)


def by_price(events, number):
    return epsilon_of(events, 1e-5 * BASIC_SHARE * 2.0 ** (1 - 2 * number.bit_length()))


def test_what_has_cut_tails_pays_for_them_within_its_own_delta():
    cut = gauss(20.0, numeric_delta=1e-9)
    requests = Requests.of([[PURE], [cut]])
    assert requests.counted_by(1e-5) == "basic"  # the other rule keeps less than that back
    assert requests.guarantee(1e-5, ADD).epsilon == pytest.approx(1 + by_price([cut], 1))


@pytest.mark.parametrize("declared", [None, "renyi"])
@pytest.mark.parametrize("limit", [0.5, 1.2, 2.0, None])
def test_what_is_stated_is_within_the_budget_if_and_only_if_it_is_granted(declared, limit):
    kinds = [
        [gauss(9.0)],
        [chosen(0.4)],
        [SAMPLED],
        [chosen(0.02)] * 30,
        [DisjointEvent(((gauss(9.0),), ()))],
    ]
    for asked in [[a, b, c] for a in kinds for b in kinds for c in kinds]:
        requests = Requests.of(asked, declared)
        stated = requests.guarantee(1e-5, ADD, limit).epsilon
        budget = Budget(epsilon=limit or stated, delta=1e-5)
        assert requests.fit(budget) == (stated <= budget.epsilon)


def test_pure_sums_are_stated_without_delta_and_named():
    requests = Requests.of([[chosen(0.4)], [chosen(0.6)]])
    assert (requests.guarantee(1e-5, ADD).epsilon, requests.guarantee(1e-5, ADD).delta) == (1.0, 0.0)
    assert requests.counted_by(1e-5) == requests.counted_by(0.0) == "sum"
    assert Requests.of([[FULL]]).counted_by(1e-5) == "one"
    assert Requests.of([[FULL], [FULL]]).counted_by(1e-5) == "gaussian"
    assert Requests.of([[FULL]] * 9, "renyi").counted_by(1e-5) == "renyi"


def test_prices_of_many_charges_are_asked_for_once_each():
    """Each charge asks for all prices again: 2,000 of them in a blink, however often."""
    asked = [[gauss(2000.0 + n)] for n in range(2000)]
    Requests.of(asked).guarantee(1e-5, ADD)
    before = _pair_epsilon.cache_info().misses, _price.cache_info().misses
    Requests.of(asked).guarantee(1e-5, ADD)
    Requests.of(asked).fit(BUDGET)
    assert (_pair_epsilon.cache_info().misses, _price.cache_info().misses) == before


def test_basic_composition_is_the_smaller_of_two_by_a_hair_and_counts():
    """Sums are given up once they are too large, and not before."""
    requests = Requests.of([[FULL], [PURE]])
    total = by_price([FULL], 1) + 1
    share = 1e-5 * BASIC_SHARE
    assert requests._by_basic_composition(share, total * (1 + 1e-6)) == pytest.approx(total, rel=1e-9)
    assert math.isinf(requests._by_basic_composition(share, total * (1 - 1e-6)))


def test_cut_tails_may_cost_half_of_what_is_kept_back_at_the_largest_epsilon():
    room = RULE.delta * RESERVE / 2
    for limit in (1.0, 3.0):  # both are more than is needed
        most = room / (1 + math.exp(limit))
        for factor, granted in ((0.999, True), (1.001, False)):
            cut = gauss(20.0, numeric_delta=factor * most / 2)
            by_rule = Requests.of([[cut], [cut]])._by_rule(RULE.delta, limit)
            assert math.isfinite(by_rule) == granted


def test_what_is_kept_back_is_not_spent(monkeypatch):
    monkeypatch.setattr(requests_module, "RESERVE", 0.1)
    half = gauss(math.sqrt(2) / mu_for(1.0, 9e-6 * (1 - BASIC_SHARE)))
    assert Requests.of([[half], [half]]).guarantee(1e-5, ADD, 1.0).epsilon == pytest.approx(1.0, rel=1e-6)


LOST = 1e-5 * 2.0**-50

STEPS = {
    "exponential": [SelectionEvent(0.7, ADD, True, "exponential")],
    "permute-and-flip": [SelectionEvent(0.7, ADD, False, "permute-and-flip")] * 3,
    "sampled": [SampledGaussianEvent(3.0, 0.05, 50, ADD)],
    "sampled, replaced": [SampledGaussianEvent(6.0, 0.05, 50, REPLACE)],
    "mixed": [GaussianEvent(8.0, ADD), SelectionEvent(0.1, ADD, True, "exponential")],
    "tuned": [BestOfManyEvent(((GaussianEvent(8.0, ADD),),), 5, 1.0)],
    "on a lattice": [SampledGaussianEvent(3.0, 0.05, 50, ADD, numeric_epsilon=1e-6)],
}


@pytest.mark.parametrize("name", STEPS)
def test_the_gaussian_curve_lies_above_that_of_the_steps_everywhere(name):
    mu = gdp_price(STEPS[name], LOST)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-5, 30, 200)])  # not the points it was found at
    curve = np.array([delta_of(STEPS[name], epsilon) for epsilon in epsilons])
    assert (curve <= deltas_of_mu(mu, epsilons) + LOST).all()
    assert (curve > deltas_of_mu(mu * 0.99, epsilons) + LOST).any()  # and not much further above than it must


def test_gaussian_steps_cost_their_own_mu():
    steps = [GaussianEvent(4.0, ADD, times=4), GaussianEvent(2.0, ADD)]
    assert gdp_price(steps, 0.0) == math.hypot(0.5, 0.5)
    rough = [GaussianEvent(4.0, ADD, numeric_epsilon=1e-6)]
    assert gdp_price(rough, 0.0) == mu_with_slack(0.25, 1e-6)
    assert gdp_price([], 0.0) == 0.0


def test_cut_tails_are_left_to_whoever_counts_them():
    whole, cut = (GaussianEvent(4.0, ADD, numeric_delta=eta) for eta in (0.0, 1e-30))
    assert gdp_price([cut], LOST) == gdp_price([whole], LOST)


def test_what_has_no_gaussian_bound_has_an_infinite_price():
    for epsilon in (50.0, 100.0, 5000.0):  # its curve begins at 1, or does not end
        assert gdp_price([SelectionEvent(epsilon, ADD, False, "permute-and-flip")], LOST) == math.inf
    assert gdp_price([BestOfManyEvent(((GaussianEvent(0.1, ADD),),), 5, 1.0)], LOST) == math.inf


def test_sampled_steps_never_cost_more_than_without_sampling():
    for z, rate, relation in ((4.0, 1.0, REPLACE), (0.03, 0.5, ADD)):
        steps = [SampledGaussianEvent(z, rate, 10, relation, numeric_epsilon=1e-9)]
        assert gdp_price(steps, LOST) == mu_of(steps)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 1e-5, 1e-3, 0.1])
def test_a_point_is_covered_by_the_true_curve_and_not_by_its_rounding(epsilon):
    """At small μ `delta_of_mu` is rounded up by much more than a part in 10¹²."""
    for needed in (1e-9, 1e-7, 1e-5, 1e-3):
        mu = _smallest_mu(epsilon, needed)
        with mpmath.workdps(40):
            half, ratio = mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mu
            a, b = half - ratio, half + ratio
            assert mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(-b) >= needed


def test_many_sampled_steps_are_nearly_gaussian_and_one_selection_is_not():
    steps = [SampledGaussianEvent(5.0, 0.01, 1000, ADD)]
    plain = 0.01 * math.sqrt(1000 * math.expm1(1 / 25))  # the standard deviation of the loss, about
    assert plain < gdp_price(steps, LOST) < 1.1 * plain
    choice = [SelectionEvent(0.5, ADD, True, "exponential")]
    assert epsilon_of([GaussianEvent(1 / gdp_price(choice, LOST), ADD)], 1e-5) > 2 * epsilon_of(choice, 1e-5)
