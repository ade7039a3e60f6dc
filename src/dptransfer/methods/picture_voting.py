"""Teachers that see pixels: what methods share whose teachers learn from pictures and vote on public ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from dptransfer import _check
from dptransfer.arrays import EncodedRows, Integers
from dptransfer.data import Facts, PrivateImages, PublicEmbeddings, PublicImages
from dptransfer.encoders.in_memory import encode_pixels
from dptransfer.features import Features, FittedFeatures, PublicMap, apply
from dptransfer.methods.base import ImageMethod, Outcome, Plan
from dptransfer.methods.partition import teacher_of_each_row
from dptransfer.methods.student import linear_student
from dptransfer.methods.voting import Voting
from dptransfer.noise import NoiseSource

if TYPE_CHECKING:
    from dptransfer.deep.network import Network
    from dptransfer.deep.teachers import Course, Teachers

_OWN_PICTURES = 40  # of a teacher, where no number is declared; `Voting` plans for as many


class Prepared(NamedTuple):
    """What there is before a private picture is read.

    Attributes:
        network: the public network.
        teachers: what they are, at their public start.
        course: how they learn.
        pool: the network's rows of the public pictures.
        features: the map of these that the student works on.
    """

    network: Network
    teachers: Teachers
    course: Course
    pool: EncodedRows
    features: FittedFeatures


@dataclass(frozen=True)
class PictureVoting(Voting, ImageMethod):
    """Base of the methods whose teachers see pixels; a subclass says what they are.

    Attributes:
        epochs: how often a teacher looks at each of its pictures, if it has as many as declared (or 40). All
            teachers look at the same number in all, whatever they have.
        batch: pictures that a teacher looks at in one step.
        rate: length of a teacher's first steps, by Adam.
        decay: what the length is multiplied by after each tenth of the steps.
        together: teachers in one pass through the network; None for what suits the device. It changes how
            long it takes and how numbers are rounded.
        features: the public map of the encoder's rows that the student works on.
        self_training: whether the student goes on with public pictures that nobody was asked about.
    """

    epochs: float = 10.0
    batch: int = 16
    rate: float = 0.05
    decay: float = 0.7
    together: int | None = None
    features: Features = field(default_factory=lambda: PublicMap(axes=256))
    self_training: bool = True

    checks: ClassVar[_check.Checks] = {
        "epochs": _check.moderate,
        "batch": _check.whole,
        "rate": _check.moderate,
        "decay": _check.rate,
        "together": _check.or_none(_check.whole),
    }
    passes: ClassVar[tuple[int, int]] = (2, 32)
    """Teachers in one pass, on a CPU and elsewhere."""

    @abstractmethod
    def untaught(self, network: Network, classes: int) -> Teachers:
        """The teachers at their public start; raises for settings that do not go together."""

    def prepare(self, facts: Facts, public: PublicImages) -> Prepared:
        """Load the network, and refuse what cannot work: all of it is public."""
        from dptransfer.deep.teachers import Course

        assert self.teachers is not None
        network = self.network()
        network.require_shape(facts.shape)
        own = _OWN_PICTURES if facts.declared_size is None else facts.declared_size / self.teachers
        steps = max(1, math.ceil(self.epochs * own / self.batch))
        together = self.together or self.passes[network.device.type != "cpu"]
        course = Course(steps, self.batch, self.rate, self.decay, min(together, self.teachers))
        teachers = self.untaught(network, len(facts.classes))
        pool = encode_pixels(public.pixels, network.encoder)
        features = self.features.fit(network.dimension, PublicEmbeddings(pool))
        return Prepared(network, teachers, course, pool, features)

    def run(
        self, plan: Plan, prepared: Prepared, private: PrivateImages, noise: NoiseSource, public: PublicImages
    ) -> Outcome:
        """Teachers, votes, and a student on public pictures."""
        from dptransfer.deep.teachers import ballots_of

        assert self.teachers is not None
        network, teachers, course, pool, features = prepared
        questions = self.questions(len(public))
        teacher = teacher_of_each_row(len(private.labels), private.people, self.teachers, noise)
        ballots = ballots_of(
            teachers,
            course,
            private.pixels,
            private.labels,
            _parts(teacher, self.teachers),
            public.pixels[questions],
            noise.kept,
        )
        answers = self.answered(plan.mechanisms, ballots, questions, noise)
        mapped = apply(features, pool)
        head = linear_student(mapped, answers, soft=self.labels == "soft", self_training=self.self_training)
        return Outcome(
            head,
            plan.events,
            notes=self.answer_notes(answers),
            features=features,
            encoder=network.identity,
            answers=answers.by_class(),
        )


def _parts(teacher: Integers, teachers: int) -> list[Integers]:
    """The positions of each teacher's examples, in their order.

    >>> [part.tolist() for part in _parts(np.array([2, 0, 2]), 3)]
    [[1], [], [0, 2]]
    """
    order = np.argsort(teacher, kind="stable")
    return np.split(order, np.searchsorted(teacher[order], np.arange(1, teachers)))
