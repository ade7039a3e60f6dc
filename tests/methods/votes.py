"""A method that votes, in the manner of PATE: small models label public rows, and noise hides each one."""

import hashlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dptransfer.features import apply
from dptransfer.features.lattice import SUM_BITS
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.base import EmbeddingMethod, Outcome, with_query
from dptransfer.methods.softmax import fitted_softmax
from dptransfer.privacy import Relation, Unit
from dptransfer.release.heads import LinearHead

_GRID = 2**SUM_BITS


@dataclass(frozen=True, eq=False)
class VoteCounts:
    """How many teachers take each public question for an example of each class.

    Releases:      a (questions, classes) matrix of counts.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   L2. A row belongs to one teacher, by a hash of the row alone, so one row more changes one
                   teacher, who moves a vote per question from one class to another: √2 each, √(2·questions)
                   together. Replace: two teachers, so twice as much.
    Assumes:       public questions and number of teachers; a feature map that works row by row.
    Reference:     Papernot et al. (2017, 2018).
    """

    features: Any
    questions: Any
    classes: int
    teachers: int

    label = "teachers' votes"
    unit = Unit.ROW
    grid = _GRID

    @property
    def shape(self):
        return len(self.questions), self.classes

    def l2_sensitivity(self, relation):
        return math.sqrt(2 * len(self.questions)) * (1 if relation is Relation.ADD_REMOVE else 2)

    def __call__(self, rows, labels):
        mapped = self.features.lattice(rows, _GRID)
        teacher = np.array([_keyed(row) % self.teachers for row in mapped], dtype=np.int64)
        votes = np.zeros(self.shape, dtype=np.int64)
        for one in range(self.teachers):
            taught = _ridge(mapped[teacher == one] / _GRID, labels[teacher == one], self.classes)
            votes[np.arange(len(votes)), (self.questions @ taught).argmax(axis=1)] += 1
        return votes * _GRID


@dataclass(frozen=True)
class Votes(EmbeddingMethod):
    """Teachers on disjoint parts of the private rows label public questions; a student learns from those.

    Releases:      the noisy votes on all questions.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget.
    Relation:      add/remove one example, or replace one example; the budget says which.
    Sensitivity:   see `VoteCounts`.
    Assumes:       declared classes; public rows to ask about.
    Reference:     Papernot et al. (2018), with all questions in one release.
    """

    teachers: int = 50
    questions: int = 30
    name: ClassVar[str] = "votes"
    needs_public: ClassVar[bool] = True

    def plan(self, facts, budget, public=None):
        outline = self.outline(facts, public)
        nothing = np.zeros((self.questions, outline.dimension))
        query = VoteCounts(outline, nothing, len(facts.classes), self.teachers)
        return self.calibrated_plan(lambda z: [GaussianMechanism(query, z, budget.relation)], budget)

    def run(self, plan, prepared, private, noise, public):
        (voting,) = plan.mechanisms
        questions = apply(prepared, public.rows[: self.questions])
        votes = with_query(voting, features=prepared, questions=questions).release(
            private.rows, private.labels, noise=noise
        )
        start = np.zeros((len(private.facts.classes), prepared.dimension))
        student = fitted_softmax(questions, votes.argmax(axis=1), start, 0.01)
        return Outcome(LinearHead(student, np.zeros(len(student))), (voting.event,))


def _keyed(row):
    return int.from_bytes(hashlib.blake2b(row.tobytes(), key=b"votes", digest_size=8).digest(), "big")


def _ridge(rows, labels, classes):
    """(dimension, classes) of least squares toward one-hot labels; no rows, no opinion."""
    return np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ np.eye(classes)[labels])
