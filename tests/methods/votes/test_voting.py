"""How teachers are asked, what it costs, and that small faults in it would show."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

from dptransfer.accounting import delta_of, fits
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.methods import TransferPATE
from dptransfer.methods.votes.vote_aggregation import Inquiry
from dptransfer.methods.votes.voting import Voting, spread, teacher_of_each_row
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from methods.samples import Silent

DELTA = 1e-5
TEN = tuple("abcdefghij")
PAPER = {"teachers": 1000, "queries": 1000, "answers": 684, "threshold": 600}


def facts(**declared):
    return Facts(TEN, (8,), **declared)


def planned(epsilon=1.0, declared=None, pool=None, relation=Relation.ADD_REMOVE, delta=DELTA, **settings):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    public = None if pool is None else range(pool)  # of public examples a plan asks how many there are
    return TransferPATE(**settings).plan(declared or facts(), budget, public)


@pytest.mark.parametrize(
    ("epsilon", "queries", "noise"),
    [(0.5, 100, 99), (1, 500, 118), (1, 1000, 167), (2, 1000, 89), (4, 1000, 48)],
)
def test_the_noise_is_that_of_all_questions_together(epsilon, queries, noise):
    (voting,) = planned(epsilon, queries=queries).mechanisms
    assert round(voting.scale) == noise
    (replaced,) = planned(epsilon, queries=queries, relation=Relation.REPLACE_ONE).mechanisms
    assert replaced.scale == pytest.approx(voting.scale, rel=1e-6)  # a successor is with the same teacher


def test_the_paper_s_tests_and_answers_cost_three_times_what_is_printed():
    plan = planned(4.0, **PAPER, noise=50, threshold_noise=200)
    assert plan.guarantee.epsilon == pytest.approx(3.1776, abs=1e-4)
    tests, votes = plan.mechanisms
    assert (tests.scale, votes.scale) == pytest.approx((200, 50))
    with pytest.raises(BudgetError, match=r"3\.178"):
        planned(1.019, **PAPER, noise=50, threshold_noise=200)


def test_tests_get_a_twentieth_of_what_is_not_given():
    tests, votes = planned(1.0, **PAPER).mechanisms
    spent = [1 / step.noise_multiplier**2 for step in (tests, votes)]
    assert spent[0] / sum(spent) == pytest.approx(1 / 20)
    assert 1.01 < planned(1.019, **PAPER).guarantee.epsilon <= 1.019
    with_tests_given = planned(1.0, **PAPER, threshold_noise=200.0)
    assert with_tests_given.mechanisms[0].scale == pytest.approx(200)
    assert with_tests_given.mechanisms[1].scale == pytest.approx(1.21 * votes.scale, rel=0.01)
    assert with_tests_given.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)


def test_noise_that_is_given_decides_how_much_is_asked():
    budget = Budget(epsilon=1.0, delta=DELTA)
    for settings in ({"noise": 50.0}, {"noise": 50.0, "threshold": 10.0, "threshold_noise": 200.0}):
        plan = planned(1.0, **settings)
        more = TransferPATE(**settings, teachers=plan.method.teachers, queries=plan.method.queries + 1)
        assert fits(plan.events, budget)
        with pytest.raises(BudgetError):
            more.plan(facts(), budget)
    with pytest.raises(BudgetError, match="one query"):
        planned(1.0, noise=1.0)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 1.0, "noise": 2e8},
        {"epsilon": 1.0, "threshold": 10.0, "threshold_noise": 1e12, "noise": 300.0},
        {"epsilon": 3e-6, "delta": 1e-9, "queries": 20_000},
        {"epsilon": 3e-6, "delta": 1e-9, "threshold": 10.0},
    ],
)
def test_noise_that_integers_do_not_hold_is_refused_before_the_charge(given):
    with pytest.raises(BudgetError, match="64-bit integers"):
        planned(**given)


def test_what_is_left_open_is_chosen_from_what_is_declared():
    def chosen(**given):
        method = planned(**given).method
        return method.teachers, method.queries

    assert chosen() == (1250, 2000)
    assert chosen(declared=facts(size=10_000), pool=700) == (2500, 700)
    assert chosen(declared=facts(size=3)) == (1, 2000)
    assert chosen(declared=facts(size=10**9))[0] == 10_000
    persons = facts(size=10_000, unit=Unit.PERSON, rows_per_person=40.0)
    assert chosen(declared=persons)[0] == 250
    assert chosen(declared=facts(class_counts=[40] * 10))[0] == 100
    assert planned(**PAPER, declared=facts(size=5000)).method.answers == 684
    assert planned(threshold=2.0, queries=90).method.answers == 60


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"teachers": 11, "declared": facts(size=10)}, "11 teachers"),
        (
            {"teachers": 11, "declared": facts(size=400, unit=Unit.PERSON, rows_per_person=40.0)},
            "11 teachers",
        ),
        ({"teachers": 100, "threshold": 101.0}, "never passed"),
        ({"threshold": 5.0, "queries": 10, "answers": 11}, "11 answers"),
        ({"queries": 11, "pool": 10}, "11 queries"),
        ({"answers": 5}, "no threshold"),
        ({"threshold_noise": 5.0}, "no threshold"),
        ({"teachers": 0}, "teachers must be"),
        ({"noise": -1.0}, "noise must be"),
        ({"labels": "firm"}, "labels must be"),
    ],
)
def test_what_is_public_and_wrong_is_refused_when_it_is_planned(given, said):
    with pytest.raises(ArgumentError, match=said):
        planned(**given)


def test_teachers_for_a_number_that_nobody_declared_are_told_of():
    assert "about 5000" in planned().notes[1]
    for said in ({"declared": facts(size=400)}, {"teachers": 100}):
        assert len(planned(**said).notes) == 1


@pytest.mark.parametrize("pool", [1, 2, 3, 10, 999, 1000, 50_000])
def test_questions_are_spread_over_the_pool_and_each_comes_once(pool):
    order = spread(pool, pool)
    assert (np.sort(order) == np.arange(pool)).all()
    asked = np.sort(order[: max(1, pool // 20)])
    assert np.diff(np.append(asked, pool)).max() <= 20 * 3
    by_turns = np.bincount(order[: pool // 2] % 10, minlength=10)
    assert pool < 100 or by_turns.min() > 0.8 * by_turns.mean()


@dataclass(frozen=True)
class Asked(Voting):
    """Nothing but the asking."""

    name = "asked"

    def run(self, *given):
        raise AssertionError


def favourites(*counts, teachers=100):
    """Ballots in which so many teachers vote for class 1, a question each, and the others for class 0."""
    return np.array([[int(one < count) for count in counts] for one in range(teachers)])


def asked(ballots, noise=None, **settings):
    method = Asked(teachers=len(ballots), queries=ballots.shape[1], **settings)
    plan = method.plan(Facts(("a", "b"), (8,)), Budget(epsilon=4.0, delta=DELTA))
    questions = np.arange(ballots.shape[1]) * 10
    return plan.method.release_answers(plan.mechanisms, ballots, questions, noise or Silent()), plan


def test_all_questions_are_answered_with_the_votes_and_the_class_that_has_most():
    found, plan = asked(favourites(90, 10, 60))
    assert found.votes.tolist() == [[10, 90], [90, 10], [40, 60]]
    assert found.labels.tolist() == [1, 0, 1]
    assert found.by_class() == [[10], [0, 20]]
    assert (found.scale, found.teachers) == (plan.mechanisms[0].scale, 100)


def test_of_the_questions_that_pass_the_first_are_asked_and_no_more_than_are_paid_for():
    ballots = favourites(90, 50, 10, 95, 99, 55, 80)
    found, plan = asked(ballots, threshold=80.0, answers=3)
    assert found.positions.tolist() == [0, 20, 30]
    assert found.labels.tolist() == [1, 0, 1]
    assert plan.mechanisms[1].query.questions == 3
    assert plan.method.notes_of(len(found.positions))[0].startswith("3 of 7")
    few, _ = asked(ballots, threshold=96.0, answers=3)
    assert few.positions.tolist() == [40]
    none, _ = asked(favourites(50, 50), threshold=80.0, answers=1)
    assert none.votes.shape == (0, 2)
    assert none.by_class() == [[], []]


def test_what_is_not_asked_leaves_no_trace_in_the_answer():
    """Two data sets whose favourites pass alike: on a question that does not, no vote is looked at."""
    one, other = favourites(90, 40, 90), favourites(90, 60, 90)
    for seed in range(5):
        answers = [asked(ballots, SeededNoise(seed), threshold=75.0, answers=3) for ballots in (one, other)]
        votes = [found.votes.tolist() for found, _ in answers]
        assert votes[0] == votes[1]


def test_the_test_is_of_noisy_votes():
    """At the threshold itself half of the questions pass; without noise all of them would, or none."""
    ballots = favourites(*[70] * 400)
    for count, passes in ((70.0, True), (70.5, False)):
        found, _ = asked(ballots, SeededNoise(1), threshold=count, answers=400)
        assert 120 < len(found.positions) < 280  # 8 standard deviations: 1e-15
        silent, _ = asked(ballots, Silent(), threshold=count, answers=400)
        assert (len(silent.positions) == 400) == passes


# --- the law of labels, on neighbouring ballots, with nothing left to chance ---


def chance_of_the_second(votes, scale):
    """P(argmax of (votes + discrete Gaussian) is 1), by enumeration."""
    reach = int(12 * scale) + 2
    steps = np.arange(-reach, reach + 1)
    law = np.exp(-(steps**2) / (2 * scale**2))
    law /= law.sum()
    above = np.append(np.cumsum(law[::-1])[::-1], 0)  # P(noise ≥ step)
    # Class 1 wins if its noise exceeds votes[0] − votes[1] + the other's; the first of equals is class 0.
    needed = np.clip(votes[0] - votes[1] + steps + 1 + reach, 0, len(steps))
    return float(law @ above[needed])


def label_delta(questions, scale, epsilon, moved=1):
    """The exact δ of all labels, where one teacher of ten turns around on every question.

    Questions are alike, so how many are answered with class 1 tells as much as all labels.
    """
    first = chance_of_the_second((5, 5), scale)
    second = chance_of_the_second((5 - moved, 5 + moved), scale)
    counts = np.arange(questions + 1)
    ways = [binom.pmf(counts, questions, chance) for chance in (first, second)]
    return max(np.maximum(one - np.exp(epsilon) * other, 0).sum() for one, other in (ways, ways[::-1]))


@pytest.mark.parametrize("questions", [1, 9, 64])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_labels_of_neighbouring_ballots_stay_within_the_promise_and_planted_faults_do_not(questions, epsilon):
    promise = planned(epsilon, queries=questions)
    (voting,) = promise.mechanisms
    assert label_delta(questions, voting.scale, epsilon) <= delta_of(promise.events, epsilon) <= DELTA
    if questions > 1:  # a single label tells much less than is paid for
        assert label_delta(questions, voting.scale, epsilon, moved=2) > DELTA  # counted twice, or by two
        (of_one,) = planned(epsilon, queries=1).mechanisms
        assert label_delta(questions, of_one.scale, epsilon) > DELTA


def strongest(parts):
    """A teacher's ballot on every question: the class of its strongest unit, given as (class, strength)."""
    return [max(part, key=lambda one: one[1])[0] for part in parts if part]


