"""Votes of teachers on public examples, and a linear student: the base of methods in the manner of PATE.

Methods in the manner of PATE differ in their teachers and in their student. What lies between is here: a
number of public questions, one ballot for each teacher, and noisy counts of the votes.

Votes are a nearly linear function of rows, seen through Gaussian noise of known scale. So the student is a
Bayesian linear regression of the votes on the rows; how strong the signal is, is read off the votes
themselves, by the largest marginal likelihood. Information does not depend on the number of questions: with Q
of them the noise is √Q times as large, and so many more are averaged. (A label by most votes throws all but
one number of a question away, and is mostly wrong where noise is large.)

The mean of the votes is left out, and of each class only the direction is kept: how often the teachers choose
a class tells as much about the public rows as about the class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import softmax

from dptransfer.accounting import fits, noise_multiplier_for, safe_search
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.data import Facts
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.chunks import one_blas_thread
from dptransfer.mechanisms import GaussianMechanism, Step
from dptransfer.methods.about import Moderate, Whole, one_of
from dptransfer.methods.heads.start import fitted_to_chances
from dptransfer.methods.method import Plan, PrivateMethod, Task
from dptransfer.methods.votes import vote_aggregation
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Unit
from dptransfer.queries import VoteCounts
from dptransfer.queries.votes import CountedVotes
from dptransfer.release.heads import LinearHead, unit_rows

Ballots: TypeAlias = AnyArray | CountedVotes

TEACHER_DRAW = "teacher of each unit"
"""What the one draw of such a run is called that is not released."""
BALLOTS_REPLACED = 1
"""How many ballots a replaced unit changes at most, where its teacher was drawn here: its successor's too."""


def teacher_of_each_row(rows: int, people: People | None, teachers: int, noise: NoiseSource) -> Integers:
    """The teacher of each row, uniform among `teachers` and independent from unit to unit.

    A unit is a row, or a person with all their rows. Why one unit changes one teacher's part, under either
    relation: draws are independent of each other and of what the units are, so the law of a release is a
    mixture over draws, with the same weights whatever the data. Write two neighbours next to each other, and
    give the units that both have the same draws; under add/remove the unit that one of them has draws for
    itself, and under replace-one the unit and its successor get one draw between them (one of two people may
    have no row; it is with nobody then). This changes no distribution. For every fixed draw the parts of all
    teachers but one are then equal, so that their ballots differ in one at most, and what is true of every
    pair in two mixtures of equal weights is true of the mixtures: hockey-stick divergences are jointly
    convex. (A teacher that is chosen by what a unit *is*, as by a hash of its contents, is another matter:
    the successor may be with another teacher, and two ballots change. See `VoteCounts.replaced`.)

    Neither the number of rows nor their order decides who is with whom, as it would in parts of equal size. A
    run that goes on in a workspace finds the same partition.
    """
    units = rows if people is None else int(people.max(initial=-1)) + 1
    drawn = noise.draw_once(TEACHER_DRAW, lambda: noise.integers(teachers, units))
    return np.asarray(drawn if people is None else drawn[people], dtype=np.int64)


ASSUMED_SIZE = 5_000  # examples, where none are declared
_MOST_TEACHERS = 10_000
_MOST_QUERIES = 2_000
_NOISE_SHARE = 1 / 5  # of the teachers: half of them agreeing on one of ten classes are heard 3 of 4 times
_ANSWERED_SHARE = 2 / 3  # of the questions of Confident-GNMax: 684 of 1,000 in the paper
_TEST_SHARE = 1 / 20  # of μ² for its tests; in the paper 1000/200² of 1000/200² + 2·684/50², or 0.044


@dataclass(frozen=True, eq=False)
class TeacherAnswers:
    """What the teachers answered, with noise: released, and free to use.

    Attributes:
        positions: the answered public examples, as positions in the pool, in the order in which they were
            asked about.
        labels: of each the class with most noisy votes, the first of equals.
        votes: (answered, classes) noisy votes.
        scale: standard deviation of the noise on every one of them.
        teachers: how many teachers there are.
    """

    positions: Integers
    labels: Labels
    votes: Floats
    scale: float
    teachers: int

    def by_class(self) -> list[list[int]]:
        """The positions that were answered with each class, for `Outcome.answers`."""
        return [self.positions[self.labels == one].tolist() for one in range(self.votes.shape[1])]


