"""Votes; the loss of answers and its sensitivity against all votes of a few teachers, one by one."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation, Unit
from dptransfer.queries import LargestVotes, VoteCounts
from dptransfer.queries.votes import AnswerLoss, CountedVotes, LossOfAnswers, LossSensitivity, votes_of

NOBODY = np.zeros(0, dtype=np.int64)
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(150)
PLAIN = AnswerLoss(1, 6, 3, 1.0, 2.0, 1, Relation.ADD_REMOVE)
TESTED = replace(PLAIN, teachers=5, noise=1.1, order=2.5, threshold=3.0, threshold_noise=1.5)
LOSSES = [
    PLAIN,
    TESTED,
    AnswerLoss(1, 12, 2, 2.0, 2.0, 1, Relation.REPLACE_ONE),
    replace(TESTED, relation=Relation.REPLACE_ONE),
]


@cache
def histograms(teachers, classes):
    return [n for n in itertools.product(range(teachers + 1), repeat=classes) if sum(n) <= teachers]


def one_ballot_apart(n, other):
    moved = [a - b for a, b in zip(n, other, strict=True)]
    return moved.count(1) <= 1 and moved.count(-1) <= 1 and max(map(abs, moved)) <= 1


@cache
def near(teachers, classes):
    every = histograms(teachers, classes)
    return {n: [other for other in every if one_ballot_apart(n, other)] for n in every}


def neighbours(n, loss):
    one = near(loss.teachers, loss.classes)
    return one[n] if loss.ballots == 1 else sorted({last for middle in one[n] for last in one[middle]})


def outcomes(n, loss):
    """The probability of no answer, where there is a test, and of each label; by quadrature."""
    wins = []
    for one in range(loss.classes):
        value = n[one] + loss.noise * POINTS
        others = [ndtr((value - n[j]) / loss.noise) for j in range(loss.classes) if j != one]
        wins.append((WEIGHTS * np.prod(others, axis=0)).sum() / math.sqrt(2 * math.pi))
    if loss.threshold is None:
        return np.array(wins)
    passes = ndtr((max(n) - loss.threshold) / loss.threshold_noise)
    return np.array([1 - passes, *(passes * np.array(wins))])


def divergence(p, q, order):
    return math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)


def sums(loss, *votes):
    ballots = CountedVotes.of(np.array(votes), loss.teachers)
    return loss.at_every_distance(ballots)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_covers_what_every_neighbour_tells_in_both_directions(loss):
    law = {n: outcomes(n, loss) for n in histograms(loss.teachers, loss.classes)}
    tests = loss.order * (loss.ballots / loss.threshold_noise) ** 2 / 2 if loss.threshold else 0.0
    for n in histograms(loss.teachers, loss.classes):
        bound = tests + sums(loss, n)[0][0]
        for other in neighbours(n, loss):
            assert divergence(law[n], law[other], loss.order) <= bound + 1e-9
            assert divergence(law[other], law[n], loss.order) <= bound + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_no_votes_lose_more_than_any_may_and_agreement_loses_less(loss):
    at = {n: sums(loss, n)[0][0] for n in histograms(loss.teachers, loss.classes)}
    assert max(at.values()) <= loss.of_all_answers * (1 + 1e-12)
    assert min(at.values()) < 0.9999 * loss.of_all_answers
    assert (np.diff(loss.loss, axis=1) <= 0).all()
    assert (np.diff(loss.loss, axis=0) >= 0).all()


def test_many_agreeing_teachers_lose_next_to_nothing():
    many = AnswerLoss(1, 1000, 10, 50.0, 20.0, 1, Relation.ADD_REMOVE)
    assert many.loss[0, 900] < 1e-15 * many.of_all_answers
    assert many.loss[0, 100] > many.of_all_answers / 100
    settled = replace(many, threshold=600.0, threshold_noise=200.0)
    assert settled.loss[300, 250] < settled.loss[600, 250] < settled.loss[1000, 250]


@pytest.mark.parametrize("loss", LOSSES)
def test_growths_cover_every_step_at_every_distance(loss):
    at = {n: sums(loss, n)[0][0] for n in histograms(loss.teachers, loss.classes)}
    local = {
        n: max(abs(at[n] - at[other]) for other in neighbours(n, loss))
        for n in histograms(loss.teachers, loss.classes)
    }
    for n in histograms(loss.teachers, loss.classes):
        losses, growths = sums(loss, n)
        within = {n}
        for k in range(min(4, len(growths))):
            assert max(at[other] for other in within) <= losses[k] + 1e-12
            assert max(local[other] for other in within) <= growths[k] + 1e-12
            within = {last for middle in within for last in neighbours(middle, loss)}


def test_a_growth_that_leaves_out_the_chance_of_an_answer_does_not():
    def without(n):
        """How far the loss moves with the lead alone, as the published code has it."""
        row, lead = TESTED.loss[max(n)], sorted(n)[-1] - sorted(n)[-2]
        return max(abs(row[max(lead - 2, 0)] - row[lead]), abs(row[min(lead + 2, 5)] - row[lead]))

    at = {n: sums(TESTED, n)[0][0] for n in histograms(5, 3)}
    assert any(abs(at[n] - at[other]) > 1.05 * without(n) for n in at for other in neighbours(n, TESTED))


@pytest.mark.parametrize("loss", LOSSES)
def test_neighbours_move_the_released_numbers_as_far_as_is_said(loss):
    rng, reached = np.random.default_rng(0), 0.0
    both = replace(loss, questions=2, answers=2)
    smooth = LossSensitivity(both, 0.3, Unit.ROW)
    every = histograms(loss.teachers, loss.classes)
    farthest = smooth.l2_sensitivity(loss.relation)
    for _ in range(300):
        votes = [every[rng.integers(len(every))] for _ in range(2)]
        moved = [some[rng.integers(len(some))] for some in (neighbours(n, loss) for n in votes)]
        first, second = (CountedVotes.of(np.array(n), loss.teachers) for n in (votes, moved))
        scales = [int(smooth(ballots, NOBODY)[0]) / smooth.grid for ballots in (first, second)]
        assert abs(scales[0] - scales[1]) <= farthest
        bound = math.exp(min(scales) + 1e-6)
        value = LossOfAnswers(both, bound, Unit.ROW)
        apart = abs(int(value(first, NOBODY)[0]) - int(value(second, NOBODY)[0])) / value.grid
        assert apart <= value.l2_sensitivity(loss.relation)
        reached = max(reached, apart, abs(scales[0] - scales[1]) / farthest)
    assert reached > 0.5


def test_no_more_is_lost_than_was_paid_for():
    none = (0, 0, 0)
    assert sums(PLAIN, none, none, none)[0][0] == PLAIN.of_all_answers
    three = replace(PLAIN, answers=3)
    assert sums(three, none, none)[0][0] == pytest.approx(2 * PLAIN.of_all_answers)


def test_a_loss_under_one_relation_has_no_sensitivity_under_another():
    for query in (LossSensitivity(PLAIN, 0.1, Unit.ROW), LossOfAnswers(PLAIN, 1.0, Unit.ROW)):
        with pytest.raises(ArgumentError, match="one relation"):
            query.l2_sensitivity(Relation.REPLACE_ONE)


def test_too_many_teachers_for_a_table_are_refused():
    with pytest.raises(ArgumentError, match="at most 4000 teachers"):
        replace(TESTED, teachers=5000)


@pytest.mark.parametrize("loss", LOSSES)
def test_sensitivities_have_room_for_a_step_of_the_grid_and_for_sums_of_floats(loss):
    """One of two neighbours may be rounded to the next step and the other not."""
    for query, exact in (
        (LossSensitivity(loss, 0.3, Unit.ROW), 0.3),
        (LossOfAnswers(loss, 1.0, Unit.ROW), 1),
    ):
        more = query.l2_sensitivity(loss.relation) - exact
        assert 100 / query.grid < more < 1e-5


def distance(query, first, second):
    return float(np.linalg.norm(query(first, NOBODY) - query(second, NOBODY))) / query.grid


def every_ballot(questions, classes):
    return [np.array(cast) for cast in itertools.product(range(-1, classes), repeat=questions)]


@pytest.mark.parametrize("kind", [VoteCounts, LargestVotes])
def test_one_or_two_changed_ballots_move_the_answer_as_far_as_is_said_and_no_farther(kind):
    questions, classes = 2, 3
    query, rng = kind(questions, classes, Unit.ROW), np.random.default_rng(0)
    farthest = {relation: 0.0 for relation in Relation}
    for _ in range(20):
        others = rng.integers(-1, classes, (3, questions))
        for one, another in itertools.product(every_ballot(questions, classes), repeat=2):
            near = np.vstack([others, one]), np.vstack([others, another])
            far = np.vstack([others, one, one]), np.vstack([others, another, another])
            farthest[Relation.ADD_REMOVE] = max(farthest[Relation.ADD_REMOVE], distance(query, *near))
            farthest[Relation.REPLACE_ONE] = max(farthest[Relation.REPLACE_ONE], distance(query, *far))
    for relation in Relation:
        assert farthest[relation] == pytest.approx(query.l2_sensitivity(relation))


def test_a_question_costs_what_the_literature_says():
    assert VoteCounts(1, 10, Unit.ROW).l2_sensitivity(Relation.ADD_REMOVE) == math.sqrt(2)  # α/σ²
    assert LargestVotes(1, 10, Unit.ROW).l2_sensitivity(Relation.ADD_REMOVE) == 1  # α/2σ²


def test_votes_are_counted_and_abstentions_are_not():
    ballots = np.array([[0, 2], [0, -1], [1, 2], [-1, -1]])
    counts = VoteCounts(3, 3, Unit.ROW)(ballots, NOBODY)
    assert LargestVotes(2, 3, Unit.ROW).shape == (2,)
    assert (counts // VoteCounts.grid).tolist() == [[2, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert (LargestVotes(2, 3, Unit.ROW)(ballots, NOBODY) // LargestVotes.grid).tolist() == [2, 2]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint64, np.int64])
def test_ballots_for_no_class_count_for_none_and_never_for_another_question(kind):
    """Of 200 classes a byte with a sign holds not all; 255 and −1 are one and the same byte."""
    largest = min(np.iinfo(kind).max, np.iinfo(np.int64).max)
    ballots = np.array([[0, 1], [largest, 1], [200, -1], [-3, 201]]).astype(kind)
    counts = votes_of(ballots, 200 if kind is not np.int8 else 100)
    assert counts.sum() == 3
    assert (counts[0, 0], counts[1, 1]) == (1, 2)


def test_counted_votes_are_answered_about_like_their_ballots():
    ballots = np.random.default_rng(1).integers(-1, 3, (7, 20))
    counted = CountedVotes.of(votes_of(ballots, 3), 7)
    some = np.array([3, 1, 7])
    for query in (VoteCounts(20, 3, Unit.ROW), LargestVotes(20, 3, Unit.ROW)):
        assert (query(counted, NOBODY) == query(ballots, NOBODY)).all()
    three = VoteCounts(5, 3, Unit.ROW)
    assert (three(counted[:, some], NOBODY) == three(ballots[:, some], NOBODY)).all()


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64])
def test_counts_that_cannot_be_are_brought_into_range(kind):
    given = CountedVotes.of(np.array([[-3, 9, 9], [4, 0, 127]]).astype(kind), 5).counts
    assert (given >= 0).all()
    assert (given.sum(axis=1) <= 5).all()
    assert given[1].tolist() == [4, 0, 1]
