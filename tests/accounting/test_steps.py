import itertools
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dptransfer.accounting import (
    composition_words,
    delta_of,
    delta_of_mu,
    epsilon_of,
    fits,
    gdp_price,
    guarantee_of,
    is_gaussian,
    membership_advantage,
    mu_of,
    noise_multiplier_for,
    pure_epsilon_of,
    rate_ceilings,
    rho_of,
)
from dptransfer.accounting.exact_curves import SelectionGroup, deltas_of_mu
from dptransfer.accounting.filters import Requests
from dptransfer.accounting.steps import (
    MOST,
    Steps,
    all_steps,
    branches,
    divergences_of,
    mixed_delta,
    mixed_epsilons,
    plain_steps,
)
from dptransfer.errors import BudgetError
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    DisjointEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
    for_group,
    in_relation,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


NOISE = GaussianEvent(2.0, ADD, times=4, numeric_epsilon=1e-9, numeric_delta=1e-25)

CHOICE = SelectionEvent(0.5, ADD, True, "exponential")

SAMPLED = SampledGaussianEvent(2.0, 0.1, 9, ADD, numeric_epsilon=2e-9, numeric_delta=2e-25)

TUNED = BestOfManyEvent(((NOISE,),), 10.0, 1.0)


def test_events_are_gathered_by_kind():
    steps = Steps.of([NOISE, CHOICE, SAMPLED, CHOICE, NOISE])
    assert steps.mu == pytest.approx(math.sqrt(2))
    assert [group.times for group in steps.groups] == [2]
    assert [group.times for group in steps.sampled] == [9]
    assert steps.whole_mu == pytest.approx(math.hypot(math.sqrt(2), 1.5))
    assert steps.slack == pytest.approx(4e-9)
    assert steps.cut == pytest.approx(4e-25)
    assert steps.by_renyi == ()
    assert steps.sampled_slack == pytest.approx(2e-9)


def test_tuned_steps_stand_apart_and_pay_for_the_cut_tails_of_each_trial():
    steps = Steps.of([CHOICE, TUNED])
    assert [part.event for part in steps.by_renyi] == [TUNED]
    assert [group.times for group in steps.groups] == [1]
    sum_of_both = Steps.of([CHOICE]).divergences() + Steps.of([TUNED]).divergences()
    assert steps.divergences() == pytest.approx(sum_of_both, rel=1e-12)
    assert steps.cut == pytest.approx(1e-24)
    assert not steps.is_pure


def test_what_is_pure_and_what_is_nothing():
    assert Steps.of([]).is_nothing
    assert Steps.of([CHOICE]).is_one_selection
    assert not Steps.of([CHOICE, CHOICE]).is_one_selection
    assert Steps.of([CHOICE, CHOICE]).is_pure
    for event in (NOISE, SAMPLED, TUNED):
        assert not Steps.of([CHOICE, event]).is_pure
        assert not Steps.of([event]).is_nothing


def test_a_quick_bound_is_never_below_the_other():
    for events in ([NOISE], [CHOICE], [SAMPLED], [SAMPLED, CHOICE], [TUNED]):
        steps = Steps.of(events)
        for epsilon in (0.1, 1.0, 4.0):
            assert steps.delta(epsilon) <= steps.delta(epsilon, quick=True)
    many = Steps.of([SampledGaussianEvent(1.0, 0.01, 1000, ADD)])
    assert many.delta(1.5) < 0.9 * many.delta(1.5, quick=True)  # the other is worth its time


def test_what_is_no_event_is_not_accounted_for():
    with pytest.raises(TypeError, match="got dict"):
        Steps.of([{"kind": "gaussian"}])


def test_pure_steps_count_the_lattice_and_are_not_pure_with_cut_tails():
    exact = Steps(groups=(SelectionGroup(1.0, False, 1),))
    assert (exact.pure, exact.is_pure) == (1.0, True)
    assert Steps(groups=exact.groups, slack=0.1).pure == 1.1
    cut = Steps(groups=exact.groups, cut=1e-9)
    assert not cut.is_pure
    assert not cut.is_one_selection
    assert cut.delta(1.0) >= (1 + math.e) * 1e-9


FIT, CHECK = GaussianEvent(4.0, ADD), GaussianEvent(8.0, ADD)

FLIP = SelectionEvent(0.6, ADD, False, "permute-and-flip")

BOTH = DisjointEvent(((FIT,), (CHECK,)))

MIXED = DisjointEvent(((FIT,), (FLIP,)))  # neither curve is above the other everywhere

EPSILONS = np.linspace(0, 2, 41)

NOISES = np.linspace(-40, 40, 20_001)

