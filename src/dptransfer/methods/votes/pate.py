"""PATE: teachers on rows, or on pictures, vote on public ones, and a student learns from the answers.

A student sees public examples and released answers, and nothing else: all of it is post-processing.

A linear teacher is a class-balanced ridge regression toward its classes: W minimises Σ wᵢ·‖eᵢ − W·xᵢ‖² +
λ‖W‖², where eᵢ is the class of row i, one-hot, and the weights wᵢ, of mean 1, make all classes that it has
seen count alike. By the smaller of two systems: with n rows X in d dimensions, W = (Xᵀ·diag(w)·X +
λ)⁻¹·Xᵀ·diag(w)·E, or equally Xᵀ·(X·Xᵀ + λ·diag(1/w))⁻¹·E. It has no intercept: questions are of another
origin than its rows.

The price of votes rests on this: a ballot is a function of its teacher's rows alone, bit for bit. So nothing
is padded to the longest part, and no product is shared between teachers: each has its own calls, whose shapes
follow from its own rows. Nor does the order of rows matter for that: whoever joins or leaves other teachers
does not change it here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import progress, worker_env
from dptransfer.base.types import AnyArray, EncodedRows, Floats, Floats32, Integers, Labels
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.encoders.in_memory import encode_pixels
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks, public_map
from dptransfer.exact.feature_map import Features, FittedFeatures, UnitNorm, apply
from dptransfer.methods.about import TEACHERS, About, Moderate, ModerateOrZero, Rate, Whole, one_of
from dptransfer.methods.deep.cross_example_check import require_own_ballots
from dptransfer.methods.deep.network import Network, network_of
from dptransfer.methods.deep.semi_supervised import Training, train_student
from dptransfer.methods.deep.teachers import Course, Prompts, SmallTeachers, Teachers, ballots_of
from dptransfer.methods.method import EmbeddingMethod, ImageMethod, Outcome, RowsTask, Task
from dptransfer.methods.votes.voting import TeacherAnswers, Voting, linear_student
from dptransfer.noise import NoiseSource
from dptransfer.queries.votes import ABSTAINS
from dptransfer.release import classifier, heads
from dptransfer.sources import PrivateImages, PublicImages

Integers32: TypeAlias = NDArray[np.int32]
_AT_ONCE = 32  # teachers that one thread is given at a time
RIDGE = 0.5
"""λ, for rows in the unit ball. Chosen on caltech101, gtsrb, hwu64 and news20 with 20 to 1,000 teachers: 0.1
was worse for small parts, and the nearest class mean was worse on gtsrb and alike on the others. For logits
of an encoder's own classes 0.3 and 0.5 were best among 0.01 to 3 on gtsrb, rsscn7 and dtd10, with 50 rows."""


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
        some = parts[first : first + _AT_ONCE]
        return np.stack([_ballot(rows[own], labels[own], questions) for own in some])

    found: list[Integers32] = []
    for some in chunks.side_by_side(cast, range(0, len(parts), _AT_ONCE), worker_env.usable_cores()):
        found.append(some)
        progress.tell(min(len(found) * _AT_ONCE, len(parts)), len(parts), "teacher")
    return np.concatenate(found)


def _ballot(rows: Floats32, labels: Labels, questions: Floats32) -> Integers32:
    """What one teacher votes, from its own rows."""
    seen = np.unique(labels)
    if len(seen) < 2:  # it knows one answer, or none
        return np.full(len(questions), seen[0] if len(seen) else ABSTAINS, dtype=np.int32)
    scores = questions @ ridge(rows.astype(np.float64), np.searchsorted(seen, labels)).astype(np.float32)
    ballot: Integers32 = seen.astype(np.int32)[scores.argmax(axis=1)]
    return ballot


def ridge(rows: Floats, classes: Labels) -> Floats:
    """(dimension, classes) columns of W, for rows in the unit ball and classes of which each has some."""
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
                   function of its own rows (`methods.votes.pate`), as long as the linear algebra
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
    features: Features = field(default_factory=lambda: public_map.PublicMap(axes=256))
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
        """Votes, and a student on public rows."""
        public, features = task.public, task.prepared
        assert public is not None
        answers = self.answer(task)
        how = {"soft": self.labels == "soft", "self_training": self.self_training}
        head = linear_student(lambda at: apply(features, public.rows[at]), len(public), answers, **how)
        notes = self.notes_of(len(answers.positions))
        return Outcome(head, task.plan.events, notes=notes, answers=answers.by_class())

    def answer(self, task: RowsTask) -> TeacherAnswers:
        """Train teachers and ask them."""
        private, public, features = task.private, task.public, task.prepared
        assert public is not None

        def ballots(parts: list[Integers], questions: Integers) -> AnyArray:
            def cast() -> AnyArray:
                rows, asked = (_mapped(features, one) for one in (private.rows, public.rows[questions]))
                return linear_ballots(rows, private.labels, parts, asked)

            return task.noise.keep("ballots", cast)

        return self.ask(task, ballots)


