"""PATE with linear teachers on frozen features, and a linear student.

A teacher is a class-balanced ridge regression toward its classes: W minimises Σ wᵢ·‖eᵢ − W·xᵢ‖² + λ‖W‖²,
where eᵢ is the class of row i, one-hot, and the weights wᵢ, of mean 1, make all classes that it has seen
count alike. By the smaller of two systems: with n rows X in d dimensions, W = (Xᵀ·diag(w)·X +
λ)⁻¹·Xᵀ·diag(w)·E, or equally Xᵀ·(X·Xᵀ + λ·diag(1/w))⁻¹·E. It has no intercept: questions are of another
origin than its rows.

The price of votes rests on this: a ballot is a function of its teacher's rows alone, bit for bit. So nothing
is padded to the longest part, and no product is shared between teachers: each has its own calls, whose shapes
follow from its own rows. Nor does the order of rows matter for that: whoever joins or leaves other teachers
does not change it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.progress import tell
from dptransfer.base.types import AnyArray, Floats, Floats32, Integers, Labels
from dptransfer.base.worker_env import usable_cores
from dptransfer.exact.chunks import side_by_side
from dptransfer.exact.feature_map import Features, FittedFeatures, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.about import TEACHERS, About
from dptransfer.methods.method import EmbeddingMethod, Outcome, RowsTask
from dptransfer.methods.votes.voting import Voting, linear_student
from dptransfer.queries.votes import ABSTAINS

Integers32: TypeAlias = NDArray[np.int32]
_AT_ONCE = 32  # teachers that one thread is given at a time
RIDGE = 0.5
"""λ, for rows in the unit ball. Chosen on caltech101, gtsrb, hwu64 and news20 with 20 to 1,000 teachers: 0.1
was worse for small parts, and the nearest class mean was worse on gtsrb and alike on the others."""


def linear_ballots(
    rows: Floats32, labels: Labels, parts: Sequence[Integers], questions: Floats32
) -> Integers32:
    """(teachers, questions) positions of classes: what each teacher takes each question for.

    A teacher without rows abstains, with −1. A class that it has no row of gets no vote from it; of classes
    with equal scores the first does.

    >>> x = np.array([[1, 0], [0, 1]], dtype=np.float32)
    >>> linear_ballots(x, np.array([2, 0]), [np.array([], dtype=int), np.array([0, 1])], x).tolist()
    [[-1, -1], [2, 0]]

    Args:
        rows: (examples, dimension) private rows in the unit ball.
        labels: their classes, as positions.
        parts: the positions of each teacher's rows.
        questions: (questions, dimension) public rows.
    """

    def cast(first: int) -> Integers32:
        return np.stack(
            [_ballot(rows[own], labels[own], questions) for own in parts[first : first + _AT_ONCE]]
        )

    found: list[Integers32] = []
    for some in side_by_side(cast, range(0, len(parts), _AT_ONCE), usable_cores()):
        found.append(some)
        tell(min(len(found) * _AT_ONCE, len(parts)), len(parts), "teacher")
    return np.concatenate(found)


def _ballot(rows: Floats32, labels: Labels, questions: Floats32) -> Integers32:
    """What one teacher votes, from its own rows."""
    seen = np.unique(labels)
    if len(seen) < 2:  # it knows one answer, or none
        return np.full(len(questions), seen[0] if len(seen) else ABSTAINS, dtype=np.int32)
    scores = questions @ _ridge(rows.astype(np.float64), np.searchsorted(seen, labels)).astype(np.float32)
    ballot: Integers32 = seen.astype(np.int32)[scores.argmax(axis=1)]
    return ballot


def _ridge(rows: Floats, classes: Labels) -> Floats:
    """(dimension, classes) columns of W."""
    counts = np.bincount(classes)
    weights = (len(rows) / (len(counts) * counts))[classes]
    targets = np.eye(len(counts))[classes]
    if len(rows) <= rows.shape[1]:
        return rows.T @ np.linalg.solve(rows @ rows.T + np.diag(RIDGE / weights), targets)
    weighted = rows * weights[:, None]
    second = weighted.T @ rows + RIDGE * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(second, weighted.T @ targets), dtype=np.float64)


_CHUNK = 4096


@dataclass(frozen=True)
class TransferPATE(Voting, EmbeddingMethod):
    """Linear teachers vote on public rows and a student learns from noisy votes: PATE on frozen features.

    Linear teachers on disjoint parts of the private rows vote on public rows; a linear student learns.

    Releases:      noisy votes of all teachers for every class, on every public row that they are asked about;
                   with a threshold, noisy largest votes first, and votes on the rows that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit, and its successor, is with one teacher (`methods.votes.voting`).
    Assumes:       declared classes; public rows; a public number of teachers. A teacher's ballot is a
                   function of its own rows (`methods.votes.transfer_pate`), as long as the linear algebra
                   gives equal results for equal arrays within a process.
    Reference:     Li et al. (2023), Transfer-PATE; Papernot et al. (2018). The printed ε = 1.019 for 684
                   answers is an expected, data-dependent value that is itself private; the exact price of
                   those steps is ε = 3.178. Here the price depends on no data.

    Attributes:
        features: the public feature map.
        self_training: whether the student goes on with public rows of whose class it is sure.
    """

    rows_per_teacher: ClassVar[int] = 4
    """On caltech101, gtsrb, hwu64 and news20, of parts of 1 to 100 rows, those of 3 to 5 were best or next to
    it at every ε from 0.5 to 8: votes say more the more teachers there are, and a student that regresses them
    needs no teacher to be right."""
    features: Features = field(default_factory=lambda: PublicMap(axes=256))
    self_training: bool = True
    name: ClassVar[str] = "transfer-pate"
    about: ClassVar[About] = About(
        card="The private examples were shared out among teachers, each example (or person) with one of "
        "them; the number of teachers that vote for each class was released with Gaussian noise, for a "
        "number of public examples. The classifier learned from these answers and from public examples "
        "alone.",
        reference=f"{TEACHERS}, Transfer-PATE, with a price that depends on no data.",
        family="Teachers",
        options={"teachers": "How many teachers share the private rows."},
    )

    def run(self, task: RowsTask) -> Outcome:
        """Teachers, votes, and a student on public rows."""
        private, public, features = task.private, task.public, task.prepared
        assert public is not None

        def ballots(parts: list[Integers], questions: Integers) -> AnyArray:
            def cast() -> AnyArray:
                rows, asked = (_mapped(features, one) for one in (private.rows, public.rows[questions]))
                return linear_ballots(rows, private.labels, parts, asked)

            return task.noise.keep("ballots", cast)

        answers = self.ask(task, ballots)

        def mapped_at(positions: Integers) -> Floats:
            return apply(features, public.rows[positions])

        soft = self.labels == "soft"
        head = linear_student(mapped_at, len(public), answers, soft=soft, self_training=self.self_training)
        notes = self.notes_of(len(answers.positions))
        return Outcome(head, task.plan.events, notes=notes, answers=answers.by_class())


def _mapped(features: FittedFeatures, rows: AnyArray) -> Floats32:
    """Mapped rows in single precision, which integers of norm at most 2²⁴ fit into exactly."""
    mapped = np.empty((len(rows), features.dimension), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        mapped[chunk] = features.lattice(rows[chunk], 2**24)
    return mapped * np.float32(2.0**-24)