WIDTH = NOISES[1] - NOISES[0]


def outcomes(noise_multiplier, step_epsilon, present, coin):
    """Densities of (noisy count of the first part, answer of a coin that shows whether the second has more).

    `coin` is the chance to be in the second part; nobody is in the data, or one unit.
    """

    def law(in_first, in_second):
        high = math.exp(step_epsilon) / (1 + math.exp(step_epsilon))
        answer = np.array([high, 1 - high]) if in_second else np.array([1 - high, high])
        return np.outer(norm.pdf(NOISES, float(in_first), noise_multiplier) * WIDTH, answer)

    if not present:
        return law(False, False)
    return coin * law(False, True) + (1 - coin) * law(True, False)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("coin", [0.0, 0.2, 0.5, 1.0])
def test_the_price_covers_what_a_unit_in_one_of_two_parts_does(coin):
    without, having = (outcomes(4.0, 0.6, present, coin) for present in (False, True))
    for epsilon in EPSILONS:
        paid = delta_of([MIXED], epsilon) + 1e-9
        assert max(hockey_stick(without, having, epsilon), hockey_stick(having, without, epsilon)) <= paid


def test_either_part_alone_would_be_too_cheap_and_the_worse_is_reached():
    worst = np.array([delta_of([MIXED], epsilon) for epsilon in EPSILONS])
    parts = np.array([[delta_of([one], epsilon) for epsilon in EPSILONS] for one in (FIT, FLIP)])
    assert np.array_equal(worst, parts.max(axis=0))
    assert (parts[0] < worst).any()
    assert (parts[1] < worst).any()
    without = outcomes(4.0, 0.6, False, 0.0)
    for coin, part in ((0.0, parts[0]), (1.0, parts[1])):
        reached = [hockey_stick(outcomes(4.0, 0.6, True, coin), without, e) for e in EPSILONS]
        assert np.allclose(reached, part, rtol=0, atol=1e-6)


def test_several_events_cost_the_worst_choice_of_a_part_each():
    one, two = (SelectionEvent(e, ADD, False, "permute-and-flip") for e in (0.7, 0.4))
    beside = SelectionEvent(0.3, ADD, False, "permute-and-flip")
    events = [DisjointEvent(((one,), (two, two))), beside, DisjointEvent(((two,), (one, one)))]

    def exact(epsilons, at):  # each is a loss of ±ε: all sums, one by one
        found = 0.0
        for signs in product((1, -1), repeat=len(epsilons)):
            loss = sum(sign * e for sign, e in zip(signs, epsilons, strict=True))
            mass = math.prod(1 / (1 + math.exp(-sign * e)) for sign, e in zip(signs, epsilons, strict=True))
            found += mass * max(0.0, 1 - math.exp(at - loss))
        return found

    choices = [[0.3, *a, *b] for a in ([0.7], [0.4, 0.4]) for b in ([0.4], [0.7, 0.7])]
    for epsilon in (0.0, 0.5, 1.0, 1.7, 2.4):
        worst = max(exact(chosen, epsilon) for chosen in choices)
        assert worst * (1 - 1e-9) <= delta_of(events, epsilon) <= worst + 2e-3
    assert pure_epsilon_of(events) == pytest.approx(0.3 + 0.8 + 1.4)


def test_rates_of_an_attacker_are_not_the_larger_of_two_curves_but_their_hull():
    """Who knows the coin mixes two attacks: the best mixture is above both curves, below the ceiling."""
    alarms = np.linspace(0, 1, 2001)
    gaussian = norm.cdf(norm.ppf(alarms) + 1 / 4)
    flip = np.minimum(math.exp(0.6) * alarms, 1 - math.exp(-0.6) * (1 - alarms))
    larger = np.maximum(gaussian, flip)
    i, j = np.meshgrid(np.arange(0, 2001, 10), np.arange(0, 2001, 10), indexing="ij")
    mixed_alarms, mixed_hits = (alarms[i] + alarms[j]) / 2, (gaussian[i] + flip[j]) / 2
    excess = mixed_hits - np.interp(mixed_alarms, alarms, larger)
    assert excess.max() > 2e-4
    ceilings = rate_ceilings([MIXED], mixed_alarms.ravel()).reshape(mixed_alarms.shape)
    assert (mixed_hits <= ceilings + 1e-9).all()
    assert membership_advantage([MIXED]) == pytest.approx(max(math.tanh(0.3), 2 * norm.cdf(1 / 8) - 1))