@dataclass(frozen=True)
class Voting(PrivateMethod):
    """Base of the methods whose teachers vote on public examples; a subclass has teachers and a student.

    Its `run` makes one ballot for each teacher, from the units that `teacher_of_each_row` gives it and from
    nothing else, by way of `ask`; and trains a student on what comes back.

    Attributes:
        teachers: how many; None for one per 40 declared examples (linear ones: per 4), at most 10,000, as if
            5,000 were declared where none are.
        queries: how many public examples they vote on; None for as many as pay (see `labels`).
        noise: standard deviation of the noise on each count, in votes; None for the least that fits the
            budget.
        labels: what the student learns from. 'soft': the noisy votes themselves, for which more questions
            cost nothing, since noise grows as they average it out. 'hard': the class with most noisy votes,
            which should be right, so that there are only as many questions as keep the noise below a fifth of
            the teachers.
        threshold: given, only questions whose favourite has so many votes, noise included, are answered
            (Confident-GNMax).
        threshold_noise: standard deviation of the noise on that test, in votes; None for a twentieth of the
            budget.
        answers: most questions answered where there is a threshold; all of them are paid for, whether they
            are used or not. None for two thirds of the queries.
    """

    teachers: Whole | None = None
    queries: Whole | None = None
    noise: Moderate | None = None
    labels: Annotated[str, one_of("soft", "hard")] = "soft"
    threshold: Moderate | None = None
    threshold_noise: Moderate | None = None
    answers: Whole | None = None

    voters: ClassVar[str] = "teachers"
    rows_per_teacher: ClassVar[int] = 40
    """Examples that a teacher should have, where their number is chosen."""
    needs_public: ClassVar[bool] = True
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def __post_init__(self) -> None:
        """Refuse settings of a test where there is none."""
        super().__post_init__()
        if self.threshold is None and (self.threshold_noise, self.answers) != (None, None):
            raise ArgumentError(
                "threshold_noise and answers are settings of the test that a threshold makes; there is no "
                "threshold. Give one, or leave them out."
            )

    def plan(self, facts: Facts, budget: Budget, public: Any = None) -> Plan:
        """One noisy answer of all votes, or one of all tests and one of all votes that pass."""
        settled = self._settled(facts, budget, None if public is None else len(public))
        plan_at = partial(settled._steps, facts, budget)
        multiplier = 1.0
        if not settled._noise_is_given:
            multiplier = noise_multiplier_for(budget, lambda z: [step.event for step in plan_at(z)])
        steps = plan_at(multiplier)
        plan = settled.make_plan(steps, budget)
        if settled._noise_is_given and not fits(plan.events, budget):
            raise BudgetError(
                f"The noise that is given must fit the budget; with it the votes cost ε = "
                f"{plan.guarantee.epsilon:.4g}. Raise the noise, ask less, or leave it out."
            )
        if any(step.scale > (most := vote_aggregation.MOST_NOISE) for step in steps):
            raise BudgetError(
                f"Noise must stay below {most:g} votes, which 64-bit integers hold; this is more. "
                "Lower the noise that is given, ask less, or raise epsilon or delta."
            )
        notes = [settled._note(steps)]
        assumed = self._teachers_for(None, facts.declared_units)
        if facts.declared_size is None and settled.teachers == assumed:  # also when planned again, to verify
            notes.append(
                f"No number of examples is declared. So many teachers suit about {ASSUMED_SIZE}; with many "
                "fewer, a declared size or number of teachers would suit better."
            )
        return replace(plan, notes=tuple(notes))

    def questions(self, pool: int) -> Integers:
        """The positions, in a pool of this many public examples, that are asked about, in order."""
        assert self.queries is not None
        return spread(pool, self.queries)

    def ask(
        self, task: Task[Any, Any, Any], ballots: Callable[[list[Integers], Integers], AnyArray]
    ) -> TeacherAnswers:
        """What is released of the teachers' ballots.

        Args:
            task: what the run is given.
            ballots: from the positions of each teacher's private examples, and of the public examples that
                are asked about, to (teachers, questions) classes; a ballot is a function of its own
                teacher's examples.
        """
        assert self.teachers is not None
        private, noise, questions = task.private, task.noise, self.questions(len(task.public))
        teacher = teacher_of_each_row(len(private.labels), private.people, self.teachers, noise)
        cast = ballots(parts_of(teacher, self.teachers), questions)
        return self.release_answers(task.plan.mechanisms, cast, questions, noise)

    def release_answers(
        self, mechanisms: Iterable[Step], ballots: Ballots, questions: Integers, noise: NoiseSource
    ) -> TeacherAnswers:
        """What is released of the ballots (teachers, questions) on the public examples at `questions`."""
        assert self.teachers is not None
        steps = [step for step in mechanisms if isinstance(step, GaussianMechanism)]
        asked, votes, scale = vote_aggregation.noisy_answers(steps, ballots, self.threshold, noise)
        return TeacherAnswers(questions[asked], votes.argmax(axis=1), votes, scale, self.teachers)

    def notes_of(self, answered: int) -> tuple[str, ...]:
        """What the card says of so many answers: where there was a test, how many passed is released."""
        if self.threshold is None:
            return ()
        first = f"{answered} of {self.queries} questions were answered"
        return (f"{first}: the first that passed the noisy test.",)

    def _settled(self, facts: Facts, budget: Budget, pool: int | None) -> Voting:
        """The same method with every number that is left open chosen, from public facts and the budget."""
        declared = facts.declared_units or facts.declared_size
        teachers = self.teachers or self._teachers_for(facts.declared_size, declared)
        if declared is not None and declared < teachers:
            raise ArgumentError(
                f"Each teacher needs something to learn from; {declared} are declared for {teachers} "
                "teachers. Set fewer teachers, or declare the right size."
            )
        if self.threshold is not None:
            vote_aggregation.require_passable(self.threshold, teachers)
        queries = self.queries or self._affordable_queries(facts, budget, teachers, pool)
        if pool is not None and queries > pool:
            raise ArgumentError(
                f"Each query is about a public example of its own; got {queries} queries for {pool} of "
                "them. Ask fewer, or give more public examples."
            )
        answers = None
        if self.threshold is not None:
            answers = self.answers or max(1, round(_ANSWERED_SHARE * queries))
            vote_aggregation.require_answerable(answers, queries)
        return replace(self, teachers=teachers, queries=queries, answers=answers)

    def _teachers_for(self, size: int | None, units: int | None) -> int:
        """As many as there are enough declared examples for, and no more than there are units."""
        enough = (size or ASSUMED_SIZE) // self.rows_per_teacher
        return max(1, min(_MOST_TEACHERS, enough, units or enough))

    def _affordable_queries(self, facts: Facts, budget: Budget, teachers: int, pool: int | None) -> int:
        """As many questions as the given noise allows, or as the student can use."""
        most = min(_MOST_QUERIES, _MOST_QUERIES if pool is None else pool)
        if self._noise_is_given:
            many = partial(replace, self, teachers=teachers)

            def fit(queries: int) -> bool:
                steps = many(queries=queries)._steps(facts, budget, 1.0)
                return fits([step.event for step in steps], budget)

            found = safe_search.largest_whole(fit, most)
            if found is None:
                raise BudgetError(
                    "The budget must cover at least one query; with the noise that is given it does not. "
                    "Raise the noise or the budget, or leave the noise out."
                )
            return found
        if self.labels == "soft":
            return most
        one = VoteCounts(1, len(facts.classes), facts.unit, BALLOTS_REPLACED)
        least = noise_multiplier_for(budget, lambda z: [GaussianMechanism(one, z, budget.relation).event])
        # Noise σ = z·Δ·√queries at a sensitivity of Δ for one; it is to stay below its share of the teachers.
        scale = least * one.l2_sensitivity(budget.relation)
        return max(1, min(most, int((_NOISE_SHARE * teachers / scale) ** 2)))

    def _steps(self, facts: Facts, budget: Budget, multiplier: float) -> list[GaussianMechanism]:
        """The noisy answers at this noise multiplier of them all together, but for the noise that is given.

        Shares of μ² add up: at z/√share and z/√(1 − share) two answers cost what one does at z.
        """
        assert self.queries is not None
        tested = self.threshold is not None
        answers = self.answers or max(1, round(_ANSWERED_SHARE * self.queries))
        settings = len(facts.classes), facts.unit, BALLOTS_REPLACED
        asked = vote_aggregation.questions_of(self.queries, answers if tested else None, *settings)
        given = [self.threshold_noise, self.noise] if tested else [self.noise]
        shares = [_TEST_SHARE, 1 - _TEST_SHARE] if tested else [1.0]
        return [
            GaussianMechanism(query, multiplier / math.sqrt(share), budget.relation)
            if noise is None
            else vote_aggregation.with_noise(query, noise, budget.relation)
            for query, noise, share in zip(asked, given, shares, strict=True)
        ]

    @property
    def _noise_is_given(self) -> bool:
        """Whether nothing is left to calibrate."""
        return self.noise is not None and (self.threshold is None or self.threshold_noise is not None)

    def _note(self, steps: list[GaussianMechanism]) -> str:
        *tests, voting = (step.scale for step in steps)
        said = f"{self.teachers} {self.voters} vote on {self.queries} public examples, "
        for scale in tests:
            said += (
                f"of which at most {self.answers} are answered, where the favourite has {self.threshold:g} "
                f"votes with noise of {scale:.4g}; "
            )
        return f"{said}with noise of {voting:.4g} votes on each count."


