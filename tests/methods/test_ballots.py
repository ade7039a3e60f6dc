import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods.votes.vote_aggregation import (
    noisy_answers,
    questions_of,
    require_passable,
    with_noise,
)
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.votes import CountedVotes, votes_of


@pytest.mark.parametrize("threshold", [None, 40.0])
def test_votes_that_came_counted_are_answered_like_the_ballots(threshold):
    ballots = np.random.default_rng(0).integers(0, 3, (100, 12))
    tested = questions_of(12, None if threshold is None else 5, 3, Unit.ROW, replaced=2)
    steps = [with_noise(query, 4.0, Relation.ADD_REMOVE) for query in tested]
    assert [step.scale for step in steps] == pytest.approx([4.0] * len(steps))
    counted = CountedVotes.of(votes_of(ballots, 3), teachers=100)
    one, other = (noisy_answers(steps, given, threshold, SeededNoise(1)) for given in (ballots, counted))
    assert one[0].tolist() == other[0].tolist()
    assert one[1].tolist() == other[1].tolist()
    assert len(one[0]) == (12 if threshold is None else 5)


def test_a_threshold_that_not_even_all_votes_reach_is_refused():
    require_passable(10.0, teachers=10)
    with pytest.raises(ArgumentError, match=r"never passed; got 10\.5 for 10 teachers"):
        require_passable(10.5, teachers=10)