def _mapped(features: FittedFeatures, rows: AnyArray) -> Floats32:
    """Mapped rows in single precision, which integers of norm at most 2²⁴ fit into exactly."""
    mapped = np.empty((len(rows), features.dimension), dtype=np.float32)
    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        mapped[chunk] = features.lattice(rows[chunk], 2**24)
    return mapped * np.float32(2.0**-24)


_OWN_PICTURES = 40  # of a teacher, where no number is declared; `Voting` plans for as many
_LOOKS = 1.5  # times its share of pictures are seen by a label map that is solved for; others have more


class PublicStart(NamedTuple):
    """A student before it has heard an answer: public, all of it.

    Attributes:
        network: the public network whose rows it works on, or that it starts from.
        pool: the network's rows of the public pictures.
        features: the map of these that a linear student works on.
    """

    network: Network
    pool: EncodedRows
    features: FittedFeatures


class VotingSetup(NamedTuple):
    """What there is before a private picture is read.

    Attributes:
        teachers: what they are, at their public start.
        course: how they learn.
        student: what will learn from them.
    """

    teachers: Teachers
    course: Course
    student: PublicStart


@dataclass(frozen=True)
class PictureVoting(Voting, ImageMethod):
    """Base of the methods whose teachers see pixels; a subclass says what they are.

    Attributes:
        epochs: how often a teacher looks at each of its pictures, if it has its share of the declared number
            (or 40). All teachers look at the same number in all, whatever they have.
        batch: pictures that a teacher looks at in one step.
        rate: length of a teacher's first steps, by Adam.
        decay: what the length is multiplied by after each tenth of the steps.
        together: teachers in one pass through the network; None for what suits the device. It changes how
            long teaching takes, and how numbers are rounded.
        student: 'linear', a head on frozen rows; or 'fixmatch' or 'freematch', which learn from what they
            make of altered pictures, too: with hard `labels` from the teachers' own, else from what a linear
            student makes of their votes.
        student_trains: of the last two: 'head', or 'full' for the network with it.
        student_encoder: the network that the student works on or starts from; None for `encoder`. 'small-cnn'
            has seen no data, so that with 'full' a student learns from scratch; then with hard `labels`,
            since a linear student makes little of such a network's rows.
        student_steps: of the last two: how many steps of training.
        student_batch: of the last two: answered pictures in a step, beside seven times as many of all.
        features: the public map of the network's rows that a linear student works on.
        self_training: whether a linear student goes on with pictures that nobody was asked about.
    """

    epochs: Moderate = 10.0
    batch: Whole = 16
    rate: Moderate = 0.05
    decay: Rate = 0.7
    together: Whole | None = None
    student: Annotated[str, one_of("linear", "fixmatch", "freematch")] = "linear"
    student_trains: Annotated[str, one_of("head", "full")] = "head"
    student_encoder: str | None = None
    student_steps: Whole = 1000
    student_batch: Whole = 64
    features: Features = field(default_factory=lambda: public_map.PublicMap(axes=256))
    self_training: bool = True

    assumptions: ClassVar[tuple[str, ...]] = (
        *Voting.assumptions,
        "the network computes what a teacher learns and votes alike whatever teachers are beside it",
    )
    in_one_pass: ClassVar[tuple[int, int]] = (2, 32)
    """Teachers that suit a CPU, and other devices."""

    def __post_init__(self) -> None:
        """Refuse a linear student with a network to train."""
        super().__post_init__()
        if self.student == "linear" and self.student_trains == "full":
            raise ArgumentError(
                "A linear student is a head on frozen rows; student_trains='full' asks for more. "
                "Set student='fixmatch' or 'freematch', or leave student_trains out."
            )

    @abstractmethod
    def new_teachers(self, network: Network, classes: int) -> Teachers:
        """The teachers at their public start; raises for settings that do not go together."""

    def student_start(self, network: Network, public: PublicImages) -> PublicStart:
        """The student's public start; `network` is that of the teachers."""
        if self.student_encoder is not None:
            network = network_of(
                self.student_encoder, size=network.side, device=self.device, grey_range=self.grey_range
            )
            network.require_shape(public.pixels.shape[1:])
        pool = encode_pixels(public.pixels, network.encoder)
        return PublicStart(network, pool, self.features.fit(network.dimension, PublicEmbeddings(pool)))

    def prepare(self, facts: Facts, public: PublicImages) -> VotingSetup:
        """Load the network, and refuse what cannot work: all of it is public."""
        assert self.teachers is not None
        network = self.network()  # first, as it says what to install where there is no torch
        network.require_shape(facts.shape)
        teachers = self.new_teachers(network, len(facts.classes))
        own = _OWN_PICTURES if facts.declared_size is None else facts.declared_size / self.teachers
        steps = math.ceil(self.epochs * own / self.batch)
        together = self.together or self.in_one_pass[network.device.type != "cpu"]
        looks = math.ceil(_LOOKS * own / self.batch) if teachers.solves else 0
        together = min(together, self.teachers)
        course = Course(steps, self.batch, self.rate, self.decay, together, looks)
        require_own_ballots(teachers, course, network.side, network.identity.name)
        return VotingSetup(teachers, course, self.student_start(network, public))

    def run(self, task: Task[VotingSetup, PrivateImages, PublicImages]) -> Outcome:
        """Teachers, votes, and a student on public pictures."""
        private, public, noise = task.private, task.public, task.noise
        teachers, course, start = task.prepared

        def ballots(parts: list[Integers], questions: Integers) -> AnyArray:
            asked = public.pixels[questions]
            return ballots_of(teachers, course, private.pixels, private.labels, parts, asked, noise.keep)

        answers = self.ask(task, ballots)
        student = self.train_student(start, public, answers, noise)
        notes = self.notes_of(len(answers.positions))
        return replace(student, events=task.plan.events, notes=notes, answers=answers.by_class())

    def train_student(
        self, start: PublicStart, public: PublicImages, answers: TeacherAnswers, noise: NoiseSource
    ) -> Outcome:
        """The student, as the same answers always leave it, without what its answers cost."""
        network, pool, features = start
        rows, soft = apply(features, pool), self.labels == "soft"
        how = {"soft": soft, "self_training": self.self_training}
        linear = linear_student(rows.__getitem__, len(rows), answers, **how)
        if self.student == "linear":
            return Outcome(linear, (), features=features, encoder=network.identity)
        # A single picture's votes are mostly noise, which a network would learn by heart; the linear student
        # averages it out.
        found_by_all = classifier.probabilities(linear.scores(rows[answers.positions]), linear.temperature)
        targets = found_by_all if soft else np.eye(answers.votes.shape[1])[answers.labels]
        pixels = public.pixels[:]  # files are decoded once
        training = Training(self.student, self.student_trains, self.student_steps, self.student_batch)
        found = train_student(network, pixels, answers.positions, targets, training, noise.keep)
        unit_norm, delta = UnitNorm().fit(network.dimension, None), found.delta
        encoder = network.identity if delta is None else None
        head = heads.LinearHead(found.weights, found.offset)
        return Outcome(head, (), features=unit_norm, encoder_delta=delta, encoder=encoder)


