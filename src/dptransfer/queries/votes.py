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

from dptransfer.arrays import AnyArray, Floats, Integers, Labels
from dptransfer.errors import ArgumentError
from dptransfer.features.lattice import SUM_BITS
from dptransfer.privacy import Relation, Unit

ABSTAINS = -1
"""The ballot of a teacher without an opinion: it has no examples."""

_SLAB = 256  # ballots that are counted at a time
_NO_LOSSES = (
    "Teachers' votes have no losses by row: a row moves its teacher's ballot, by all or by nothing, together "
    "with the teacher's other rows. Use a method without teachers."
)


@dataclass(frozen=True, eq=False)
class CountedVotes:
    """Votes that came counted already, in the place of ballots: queries answer about them alike.

    Attributes:
        counts: (questions, classes).
        teachers: how many voted, or abstained.
    """

    counts: Integers
    teachers: int

    @classmethod
    def of(cls, counts: AnyArray, teachers: int) -> CountedVotes:
        """A count below zero is none, and what is more than all teachers can cast is left out.

        Without a word, for counts are private.

        >>> CountedVotes.of(np.array([[2, 0], [-5, 4]]), teachers=3).counts.tolist()
        [[2, 0], [0, 3]]
        """
        given = np.clip(np.asarray(counts).astype(np.int64), 0, teachers)
        return cls(np.diff(np.minimum(given.cumsum(axis=1), teachers), prepend=0), teachers)

    @property
    def shape(self) -> tuple[int, int]:
        """(teachers, questions), as of ballots."""
        return self.teachers, len(self.counts)

    def __getitem__(self, places: tuple[slice, Integers]) -> CountedVotes:
        """Of all teachers, the votes on some questions."""
        return CountedVotes(self.counts[places[1]], self.teachers)


def votes_of(ballots: AnyArray | CountedVotes, classes: int) -> Integers:
    """(questions, classes) counts of the ballots (teachers, questions); what is no class counts for none.

    Without a word, for ballots are private. A part of them is read at a time: they may be many, and on disk.

    >>> votes_of(np.array([[0, 1], [0, -1]]), classes=2).tolist()
    [[2, 0], [0, 1]]
    """
    if isinstance(ballots, CountedVotes):
        return ballots.counts
    counts = np.zeros(ballots.shape[1] * classes, dtype=np.int64)
    first = np.arange(ballots.shape[1]) * classes
    for start in range(0, len(ballots), _SLAB):
        cast = np.asarray(ballots[start : start + _SLAB]).astype(np.int64)  # bytes may not hold `classes`
        counts += np.bincount((cast + first)[(cast >= 0) & (cast < classes)], minlength=len(counts))
    return counts.reshape(-1, classes)


@dataclass(frozen=True)
class _Votes:
    """What both queries have.

    Attributes:
        questions: how many.
        classes: how many.
        unit: whose ballots change at most one teacher.
        replaced: how many ballots a replaced unit changes at most: 1 where a unit's teacher is drawn without
            regard to what the unit is (`methods.partition`), 2 where it may decide that.
    """

    questions: int
    classes: int
    unit: Unit
    replaced: int = 2

    grid: ClassVar[int] = 2**SUM_BITS

    def changed_ballots(self, relation: Relation) -> int:
        """How many a unit changes at most."""
        return 1 if relation is Relation.ADD_REMOVE else self.replaced

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """None to be told: ballots are not rows."""
        raise ArgumentError(_NO_LOSSES)


@dataclass(frozen=True)
class VoteCounts(_Votes):
    """How many teachers vote for each class, for every question.

    Releases:      a (questions, classes) matrix of counts.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: one teacher's ballot changes, so that a question's votes lose one here and
                   gain one there: √2 a question, √(2·questions) in all. Replace: the same where the unit's
                   successor is with the same teacher. Where it may join another, two ballots change, and both
                   may move the same way: 2√2 a question.
    Assumes:       one unit touches one teacher; number of teachers and questions are public.
    Reference:     Papernot et al. (2018), GNMax, whose Rényi divergence α/σ² is that of this sensitivity.
    """

    label: ClassVar[str] = "teachers' votes"

    @property
    def shape(self) -> tuple[int, int]:
        """(questions, classes)."""
        return self.questions, self.classes

    def l2_sensitivity(self, relation: Relation) -> float:
        """√2 a question and changed ballot."""
        return math.sqrt(2 * self.questions) * self.changed_ballots(relation)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The counts, of ballots on at most as many questions; what is not asked has no votes."""
        answer = np.zeros(self.shape, dtype=np.int64)
        answer[: rows.shape[1]] = votes_of(rows, self.classes)
        return answer * self.grid


@dataclass(frozen=True)
class LargestVotes(_Votes):
    """How many teachers vote for the favourite class, for every question.

    Releases:      one count for each question.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. A changed ballot moves every class's count by at most one, and so the largest count:
                   1 a question, √questions in all. Replace: the same where the unit's successor is with the
                   same teacher; where two ballots may change, twice as much.
    Assumes:       one unit touches one teacher; number of teachers and questions are public.
    Reference:     Papernot et al. (2018), the test of Confident-GNMax, of Rényi divergence α/2σ².
    """

    label: ClassVar[str] = "votes for each question's favourite"

    @property
    def shape(self) -> tuple[int]:
        """(questions,)."""
        return (self.questions,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 a question and changed ballot."""
        return math.sqrt(self.questions) * self.changed_ballots(relation)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The largest counts, of ballots on this many questions."""
        largest: Integers = votes_of(rows, self.classes).max(axis=1)
        return largest * self.grid
