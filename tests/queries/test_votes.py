import itertools
import math

import numpy as np
import pytest

from dptransfer.privacy import Relation, Unit
from dptransfer.queries import LargestVotes, VoteCounts
from dptransfer.queries.votes import CountedVotes, votes_of

NOBODY = np.zeros(0, dtype=np.int64)


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
    assert (counts // VoteCounts.grid).tolist() == [[2, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert (LargestVotes(2, 3, Unit.ROW)(ballots, NOBODY) // LargestVotes.grid).tolist() == [2, 2]


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