def parts_of(teacher: Integers, teachers: int) -> list[Integers]:
    """The positions of each teacher's examples, in their order.

    >>> [part.tolist() for part in parts_of(np.array([2, 0, 2]), 3)]
    [[1], [], [0, 2]]
    """
    order = np.argsort(teacher, kind="stable")
    return np.split(order, np.searchsorted(teacher[order], np.arange(1, teachers)))


def spread(pool: int, most: int) -> Integers:
    """Positions in a pool, at most so many, in an order whose every beginning is spread evenly over it.

    Steps of the golden ratio, made a whole number that shares no divisor with the pool: each position comes
    once, and neither a pool sorted by class nor one that repeats its classes in turn is asked one-sidedly.

    >>> spread(10, 10).tolist(), spread(10**9, 3).tolist()
    ([0, 7, 4, 1, 8, 5, 2, 9, 6, 3], [0, 618033989, 236067978])
    """
    step = max(1, round(pool * (math.sqrt(5) - 1) / 2))
    while math.gcd(step, pool) > 1:
        step += 1
    return np.arange(min(pool, most), dtype=np.int64) * step % pool


_MOST_ROWS = 10_000  # public rows that self-training looks at
_SIGNALS = np.exp(np.linspace(math.log(1e-6), math.log(1e6), 97))  # variance of signal ÷ that of noise
_LOGIT = 1.702  # Φ(x) is the logistic function of 1.702·x, within 0.01
_FEWEST_CERTAIN = 0.05  # share of the rows: what fewer add is mostly accident
_PSEUDO_WEIGHT = 0.5  # of the directions learned from sure rows, beside those learned from votes
_PSEUDO_STRENGTH = 1e-3


