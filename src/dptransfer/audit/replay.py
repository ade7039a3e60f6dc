"""Run a release's method again on made-up rows, and watch what it asks and answers, with which noise.

The method is built from the recorded settings and plans for the recorded facts and promise, as `verify` does.
It runs on ordinary rows with canaries among them: units that try to move the answers as far as they can. No
private row is read; the noise is that of the sampler of real fits, from a key that follows from a seed, so
that an audit can be repeated.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dptransfer.base.progress import reported_to
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings
from dptransfer.data.labels import Labelled
from dptransfer.errors import DPTransferError
from dptransfer.exact.chunks import plain_floats
from dptransfer.mechanisms import GaussianMechanism, GaussianRounds
from dptransfer.mechanisms.mechanism import Step, exact_answer
from dptransfer.mechanisms.row_shares import Watcher, watch
from dptransfer.mechanisms.witness import draw_witnesses
from dptransfer.methods.deep.fine_tuning import FineTuning
from dptransfer.methods.method import EmbeddingMethod, Plan, Task
from dptransfer.methods.replan import budget_of, check_steps
from dptransfer.methods.tuning import Trials
from dptransfer.methods.votes.voting import Voting
from dptransfer.noise import NoiseSource, SecureNoise
from dptransfer.noise.integer_noise import WordStream
from dptransfer.privacy import Event, Relation, Unit
from dptransfer.privacy.witnesses import standard_draws
from dptransfer.queries.votes import CountedVotes
from dptransfer.release.charged_evaluation import without_holdout
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import head_arrays
from dptransfer.sources import PrivateImages, PublicImages
from dptransfer.testing.sample_data import RecordedAnswers, public_rows

_ORDINARY = 24  # rows that are no canary
_PICTURES = 6
_ROWS_OF_CANARY = 8  # where a person is one
_MOST_PUBLIC = 1000  # made-up public rows; a release of more is planned again for so many
_MOST_QUESTIONS = 10_000  # the same, where teachers are asked about them


class NotReplayed(DPTransferError):
    """Why the method of a release is not run again by an audit."""


class KeyedNoise(SecureNoise):
    """The sampler of real fits on a stream that can be repeated; for audits, and never for a release.

    Args:
        seed: of the stream.
        factor: what scales are multiplied with: 1, but for faults that are planted.
    """

    seeded = True

    def __init__(self, seed: int, factor: float = 1.0) -> None:
        self._seed, self._factor, self._calls = seed, factor, 0

    def __repr__(self) -> str:
        return f"KeyedNoise({self._seed})"

    def _stream(self) -> WordStream:
        self._calls += 1
        return WordStream(hashlib.sha256(f"audit {self._seed} {self._calls}".encode()).digest())

    def _bits(self, count: int) -> int:
        return self._stream().bits(count)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """As for real fits."""
        return super().discrete_gaussian(self._factor * scale, shape)

    def subset(self, population: int, size: int) -> Integers:
        """Uniform."""
        chosen = self._generator().choice(population, size, replace=False)
        return np.sort(chosen).astype(np.int64)

    def integers(self, below: int, count: int) -> Integers:
        """Uniform."""
        return self._generator().integers(below, size=count)

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(self._bits(128))


@dataclass(eq=False)
class WatchedAnswer:
    """One answer of a mechanism.

    Attributes:
        step: what it cost.
        query: what was asked.
        rows: about which rows; all of them, where a sample was looked at.
        labels: their classes.
        people: whose they are.
        exact: the answer before the noise.
        answer: what left.
        stated: the event of this answer, where it is not that of the step: in a planted fault.
    """

    step: Any
    query: Any
    rows: Any
    labels: Any
    people: Any = None
    exact: Integers | None = None
    answer: AnyArray | None = None
    stated: Event | None = None

    @property
    def is_gaussian(self) -> bool:
        """Whether the answer had Gaussian noise."""
        return isinstance(self.step, GaussianMechanism | GaussianRounds)

    @property
    def law(self) -> Any:
        """The event of this answer alone."""
        return self.stated or self.step.event

    @property
    def is_vote(self) -> bool:
        """Whether the rows are ballots of teachers, of whom a unit changes one or two."""
        return hasattr(self.query, "changed_ballots")

    @property
    def scale(self) -> float:
        """Standard deviation of its noise, as the step states it, in steps of the grid."""
        return float(self.law.noise_multiplier * self.law.sensitivity * self.query.grid)

    def gap_of_ballots(self, relation: Relation) -> Integers:
        """How the votes change when as many teachers as one unit teaches answer every question otherwise."""
        ballots, other = self.query.changed_ballots(relation), self.rows
        if isinstance(other, CountedVotes):
            other = other.with_changed(ballots)
        else:
            other = np.array(other)
            other[:ballots] = (other[:ballots] + 1) % self.query.classes
        votes = [exact_answer(self.query, rows, self.labels, None) for rows in (self.rows, other)]
        return (votes[0] - votes[1]).ravel()

    def about(self, unit: int) -> Integers:
        """The exact answer about one unit alone: a row, or the rows of a person."""
        own = np.array([unit]) if self.people is None else np.flatnonzero(self.people == unit)
        return self._exact(own)

    def without(self, unit: int) -> Integers:
        """The exact answer about all others."""
        own = np.arange(len(self.labels)) if self.people is None else self.people
        return self._exact(np.flatnonzero(own != unit))

    def _exact(self, rows: Integers) -> Integers:
        people = None if self.people is None else np.unique(self.people[rows], return_inverse=True)[1]
        return exact_answer(self.query, self.rows[rows], self.labels[rows], people)

    def draws(self) -> Floats:
        """The noise that was added, over the standard deviation that the step states."""
        assert self.answer is not None
        assert self.exact is not None
        noise = np.ravel(self.answer)[: self.exact.size] - self.exact.ravel()
        return standard_draws(noise.astype(np.float64), self.scale)

    def one_more(self, noise: NoiseSource, witnesses: int) -> Floats:
        """Draws of one more answer to the same question by the same code, and of witnesses beside it."""
        seen = AnswerLog()
        with watch(seen), draw_witnesses("00" * 32, 1, witnesses) as log:
            data = self.rows, self.labels, self.people
            if isinstance(self.step, GaussianRounds):
                answer = self.step.open(noise=noise).release(self.query, *data)
            else:
                answer = self.step.release(*data, noise=noise)
        last = seen.asked[-1]
        last.answer = np.rint(np.multiply(answer, float(self.query.grid)))
        beside = log.witnesses
        return np.concatenate([last.draws(), *([] if beside is None else [beside.draws])])


class AnswerLog(KeyedNoise, Watcher):
    """What was asked, in order, and what left each mechanism: it is the noise of a run that it watches."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.asked: list[WatchedAnswer] = []
        self.samples: list[tuple[int, int]] = []

    def step(self, step: Step, query: Any, rows: AnyArray, labels: Labels, people: People | None) -> None:
        """An answer begins."""
        self.asked.append(WatchedAnswer(step, query, rows, labels, people))

    def answer(self, exact: Integers) -> None:
        """Its exact value."""
        self.asked[-1].exact = exact

    def poisson_sample(self, rows: int, rate: float) -> Integers:
        """As for real fits, and noted."""
        taken = super().poisson_sample(rows, rate)
        self.samples.append((rows, len(taken)))
        return taken

    def draw_once(self, what: str, draw: Any) -> AnyArray:
        """The answer, which is noted beside what was asked for it."""
        before = len(self.asked)
        answer = np.asarray(draw())
        if len(self.asked) > before:
            self.asked[-1].answer = answer
        return answer