@dataclass(frozen=True)
class PromPATE(PictureVoting):
    """Teachers that prompt a frozen public classifier vote on public pictures; a student learns.

    Releases:      noisy votes of all teachers for every class, on every public picture that they are asked
                   about; with a threshold, noisy largest votes first, and votes on the pictures that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit, and its successor, is with one teacher (`methods.votes.voting`).
    Assumes:       declared classes; public pictures; a public number of teachers and a public classifier. A
                   teacher's ballot is a function of its own pictures: its weights, its batches and their
                   order are its own, and its places in passes of one shape do not depend on the others. That
                   the kernels compute what is in one place of a batch without regard to the values in the
                   other places is taken from how they work, and measured on CPU and GPU
                   (`methods.deep.teachers`).
    Reference:     Li et al. (2023), Prom-PATE, with all teachers in one pass; Papernot et al. (2018). Their
                   ε = 1.019 is an expected, data-dependent value that is itself private; the exact price of
                   those steps, 1,000 tests and 684 answers, is ε = 3.178. The paper trains prompts and
                   label maps by 10 epochs of Adam (`epochs=10`, `label_map="one-layer"`); every teacher takes
                   the same number of steps here, there as many as its pictures give.

    Attributes:
        epochs: how often a teacher's prompt looks at each of its pictures; 0 leaves the prompt at zero, so
            that all teachers hear the same of the classifier and differ in their label maps alone, and each
            picture goes through it once. Chosen among 0 and 10 on photographs of clothing, where
            prompts of teachers with 50 pictures learned those by heart.
        inner: side of the square that a picture is resized to, with the prompt around it; None for 192 of
            224 parts of the side.
        mask: whether the prompt is the frame around the picture alone, or is added to all of it.
        label_map: how the classifier's own classes become the declared ones: 'ridge', solved for; or as in
            the paper 'one-layer' and 'two-layer', trained with the prompt, or 'random'. See
            `methods.deep.teachers`.
    """

    epochs: ModerateOrZero = 0.0
    inner: Whole | None = None
    mask: bool = True
    label_map: Annotated[str, one_of("ridge", "random", "one-layer", "two-layer")] = "ridge"
    name: ClassVar[str] = "prom-pate"
    about: ClassVar[About] = About(
        summary="Teachers that prompt a frozen classifier vote on public pictures, and a student learns from "
        "noisy votes.",
        card="The private pictures were shared out among teachers, each picture (or person) with one of "
        "them, who learned a label map for a frozen public classifier, and perhaps a frame of pixels. The "
        "number of teachers that vote for each class was released with Gaussian noise, for a number of "
        "public pictures. The classifier learned from these answers and from public pictures alone.",
        reference=f"{TEACHERS}, Prom-PATE, with a price that depends on no data.",
        family="Teachers",
        options={"teachers": "How many teachers share the private pictures."},
    )

    def __post_init__(self) -> None:
        """Refuse maps that nothing would train."""
        super().__post_init__()
        if not self.epochs and self.label_map != "ridge":
            raise ArgumentError(
                f"Without epochs nothing trains a label map; label_map='{self.label_map}' is trained. Set "
                "epochs=10 as in the paper, or label_map='ridge'."
            )

    def new_teachers(self, network: Network, classes: int) -> Prompts:
        """Prompts and label maps around the network."""
        return Prompts(network, classes, inner=self.inner, mask=self.mask, label_map=self.label_map)


