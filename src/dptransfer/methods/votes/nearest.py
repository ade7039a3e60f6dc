"""Votes of the private rows nearest to each public question: PATE without teachers.

Each question is answered by the k private units that are nearest to it, a person by their nearest row. Why a
unit changes no more than a teacher's ballot does, at the same price: fix a question, and let D be the units
that both neighbours have. Each neighbour has D and at most one unit more, so its k nearest hold the k − 1
nearest of D, and the two sets differ in one member at most, also where a unit is replaced. A member has one
vote, so a question's votes lose one here and gain one there: √2. (Under add/remove with fewer than k units
one vote comes or goes.)

That holds for any order of the units that does not depend on who else is there. Here it is that of exact
products of integer rows, which are not rounded whatever else is multiplied, and among equals that of classes:
units that are equal in both have the same vote, so it does not matter which of them is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.base.types import AnyArray, Integers, Labels, People
from dptransfer.base.worker_env import usable_cores
from dptransfer.exact.chunks import side_by_side
from dptransfer.methods.about import About
from dptransfer.methods.method import RowsTask
from dptransfer.methods.votes.pate import TransferPATE
from dptransfer.methods.votes.voting import ASSUMED_SIZE, TeacherAnswers
from dptransfer.queries.similarity import grid_rows
from dptransfer.queries.votes import CountedVotes

_PRECISION = "float16"
_AT_ONCE = 2**22  # products


def nearest_votes(
    rows: AnyArray, labels: Labels, people: People | None, questions: AnyArray, k: int, classes: int
) -> Integers:
    """(questions, classes) votes of the k units nearest to each question.

    >>> rows, questions = np.array([[9, 0], [0, 9], [1, 8]]), np.array([[9, 1], [0, 9]])
    >>> nearest_votes(rows, np.array([0, 1, 2]), None, questions, 2, 3).tolist()
    [[1, 0, 1], [0, 1, 1]]
    >>> nearest_votes(rows, np.array([0, 1, 2]), np.array([0, 1, 1]), questions, 2, 3).tolist()
    [[1, 0, 1], [1, 1, 0]]

    Args:
        rows: integers, of the norm of `exact.capped_similarity` at most.
        labels: their classes, as positions.
        people: whose each row is, where persons vote.
        questions: integers likewise.
        k: how many vote.
        classes: how many there are.
    """
    if not len(rows):
        return np.zeros((len(questions), classes), dtype=np.int64)
    private, firsts = rows.astype(np.float32), None
    if people is not None:
        order = np.argsort(people, kind="stable")
        private, labels = private[order], labels[order]
        firsts = np.flatnonzero(np.diff(people[order], prepend=-1))

    def counted(part: slice) -> Integers:
        # Whole numbers below 2²², so exact in single precision.
        near = (questions[part].astype(np.float32) @ private.T).astype(np.int64) * classes + labels
        if firsts is not None:
            near = np.maximum.reduceat(near, firsts, axis=1)
        if k < near.shape[1]:
            near = np.partition(near, near.shape[1] - k, axis=1)[:, -k:]
        places = near % classes + classes * np.arange(len(near))[:, np.newaxis]
        return np.bincount(places.ravel(), minlength=classes * len(near)).reshape(-1, classes)

    step = max(1, _AT_ONCE // len(rows))
    parts = [slice(start, start + step) for start in range(0, len(questions), step)]
    return np.concatenate([*side_by_side(counted, parts, usable_cores())])


@dataclass(frozen=True)
class PrivateKNN(TransferPATE):
    """The private rows nearest to public ones vote on their classes, and a student learns from noisy votes.

    Releases:      noisy votes of the k nearest units for every class, on every public row that is asked
                   about; with a threshold, noisy largest votes first, and votes on the rows that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit changes one member of the k nearest (`methods.votes.nearest`).
    Assumes:       declared classes; public rows; a public number of voters and a public feature map.
    Reference:     Zhu, Yu, Chandraker, Wang (2020), Private-kNN, without their samples: in the Gaussian limit
                   a sample of the rows for each question costs what it saves, and all rows answer alike. The
                   price depends on no data.

    Attributes:
        teachers: how many units vote, k; None for a half of the declared ones.
    """

    name: ClassVar[str] = "private-knn"
    about: ClassVar[About] = About(
        card="For a number of public examples it was counted to which classes the private examples nearest "
        "to each belong (of a person, the nearest example), and the counts were released with Gaussian "
        "noise. The classifier learned from these answers and from public examples alone.",
        paper_names=("knn", "private-k-nn"),
        reference="Zhu, Yu, Chandraker, Wang: Private-kNN: Practical Differential Privacy for Computer "
        "Vision (CVPR 2020), with a price that depends on no data.",
        family="Teachers",
        options={"teachers": "How many private examples vote on each question."},
    )
    voters: ClassVar[str] = "nearest examples"

    def _teachers_for(self, size: int | None, units: int | None) -> int:
        """Half of all."""
        return max(1, (units or size or ASSUMED_SIZE) // 2)

    def answer(self, task: RowsTask) -> TeacherAnswers:
        """Votes of the nearest, where teachers would cast ballots."""
        assert task.public is not None
        assert self.teachers is not None
        private, public, k = task.private, task.public, self.teachers
        questions = self.questions(len(public))

        def count() -> AnyArray:
            rows, asked = (
                grid_rows(task.prepared, one, _PRECISION) for one in (private.rows, public.rows[questions])
            )
            return nearest_votes(rows, private.labels, private.people, asked, k, len(task.facts.classes))

        votes = CountedVotes(task.noise.keep("votes of the nearest", count), k)
        return self.release_answers(task.plan.mechanisms, votes, questions, task.noise)
