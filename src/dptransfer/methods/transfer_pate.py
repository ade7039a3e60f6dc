"""Linear teachers on frozen features vote on public rows, and a linear student learns from their votes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Floats32, Integers
from dptransfer.compute.linear_teachers import linear_ballots
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.features import Features, FittedFeatures, PublicMap, apply
from dptransfer.methods.about import TEAL, About
from dptransfer.methods.base import EmbeddingMethod, Outcome, Plan
from dptransfer.methods.citations import TEACHERS
from dptransfer.methods.partition import teacher_of_each_row
from dptransfer.methods.student import linear_student
from dptransfer.methods.voting import Voting
from dptransfer.noise import NoiseSource

_CHUNK = 4096


@dataclass(frozen=True)
class TransferPATE(Voting, EmbeddingMethod):
    """Linear teachers on disjoint parts of the private rows vote on public rows; a linear student learns.

    Releases:      noisy votes of all teachers for every class, on every public row that they are asked about;
                   with a threshold, noisy largest votes first, and votes on the rows that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit, and its successor, is with one teacher (`methods.partition`).
    Assumes:       declared classes; public rows; a public number of teachers. A teacher's ballot is a
                   function of its own rows (`compute.linear_teachers`), as long as the linear algebra
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
        summary="Linear teachers vote on public rows and a student learns from noisy votes: PATE on frozen "
        "features.",
        card="The private examples were shared out among teachers, each example (or person) with one of "
        "them; the number of teachers that vote for each class was released with Gaussian noise, for a "
        "number of public examples. The classifier learned from these answers and from public examples "
        "alone.",
        reference=f"{TEACHERS}, Transfer-PATE, with a price that depends on no data.",
        family="Teachers",
        colour=TEAL,
        marker="h",
        options={"teachers": "How many teachers share the private rows."},
    )

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """Teachers, votes, and a student on public rows."""
        assert public is not None
        assert self.teachers is not None
        questions = self.questions(len(public))
        teacher = teacher_of_each_row(len(private.labels), private.people, self.teachers, noise)

        def ballots() -> AnyArray:
            rows, asked = _mapped(features, private.rows), _mapped(features, public.rows[questions])
            return linear_ballots(rows, private.labels, teacher, asked, teachers=self.teachers or 0)

        cast = noise.kept("ballots", ballots)
        answers = self.answered(plan.mechanisms, cast, questions, noise)
        pool, soft = _MappedPool(features, public.rows), self.labels == "soft"
        head = linear_student(pool, answers, soft=soft, self_training=self.self_training)
        return Outcome(head, plan.events, notes=self.answer_notes(answers), answers=answers.by_class())


@dataclass(frozen=True, eq=False)
class _MappedPool:
    """A pool of any size in the unit ball: rows that are asked for are read and mapped, and none is kept."""

    features: FittedFeatures
    rows: AnyArray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, positions: Integers) -> Floats:
        return apply(self.features, self.rows[positions])


def _mapped(features: FittedFeatures, rows: AnyArray) -> Floats32:
    """Mapped rows in single precision, which integers of norm at most 2²⁴ fit into exactly."""
    mapped = np.empty((len(rows), features.dimension), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        mapped[chunk] = features.lattice(rows[chunk], 2**24)
    return mapped * np.float32(2.0**-24)