@dataclass(frozen=True, eq=False)
class Replay:
    """A run on made-up rows.

    Attributes:
        plan: the plan that ran.
        asked: all answers, in order.
        canaries: numbers of the units that are canaries, with words for each.
        difference: in what the same noisy answers about other rows gave another release, in words; nothing
            if in nothing, None if it was not tried.
        note: what was run in place of the release's own steps, if it was another number.
        seed: of its noise.
        arrays: what it released.
        samples: of each Poisson sample, among how many units it was drawn, and how many are in it.
        gaussian: the answers with Gaussian noise.
    """

    plan: Plan
    asked: Sequence[WatchedAnswer]
    canaries: dict[int, str]
    difference: str | None
    note: str = ""
    seed: int = 0
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    samples: Sequence[tuple[int, int]] = ()
    gaussian: Sequence[WatchedAnswer] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaussian", [one for one in self.asked if one.is_gaussian])


def replay(model: PrivateClassifier, *, seed: int = 0, quick: bool = False) -> Replay:
    """Run the release's method on made-up rows; `NotReplayed` says why it cannot be done."""
    model = without_holdout(model)
    check, plan = check_steps(model)
    if plan is None:
        raise NotReplayed(check.detail)
    method = plan.method
    if not isinstance(method, EmbeddingMethod | FineTuning):
        raise NotReplayed("its teachers look at pictures, which takes longer than an audit may")
    if any(isinstance(step, Trials) for step in plan.mechanisms):
        raise NotReplayed("how many trials it made, and of what, must stay unknown, so nobody can count them")
    if not plan.mechanisms:
        return Replay(plan, [], {}, None, seed=seed)
    most = _MOST_QUESTIONS if isinstance(method, Voting) else _MOST_PUBLIC
    facts, note = model.facts, ""
    public: Any = _public(model, most)
    recorded = (model.provenance.public or {}).get("rows", 0)
    seen = AnswerLog(seed)
    try:
        if isinstance(method, FineTuning):
            method = replace(method, steps=1, device="cpu")
            plan = method.plan(facts, budget_of(model), public)
            note = "planned for one step of the network, of so much noise that it spends the whole promise"
        elif recorded > most:
            plan = method.plan(facts, budget_of(model), public)
            note = f"planned for {most} made-up public rows in place of {recorded}"
        method.require_public(facts, public)
        public = method.with_words(public, facts)
        with plain_floats(), reported_to(lambda *_: None):
            prepared = method.prepare(facts, public)
            rows, canaries = made_up(facts, seed, greys=getattr(method, "grey_range", None))
            task: Task[Any, Any, Any] = Task(plan, prepared, rows, seen, public)
            with watch(seen):
                start = time.perf_counter()
                outcome = method.run(task)
                took = time.perf_counter() - start
            difference = None if took > (1 if quick else 60) else _beside_answers(task, facts, seed)
    except (DPTransferError, LookupError, TypeError, ValueError, AssertionError) as problem:
        raise NotReplayed(f"its run on made-up rows stopped: {problem}") from problem
    if outcome.events != plan.events:
        raise NotReplayed("its run took other steps than it planned")
    arrays = head_arrays(outcome.head)
    return Replay(plan, seen.asked, canaries, difference, note, seed, arrays, seen.samples)


