"""How many teachers vote for each class, and how many for the favourite.

The rows of these queries are teachers' ballots, (teachers, questions): the position of a class, or −1 where a
teacher abstains. A unit of the private data touches one teacher, so one row of ballots, however many rows it
has (`methods.partition`); what the other rows say does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.arrays import AnyArray, Integers, Labels
from dptransfer.features.lattice import SUM_BITS
from dptransfer.privacy import Relation, Unit

ABSTAINS = -1
"""The ballot of a teacher without an opinion: it has no examples."""


def votes_of(ballots: AnyArray, classes: int) -> Integers:
    """(questions, classes) counts of the ballots (teachers, questions).

    >>> votes_of(np.array([[0, 1], [0, -1]]), classes=2).tolist()
    [[2, 0], [0, 1]]
    """
    cast, questions = np.asarray(ballots), np.arange(ballots.shape[1])
    given = cast != ABSTAINS
    places = np.broadcast_to(questions, cast.shape)[given] * classes + cast[given]
    return np.bincount(places, minlength=len(questions) * classes).reshape(-1, classes)


def ballots_that_give(counts: AnyArray, teachers: int, classes: int) -> Integers:
    """Ballots (teachers, questions) whose `votes_of` are these counts (questions, classes).

    For votes that come counted already: the same queries then answer about them. A count below zero is none,
    and what is more than all teachers can cast is left out, without a word: counts are private.

    >>> ballots_that_give(np.array([[2, 0], [-5, 1]]), teachers=3, classes=2).T.tolist()
    [[0, 0, -1], [1, -1, -1]]
    """
    cast = np.minimum(np.clip(counts, 0, teachers).astype(np.int64).cumsum(axis=1), teachers)
    seat = np.arange(teachers)[:, np.newaxis]
    ballots = sum((seat >= cast[:, one] for one in range(classes)), np.zeros((teachers, len(cast)), np.int64))
    return np.where(ballots == classes, ABSTAINS, ballots)


@dataclass(frozen=True)
class VoteCounts:
    """How many teachers vote for each class, for every question.

    Releases:      a (questions, classes) matrix of counts.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: one teacher's ballot changes, so that a question's votes lose one here and
                   gain one there: √2 a question, √(2·questions) in all. Replace: the unit leaves one teacher
                   and joins another, two ballots change, and both may move the same way: 2√2 a question.
    Assumes:       one unit touches one teacher; number of teachers and questions are public.
    Reference:     Papernot et al. (2018), GNMax, whose Rényi divergence α/σ² is that of this sensitivity.

    Attributes:
        questions: how many.
        classes: how many.
        unit: whose ballots change at most one teacher.
    """

    questions: int
    classes: int
    unit: Unit

    label: ClassVar[str] = "teachers' votes"
    grid: ClassVar[int] = 2**SUM_BITS

    @property
    def shape(self) -> tuple[int, int]:
        """(questions, classes)."""
        return self.questions, self.classes

    def l2_sensitivity(self, relation: Relation) -> float:
        """√2 a question and changed ballot, of which replace-one has two."""
        return math.sqrt(2 * self.questions) * (1 if relation is Relation.ADD_REMOVE else 2)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The counts, of ballots on at most as many questions; what is not asked has no votes."""
        answer = np.zeros(self.shape, dtype=np.int64)
        answer[: rows.shape[1]] = votes_of(rows, self.classes)
        return answer * self.grid


@dataclass(frozen=True)
class LargestVotes:
    """How many teachers vote for the favourite class, for every question.

    Releases:      one count for each question.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. A changed ballot moves every class's count by at most one, and so the largest count:
                   1 a question, √questions in all. Replace: two ballots change, twice as much.
    Assumes:       one unit touches one teacher; number of teachers and questions are public.
    Reference:     Papernot et al. (2018), the test of Confident-GNMax, of Rényi divergence α/2σ².

    Attributes:
        questions: how many.
        classes: how many.
        unit: whose ballots change at most one teacher.
    """

    questions: int
    classes: int
    unit: Unit

    label: ClassVar[str] = "votes for each question's favourite"
    grid: ClassVar[int] = 2**SUM_BITS

    @property
    def shape(self) -> tuple[int]:
        """(questions,)."""
        return (self.questions,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 a question and changed ballot, of which replace-one has two."""
        return math.sqrt(self.questions) * (1 if relation is Relation.ADD_REMOVE else 2)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The largest counts, of ballots on this many questions."""
        largest: Integers = votes_of(rows, self.classes).max(axis=1)
        return largest * self.grid