def test_every_currency_counts_the_dearer_part():
    assert rho_of([BOTH]) == rho_of([FIT]) == 1 / 32
    assert mu_of([BOTH, CHECK]) == mu_of([FIT, CHECK])
    assert is_gaussian([BOTH])
    assert not is_gaussian([MIXED])
    assert mu_of([MIXED]) is None
    assert pure_epsilon_of([MIXED]) is None
    assert gdp_price([BOTH], 0.0) == 0.25
    assert gdp_price([MIXED], 1e-20) == max(gdp_price([one], 1e-20) for one in (FIT, FLIP))
    assert epsilon_of([BOTH], 1e-5) == epsilon_of([FIT], 1e-5) == guarantee_of([BOTH], 1e-5).epsilon
    assert delta_of([MIXED], 0.1, quick=True) == max(delta_of([one], 0.1, quick=True) for one in (FIT, FLIP))
    for events, budget in (([MIXED], Budget.pure(1.0)), ([MIXED], Budget.gdp(1.0))):
        assert not fits(events, budget)
        with pytest.raises(BudgetError):
            noise_multiplier_for(budget, lambda z: [MIXED])
    with pytest.raises(BudgetError, match="no pure"):
        guarantee_of([MIXED], 0.0)
    tuned = BestOfManyEvent(((FIT,),), 3, 1.0)
    assert rho_of([DisjointEvent(((FIT,), (tuned,)))]) is None


def test_trials_and_later_requests_meet_the_dearer_part():
    trials = [BestOfManyEvent(((one,),), 5, 1.0) for one in (BOTH, FIT)]
    assert epsilon_of(trials[:1], 1e-5) == pytest.approx(epsilon_of(trials[1:], 1e-5), rel=1e-12)
    for rule in ("gaussian", "renyi"):
        apart, alone = (Requests.of([[one], [CHECK], [one]], rule) for one in (BOTH, FIT))
        assert apart.guarantee(1e-5, ADD).epsilon == pytest.approx(alone.guarantee(1e-5, ADD).epsilon)


def test_under_replace_one_the_dearer_part_is_paid_and_by_a_group_both():
    moved, group = in_relation(BOTH, REPLACE), for_group(BOTH, 2)
    assert rho_of([moved]) == rho_of([in_relation(FIT, REPLACE)]) == pytest.approx(4 / 32)
    assert rho_of([group]) == pytest.approx(4 * (1 / 32 + 1 / 128))
    assert not composition_words([group]).startswith("Each")
    for event in (BOTH, moved):
        assert composition_words([event]).startswith("Each example is in one part of the data")


WIDE = 6.0  # of the fit's noise, which is cut 10 standard deviations out

COUNTS = np.diff(norm.cdf((np.arange(-60, 62) - 0.5) / WIDE))


def law_of_answers(people, part_of, chance):
    """The joint law of a noisy count of the fit's part, and of a coin about the other part that looks at it.

    `people` are in the order in which they are numbered; each has a value from −1 to 1 (None: no row at all).
    `part_of` gives the chance that a person is in the second part; the coin's question depends on the count.
    """
    whole = np.zeros((181, 2))
    numbered = [one for one in people if one is not None]
    for coins in product((False, True), repeat=len(numbered)):
        weight = 1.0
        for person, second in zip(numbered, coins, strict=True):
            weight *= part_of(person, chance) if second else 1 - part_of(person, chance)
        first = round(sum(person for person, second in zip(numbered, coins, strict=True) if not second))
        held = [person for person, second in zip(numbered, coins, strict=True) if second]
        count = np.zeros(181)
        count[30 + first : 30 + first + 121] = COUNTS
        for answer, mass in enumerate(count):
            above = (sum(held) > 0) != (answer % 2 == 0)  # what is asked depends on the count
            high = 1 / (1 + math.exp(-0.9))
            whole[answer] += weight * mass * np.array([high, 1 - high] if above else [1 - high, high])
    return whole


def by_coin(person, chance):
    return chance


def by_contents(person, chance):
    """Not a coin: who is held out follows from what they are."""
    return float(person > 0)


REPLACED = [  # everybody else, with one of them replaced; people are numbered in another order afterwards
    ([1, 1, -1], [1, -1, -1]),
    ([1, 1], [1, -1]),
    ([1, -1, 1], [-1, 1, -1]),
    ([1, 1, 1], [None, 1, 1]),
    ([1, 1], [1, None]),
    ([1], [-1]),
]


def losses_of(part_of, chance, epsilon):
    for before, after in REPLACED:
        p, q = (law_of_answers(people, part_of, chance) for people in (before, after))
        yield max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