def made_up(
    facts: Facts, seed: int, without: int | None = None, greys: Any = None
) -> tuple[PrivateData, dict[int, str]]:
    """Ordinary rows and canaries with these declared facts; the units that are canaries.

    Args:
        facts: what is declared.
        seed: of the ordinary rows.
        without: number of a class that no row has.
        greys: how the method reads grey pictures.
    """
    rng = np.random.default_rng(seed)
    if len(facts.shape) > 1:
        shades = [np.full(facts.shape, shade, np.uint8) for shade in (0, 255)]
        shades.append(rng.integers(0, 256, facts.shape, dtype=np.uint8))
        words = ("a black picture", "a white picture", "a picture of noise")
        odd_ones = [(words[n], shades[n], label) for n in range(3) for label in (0, 1)]
        plain = rng.integers(0, 256, (_PICTURES, *facts.shape), dtype=np.uint8)
        return _with_canaries(facts, plain, odd_ones, without, greys)
    d = facts.dimension
    east, large = np.eye(1, d)[0], np.full(d, 1e308)
    odd = np.where(np.arange(d) == 0, np.nan, 1.0)
    canaries: list[tuple[str, AnyArray, int]] = [
        ("a row on one axis", east, 0),
        ("the same of another class", east, 1),
        ("its opposite", -east, 0),
        ("its opposite of another class", -east, 1),
        ("a row of numbers as large as there are", large, 0),
        ("their opposite", -large, 1),
        ("a row with a NaN", odd, 0),
        ("a row with an infinity", np.where(np.arange(d) == 0, np.inf, 1.0), 1),
        ("a row of subnormal numbers", np.full(d, 5e-324), 0),
        ("a row far away in a random direction", 1e6 * rng.normal(size=d), 1),
    ]
    return _with_canaries(facts, rng.normal(size=(_ORDINARY, d)), canaries, without, None)