def linear_student(
    rows_at: Callable[[Integers], Floats],
    pool: int,
    answers: TeacherAnswers,
    *,
    soft: bool,
    self_training: bool,
) -> LinearHead:
    """A linear head on mapped public rows: post-processing of the answers, and the same whenever it is asked.

    The numbers of self-training were decided on caltech101, gtsrb, hwu64 and news20. There and on four sets
    more (rsscn7, dtd10, agnews, swda; ε from 1 to 16) it changed accuracy by −1.2 to +3.4 points, mostly up.

    Args:
        rows_at: the public rows at these positions, mapped into the unit ball. Asked for are those that
            were answered and, to go on with, at most 10,000 that are spread over the pool.
        pool: how many there are.
        answers: what the teachers said about some of them.
        soft: whether to learn from noisy votes, or from the classes that have most of them.
        self_training: whether to go on with those rows, asked about or not, of whose class the student is
        sure.
    """
    classes = answers.votes.shape[1]
    targets = answers.votes if soft else np.eye(classes)[answers.labels]
    learned = _regressed(rows_at(answers.positions), targets, answers.scale if soft else 0.0)
    others = rows_at(spread(pool, _MOST_ROWS))
    directions = _self_trained(learned, others) if self_training else learned.directions
    temperature = float(np.median(learned.spread_of(others))) * math.sqrt(2) / _LOGIT
    return LinearHead(directions, -directions @ learned.centre, temperature=min(max(temperature, 1e-6), 1e6))