@pytest.mark.parametrize("chance", [0.2, 0.5])
def test_a_replaced_person_pays_for_the_dearer_part_however_people_are_numbered(chance):
    fit = in_relation(GaussianEvent(WIDE, ADD, unit=Unit.PERSON), REPLACE)  # a value moves by two
    check = SelectionEvent(0.9, REPLACE, False, "permute-and-flip", unit=Unit.PERSON)
    apart = DisjointEvent(((fit,), (check,)))
    for epsilon in (0.0, 0.3, 0.6, 0.9, 1.2):
        assert max(losses_of(by_coin, chance, epsilon)) <= delta_of([apart], epsilon) * (1 + 1e-9) + 1e-9
    sure = max(losses_of(by_coin, 1.0, 0.3)), delta_of([apart], 0.3)
    assert sure[0] > 0.99 * sure[1]  # and what the price says is reached
    whoever = max(losses_of(by_contents, chance, 0.9))
    assert whoever > 1.05 * delta_of([apart], 0.9)  # with parts that follow from contents it is not true


def test_equal_events_have_few_choices_and_many_others_pay_for_all_parts():
    assert len(branches([MIXED] * 40)) == 41
    several = [DisjointEvent(((GaussianEvent(z, ADD),), (FLIP,))) for z in (3.0, 4.0, 5.0, 6.0)] * 2
    assert len(branches(several)) == 3**4
    many = [DisjointEvent(((GaussianEvent(z, ADD),), (FLIP,))) for z in range(3, 23)]
    found = branches(many)
    assert len(found) == MOST
    assert all(set(plain_steps(many[8:])) <= set(branch) for branch in found)
    assert delta_of(many, 9.0) >= delta_of([max(event.parts, key=rho_of)[0] for event in many], 9.0)


def test_what_adds_up_is_worst_where_each_event_is():
    many = [DisjointEvent(((GaussianEvent(z, ADD),), (FLIP,))) for z in range(3, 23)]
    assert len(branches(many)) == MOST  # and yet nobody pays for two parts of one event
    assert rho_of([*many, FIT]) == pytest.approx(rho_of([FIT]) + sum(rho_of([event]) for event in many))
    choices = [
        DisjointEvent(((FLIP,), (FLIP, FLIP, SelectionEvent(e / 10, ADD, True, "x")))) for e in range(1, 20)
    ]
    assert pure_epsilon_of(choices) == pytest.approx(sum(1.2 + e / 10 for e in range(1, 20)))
    few = [MIXED, DisjointEvent(((CHECK,), (FLIP,)))]
    worst = np.max([steps.divergences() for steps in all_steps(few)], axis=0)
    assert np.all(divergences_of(few) >= worst * (1 - 1e-12))
    assert divergences_of(few) == pytest.approx(worst, rel=1e-9)


def test_what_costs_no_more_than_another_choice_is_left_out():
    assert branches([DisjointEvent(((FIT,), (FIT, CHECK), ()))]) == [(FIT, CHECK)]
    twice = DisjointEvent(((FIT, CHECK), (FIT, FIT)))  # the same steps more often are more
    assert sorted(branches([twice]), key=str) == sorted([(FIT, CHECK), (FIT, FIT)], key=str)
    assert delta_of([twice], 0.5) == delta_of([FIT, FIT], 0.5) > delta_of([FIT, CHECK], 0.5)
    assert len(branches([BOTH])) == 2
    assert len(all_steps([BOTH])) == 1
    lattice = [GaussianEvent(4.0, ADD, numeric_epsilon=e) for e in (1e-6, 0.0)]
    finer = GaussianEvent(8.0, ADD, numeric_epsilon=1e-6)  # less loss, and more for its lattice
    assert len(all_steps([DisjointEvent(((FIT,), (finer,)))])) == 2
    shorter = GaussianEvent(8.0, ADD, numeric_delta=1e-9)  # less loss, and shorter tails
    assert len(all_steps([DisjointEvent(((FIT,), (shorter,)))])) == 2
    assert (
        delta_of([DisjointEvent(((FIT,), (shorter,)))], 3.0)
        >= delta_of([shorter], 3.0)
        > delta_of([FIT], 3.0)
    )
    samples = [SampledGaussianEvent(8.0, 0.1, 5, ADD, numeric_epsilon=e) for e in (0.0, 1e-6)]
    parts = list(
        zip(samples, lattice, strict=True)
    )  # of equal lattice in all, and one has more on its samples
    for order in (parts, parts[::-1]):
        assert [steps.sampled_slack for steps in all_steps([DisjointEvent(tuple(order))])] == [1e-6]
    assert branches([FIT, CHECK]) == [(FIT, CHECK)]
    assert branches([DisjointEvent(((BOTH, FLIP), (CHECK,)))]) == [(FLIP, FIT), (FLIP, CHECK)]


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
