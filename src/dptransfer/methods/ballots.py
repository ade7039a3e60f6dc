"""What is asked of teachers' ballots, whoever trained the teachers, and the noisy answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dptransfer.arrays import Floats, Integers, Labels
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import GaussianMechanism, Step
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Relation, Unit
from dptransfer.queries import LargestVotes, VoteCounts

NO_LABELS: Labels = np.zeros(0, dtype=np.int64)
"""Ballots have no labels."""

MOST_NOISE = 1e8
"""Votes; on the grid of 2⁻³⁰ more could leave 64-bit integers, and that must show before the charge."""


def require_passable(threshold: float, teachers: int) -> None:
    """Raise for a threshold that not even all votes reach."""
    if threshold > teachers:
        raise ArgumentError(
            f"A threshold above the number of teachers is never passed; got {threshold:g} for {teachers} "
            "teachers. Lower it."
        )


def questions_of(
    queries: int, answers: int | None, classes: int, unit: Unit, replaced: int
) -> list[VoteCounts | LargestVotes]:
    """What is asked of the ballots: all votes or, with a number of answers, tests of all and so many votes.

    Args:
        queries: number of questions.
        answers: most that are answered of those that pass a test; None where there is none, and all are.
        classes: how many.
        unit: what touches one teacher at most.
        replaced: how many ballots a replaced unit changes.
    """
    votes = VoteCounts(queries if answers is None else answers, classes, unit, replaced)
    return [votes] if answers is None else [LargestVotes(queries, classes, unit, replaced), votes]


def with_noise(query: VoteCounts | LargestVotes, scale: float, relation: Relation) -> GaussianMechanism:
    """Its answer with noise of this standard deviation, in votes."""
    return GaussianMechanism(query, scale / query.l2_sensitivity(relation), relation)


def noisy_answers(
    mechanisms: Sequence[Step], ballots: Any, threshold: float | None, noise: NoiseSource
) -> tuple[Integers, Floats, float]:
    """Which questions are answered, the noisy votes on them, and the scale of that noise.

    With a threshold, all tests are one answer; of the questions that pass, the first are asked, never more
    than were paid for. What is not asked is zero in the second answer, whatever the ballots say.

    Args:
        mechanisms: of the tests, where there is a threshold, and of the votes.
        ballots: (teachers, questions), or `CountedVotes` in their place.
        threshold: votes that a favourite must have, noise included.
        noise: where it comes from.
    """
    *tests, voting = mechanisms
    assert isinstance(voting, GaussianMechanism)
    asked = np.arange(ballots.shape[1])
    for test in tests:
        assert isinstance(test, GaussianMechanism)
        assert threshold is not None
        largest = test.release(ballots, NO_LABELS, noise=noise)
        asked = np.flatnonzero(largest >= threshold)
    asked = asked[: voting.query.shape[0]]
    votes = voting.release(ballots[:, asked], NO_LABELS, noise=noise)[: len(asked)]
    return asked, votes, voting.scale
