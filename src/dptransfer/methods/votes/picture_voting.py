"""Teachers that see pixels: what methods share whose teachers learn from pictures and vote on public ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from dptransfer.base.types import Integers
from dptransfer.data import Facts
from dptransfer.methods.about import Moderate, Rate, Whole
from dptransfer.methods.method import Outcome, Task
from dptransfer.methods.votes.picture_student import PictureStudent, Untaught
from dptransfer.methods.votes.voting import teacher_of_each_row
from dptransfer.sources import PrivateImages, PublicImages

if TYPE_CHECKING:
    from dptransfer.methods.deep.network import Network
    from dptransfer.methods.deep.teachers import Course, Teachers

_OWN_PICTURES = 40  # of a teacher, where no number is declared; `Voting` plans for as many


class Prepared(NamedTuple):
    """What there is before a private picture is read.

    Attributes:
        teachers: what they are, at their public start.
        course: how they learn.
        student: what will learn from them.
    """

    teachers: Teachers
    course: Course
    student: Untaught


@dataclass(frozen=True)
class PictureVoting(PictureStudent):
    """Base of the methods whose teachers see pixels; a subclass says what they are.

    Attributes:
        epochs: how often a teacher looks at each of its pictures, if it has its share of the declared number
            (or 40). All teachers look at the same number in all, whatever they have.
        batch: pictures that a teacher looks at in one step.
        rate: length of a teacher's first steps, by Adam.
        decay: what the length is multiplied by after each tenth of the steps.
        together: teachers in one pass through the network; None for what suits the device. It changes how
            long teaching takes, and how numbers are rounded.
    """

    epochs: Moderate = 10.0
    batch: Whole = 16
    rate: Moderate = 0.05
    decay: Rate = 0.7
    together: Whole | None = None

    assumptions: ClassVar[tuple[str, ...]] = (
        *PictureStudent.assumptions,
        "the network computes what a teacher learns and votes alike whatever teachers are beside it",
    )
    in_one_pass: ClassVar[tuple[int, int]] = (2, 32)
    """Teachers that suit a CPU, and other devices."""

    @abstractmethod
    def untaught_teachers(self, network: Network, classes: int) -> Teachers:
        """The teachers at their public start; raises for settings that do not go together."""

    def prepare(self, facts: Facts, public: PublicImages) -> Prepared:
        """Load the network, and refuse what cannot work: all of it is public."""
        from dptransfer.methods.deep.cross_example_check import require_own_ballots
        from dptransfer.methods.deep.teachers import Course

        assert self.teachers is not None
        network = self.network()
        network.require_shape(facts.shape)
        teachers = self.untaught_teachers(network, len(facts.classes))
        own = _OWN_PICTURES if facts.declared_size is None else facts.declared_size / self.teachers
        steps = max(1, math.ceil(self.epochs * own / self.batch))
        together = self.together or self.in_one_pass[network.device.type != "cpu"]
        course = Course(steps, self.batch, self.rate, self.decay, min(together, self.teachers))
        require_own_ballots(teachers, course, network.side, network.identity.name)
        return Prepared(teachers, course, self.untaught_student(network, public))

    def run(self, task: Task[Prepared, PrivateImages, PublicImages]) -> Outcome:
        """Teachers, votes, and a student on public pictures."""
        from dptransfer.methods.deep.teachers import ballots_of

        assert self.teachers is not None
        private, public, noise = task.private, task.public, task.noise
        questions = self.questions(len(public))
        teacher = teacher_of_each_row(len(private.labels), private.people, self.teachers, noise)
        ballots = ballots_of(
            task.prepared.teachers,
            task.prepared.course,
            private.pixels,
            private.labels,
            parts_of(teacher, self.teachers),
            public.pixels[questions],
            noise.keep,
        )
        answers = self.answered(task.plan.mechanisms, ballots, questions, noise)
        head, features, encoder, delta = self.learned(task.prepared.student, public, answers, noise)
        return Outcome(
            head,
            task.plan.events,
            notes=self.answer_notes(answers),
            features=features,
            encoder_delta=delta,
            encoder=None if delta is not None else encoder,
            answers=answers.by_class(),
        )


def parts_of(teacher: Integers, teachers: int) -> list[Integers]:
    """The positions of each teacher's examples, in their order.

    >>> [part.tolist() for part in parts_of(np.array([2, 0, 2]), 3)]
    [[1], [], [0, 2]]
    """
    order = np.argsort(teacher, kind="stable")
    return np.split(order, np.searchsorted(teacher[order], np.arange(1, teachers)))