@dataclass(frozen=True, eq=False)
class _Regression:
    """What is believed about the directions of classes.

    Attributes:
        centre: mean of the rows.
        weights: (classes, dimension) expected votes more for a step along a row.
        covariance: (dimension, dimension) of each class's weights.
    """

    centre: Floats
    weights: Floats
    covariance: Floats

    @property
    def directions(self) -> Floats:
        """The weights of each class, of unit length."""
        return unit_rows(self.weights)

    def spread_of(self, rows: Floats) -> Floats:
        """The uncertainty of a class's score for each row, as its standard deviation."""
        away = rows - self.centre
        variance = np.einsum("ij,ij->i", away @ self.covariance, away)
        length = float(np.linalg.norm(self.weights, axis=1).mean())
        deviation: Floats = np.sqrt(np.maximum(variance, 0.0)) / max(length, 1e-12)
        return deviation

    def chances(self, rows: Floats) -> Floats:
        """(rows, classes) chances, as far as scores are uncertain: a difference of two is √2 as much so."""
        scores = (rows - self.centre) @ self.directions.T
        deviations = np.maximum(self.spread_of(rows), 1e-12)
        likely: Floats = softmax(_LOGIT / math.sqrt(2) * scores / deviations[:, None], axis=1)
        return likely


def _regressed(rows: Floats, targets: Floats, least_noise: float) -> _Regression:
    """Ridge regression with the ridge of the largest marginal likelihood, and noise of at least this scale.

    In the rows' singular directions (singular values s) targets have the variance v·(1 + r·s²), where v is
    that of noise and r that of weights ÷ v. Given r, the likeliest v is a mean; so r alone is searched for.
    """
    count, dimension = rows.shape
    if count < 2:  # nothing, or nothing to compare it with
        flat = np.zeros((targets.shape[1], dimension))
        return _Regression(np.zeros(dimension), flat, np.eye(dimension))
    centre, away = rows.mean(axis=0), rows - rows.mean(axis=0)
    with one_blas_thread(min(away.shape)):
        left, values, right = np.linalg.svd(away, full_matrices=False)
    seen = left.T @ (targets - targets.mean(axis=0))
    power, free = np.square(seen).sum(axis=1), (count - 1) * targets.shape[1]
    rest = float(np.square(targets - targets.mean(axis=0)).sum() - power.sum())

    def fit(signal: float) -> tuple[float, float]:
        grown = 1 + signal * values**2
        misfit = float((power / grown).sum()) + rest
        noise = max(misfit / free, least_noise**2, 1e-12)
        likelihood = -0.5 * (free * math.log(noise) + targets.shape[1] * np.log(grown).sum() + misfit / noise)
        return float(likelihood), noise

    signal = max(_SIGNALS, key=lambda one: fit(one)[0])
    shrunk = values / (values**2 + 1 / signal)
    with one_blas_thread(dimension):
        inverse = np.linalg.inv(away.T @ away + np.eye(dimension) / signal)
    return _Regression(centre, (right.T * shrunk @ seen).T, fit(signal)[1] * inverse)


def _self_trained(learned: _Regression, rows: Floats) -> Floats:
    """Directions that also separate the rows of whose class the student is sure, by soft pseudo-labels.

    As in FreeMatch (Wang et al. 2023) a class's threshold is lower where its rows are less sure on average;
    and all classes together count alike.
    """
    chances = learned.chances(rows)
    sure, likeliest, classes = chances.max(axis=1), chances.argmax(axis=1), chances.shape[1]
    held = np.bincount(likeliest, minlength=classes)
    mean = np.bincount(likeliest, sure, classes) / np.maximum(held, 1)
    certain = (1 + 1 / classes) / 2  # halfway from a guess to certainty, for the class whose rows are surest
    kept = sure >= (certain * mean / mean.max())[likeliest]
    if kept.mean() < _FEWEST_CERTAIN:
        return learned.directions
    weights = 1 / np.bincount(likeliest[kept], minlength=classes)[likeliest[kept]]
    separating = fitted_to_chances(rows[kept], chances[kept], weights, _PSEUDO_STRENGTH)
    return unit_rows(learned.directions + _PSEUDO_WEIGHT * unit_rows(separating))