def label_laws(units, draws, questions, scale, teachers=2):
    """The law of how many labels are class 1, of questions that are alike, for each way to share out."""
    laws = []
    for drawn in draws:
        parts = [[one for one, mine in zip(units, drawn, strict=True) if mine == t] for t in range(teachers)]
        cast = strongest(parts)
        chance = chance_of_the_second((cast.count(0), cast.count(1)), scale)
        laws.append(binom.pmf(np.arange(questions + 1), questions, chance))
    return np.array(laws)


def exact_delta(first, second, epsilon):
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum() for p, q in ((first, second), (second, first)))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_replaced_unit_costs_one_ballot_by_our_draws_and_two_where_it_chooses_its_teacher(epsilon):
    """All partitions are enumerated; the unit that is replaced decides for whichever teacher it is with."""
    questions, rest = 9, [(1, 1), (0, 1)]
    promise = planned(epsilon, queries=questions, relation=Relation.REPLACE_ONE)
    (voting,) = promise.mechanisms
    before, after = [(0, 9), *rest], [(1, 9), *rest]
    draws = list(itertools.product(range(2), repeat=3))  # each as likely, whatever the units are
    own, other = (label_laws(units, draws, questions, voting.scale) for units in (before, after))
    promised = delta_of(promise.events, epsilon)
    assert max(exact_delta(p, q, epsilon) for p, q in zip(own, other, strict=True)) <= promised <= DELTA
    assert exact_delta(own.mean(axis=0), other.mean(axis=0), epsilon) <= promised
    # By what it is the unit joins the first teacher, and its successor the second: both turn around.
    (with_first,) = label_laws(before, [(0, 0, 1)], questions, voting.scale)
    (with_second,) = label_laws(after, [(1, 0, 1)], questions, voting.scale)
    assert exact_delta(with_first, with_second, epsilon) > DELTA
    brought = Inquiry.within(Budget(epsilon=epsilon, delta=DELTA, relation=Relation.REPLACE_ONE), questions)
    (with_first,) = label_laws(before, [(0, 0, 1)], questions, brought.noise)
    (with_second,) = label_laws(after, [(1, 0, 1)], questions, brought.noise)
    assert exact_delta(with_first, with_second, epsilon) <= DELTA


class Fixed(SeededNoise):
    """Draws that are known, whatever their number."""

    def integers(self, below, count):
        return (np.arange(count) * 7 + 3) % below


def test_all_rows_of_a_person_go_to_one_teacher():
    people = np.random.default_rng(0).integers(0, 40, 500)
    teachers = teacher_of_each_row(500, people, 9, SecureNoise())
    assert all(len(set(teachers[people == one])) == 1 for one in range(40))
    assert len(set(teachers)) > 1


def test_one_row_more_leaves_the_teachers_of_the_others_alone():
    before = teacher_of_each_row(20, None, 6, Fixed(0))
    after = teacher_of_each_row(21, None, 6, Fixed(0))
    assert (after[:20] == before).all()


def test_parts_have_random_sizes_that_no_number_of_rows_decides():
    sizes = np.bincount(teacher_of_each_row(1000, None, 10, SeededNoise(1)), minlength=10)
    assert sizes.sum() == 1000
    assert sizes.min() > 50  # nobody is left out, the last one neither
    assert sizes.max() - sizes.min() > 10  # parts of equal size would tell the number of rows