@dataclass(frozen=True)
class PATE(PictureVoting):
    """Small networks from scratch as teachers that vote on public pictures: for comparison.

    Small networks trained from scratch vote on public pictures; a student learns.

    Releases:      noisy votes of all teachers for every class, on every public picture that they are asked
                   about; with a threshold, noisy largest votes first, and votes on the pictures that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit, and its successor, is with one teacher (`methods.votes.voting`).
    Assumes:       declared classes; public pictures; a public number of teachers. A teacher's ballot is a
                   function of its own pictures, as `PromPATE` says and measures; teachers learn on the CPU
                   whatever the device (`methods.deep.teachers`).
    Reference:     Papernot et al. (2017, 2018), whose teachers are larger, and trained one after the other;
                   the ablation of Li et al. (2023), Table 3, E and F.

    Attributes:
        epochs: as for all teachers on pictures, but more of them: from scratch there is more to learn.
            Chosen on the ten largest classes of Caltech-101, among 10 and 30.
        rate: likewise, among 0.003, 0.01, 0.02 and 0.05.
    """

    epochs: float = 30.0
    rate: float = 0.01
    name: ClassVar[str] = "pate"
    about: ClassVar[About] = About(
        card="The private pictures were shared out among teachers, each picture (or person) with one of "
        "them, who trained a small network from scratch. The number of teachers that vote for each "
        "class was released with Gaussian noise, for a number of public pictures. The classifier learned "
        "from these answers and from public pictures alone.",
        reference="Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson: Scalable Private Learning with "
        "PATE (ICLR 2018), with a price that depends on no data.",
        family="Teachers",
        options={"teachers": "How many teachers share the private pictures."},
    )
    in_one_pass: ClassVar[tuple[int, int]] = (16, 16)

    def new_teachers(self, network: Network, classes: int) -> SmallTeachers:
        """Networks of their own; the encoder's, and the device, are the student's alone."""
        return SmallTeachers(classes)