def _with_canaries(
    facts: Facts, plain: AnyArray, odd: Sequence[tuple[str, AnyArray, int]], without: int | None, greys: Any
) -> tuple[PrivateData, dict[int, str]]:
    """These examples and canaries, each a unit of its own; where persons are units, of several examples."""
    c, each, first = len(facts.classes), 1 if facts.unit is Unit.ROW else _ROWS_OF_CANARY, len(plain)
    x = np.concatenate([plain, *(np.repeat(one[None], each, axis=0) for _, one, _ in odd)])
    y = np.concatenate([np.arange(first) % c, *(np.full(each, label % c) for *_, label in odd)])
    if without is not None:
        y = np.where(y == without, (without + 1) % c, y)
    units = np.concatenate([np.arange(first), first + np.repeat(np.arange(len(odd)), each)])
    people, labels = None if facts.unit is Unit.ROW else units, Labelled(y.astype(np.int64), facts.classes)
    found: PrivateData
    if len(facts.shape) > 1:
        found = PrivateImages(x, labels, people=people, grey_range=greys)
    else:
        found = PrivateEmbeddings(x, labels, people=people)
    found.facts = facts
    return found, {first + n: words for n, (words, *_) in enumerate(odd)}


def _public(model: PrivateClassifier, most: int) -> Any:
    """Made-up public rows, as many as were used, with two labelled ones of each class at their side."""
    record = model.provenance.public
    if record is None:
        return None
    shape = model.facts.shape
    if len(shape) > 1:
        pixels = np.random.default_rng(1).integers(0, 256, (2 * _ORDINARY, *shape), dtype=np.uint8)
        return PublicImages(pixels)
    return public_rows(min(int(record["rows"]), most), model.facts.dimension, model.classes, seed=1)


def _beside_answers(task: Task[Any, Any, Any], facts: Facts, seed: int) -> str:
    """In what a release follows from more than noisy answers: those of a run are given to one on other rows.

    The other rows have other values and no example of the last class; under add/remove one is missing.
    """
    first = RecordedAnswers(seed)
    method = task.plan.method  # a draw of teachers for each row is a noisy answer, too
    fewer = task.plan.guarantee.relation is Relation.ADD_REMOVE and not isinstance(method, Voting)
    made = method.run(replace(task, noise=first))
    greys = getattr(method, "grey_range", None)
    other, _ = made_up(facts, seed + 1, without=len(facts.classes) - 1, greys=greys)
    if fewer:
        other = other.part(np.arange(len(other.labels) - 1), facts)
    try:
        again = method.run(replace(task, private=other, noise=RecordedAnswers(seed, first.answers)))
    except Exception as problem:  # of a run that asks otherwise: ContractBroken, or whatever comes of it
        return f"about other rows it went another way: {problem}"
    listed = (
        made.notes == again.notes and made.prototypes == again.prototypes and made.answers == again.answers
    )
    said = "" if listed else "a note or a list follows from more than noisy answers"
    return changed_array(head_arrays(made.head), head_arrays(again.head)) or said


def changed_array(one: Mapping[str, AnyArray], other: Mapping[str, AnyArray]) -> str:
    """The first array that two releases do not share, in words; nothing where they share all."""
    for name in one:
        if name not in other or not np.array_equal(one[name], other[name], equal_nan=True):
            return f"the released array '{name}' follows from more than noisy answers"
    return ""
