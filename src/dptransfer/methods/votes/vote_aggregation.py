"""Noisy answers from teachers' votes, whoever trained the teachers, and a bound on what they tell.

The queries and mechanisms are those of the methods whose teachers are ours (`queries.votes`). What is not
ours is the promise on which all rests: that one unit of the private data touches one teacher.

**A report** is a bound on the data-dependent privacy loss of answers, with noise of its own, and charged. The
price of answers (`Inquiry.guarantee`) holds for all votes. For votes on which teachers agree the labels
tell far less (`queries.votes`), but how much less is a function of private votes: printed as it is, it
would be no guarantee and would leak. Here it is released in two steps, both Gaussian:

1. log S, the logarithm of its smooth sensitivity, which one unit moves by at most β, with noise of standard
   deviation s. Let B = exp(noisy log S + 9.6·s + 3β): it is below e^(3β)·S with probability at most
   Φ(−9.6) < 1e-21.
2. the loss L with noise z·B.

For a fixed pair of neighbours call the runs in which B is below |L − L′| bad. S bounds |L − L′| on either
side, so bad runs have probability at most 1e-21 on both. A mechanism that keeps silent in them is two
Gaussian releases in a row, and within that total variation of this one: two GaussianEvents, the second with
numeric_delta 1e-21, which accounts count.

The ledger restates events for replaced units, and for rows where persons are protected: for chains of up to
four neighbours. S grows by at most e^β from one to the next, so that with the 3β in B the same holds of all
steps of such a chain, and the silent mechanism, which is μ-Gaussian at each, is 4μ-Gaussian from end to end
(Dong, Roth and Su 2022). For chains of g > 4 bad runs have probability Φ((g − 4)·β/s − 9.6). So a report
about rows is refused where the account is by person: make it about persons. (An account that is turned to
persons later restates it all the same: declare the unit first.)

**What is true of the number.** B is released, so that the noise of step 2 is known: L is below its noisy
value plus the quantile of that noise with the stated confidence, over this report's own noise. Then, for the
data as they are and any neighbour, the labels alone are (ε, δ)-indistinguishable, ε from D_α ≤ tests + L at
the one order α that was fixed before; and labels and report together, whose divergences add up, at a larger
ε. That describes these data. It is no guarantee for others, and no reason to charge less.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dptransfer.accounting import epsilon_of, guarantee_of, mu_of, noise_multiplier_for, warn_if_weak
from dptransfer.accounting.renyi import epsilon_at_order
from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers, JsonObject, Labels
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.chunks import plain_floats
from dptransfer.ledger import Ledger, Receipt
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.charging import charge_run, with_defaults
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Event, GaussianEvent, Guarantee, Relation, Unit, rounded_up
from dptransfer.queries import LargestVotes, VoteCounts
from dptransfer.queries.votes import AnswerLoss, CountedVotes, LossOfAnswers, LossSensitivity, votes_of

NO_LABELS: Labels = np.zeros(0, dtype=np.int64)
"""Ballots have no labels."""

MOST_NOISE = 1e8
"""Votes; on the grid of 2⁻³⁰ more could leave 64-bit integers, and that must show before the charge."""


def require_passable(threshold: float, teachers: int) -> None:
    """Raise for a threshold that not even all votes reach."""
    if threshold > teachers:
        raise ArgumentError(
            f"A threshold above the number of teachers is never passed; got {threshold:g} for {teachers} "
            "teachers. Lower it."
        )


def require_answerable(answers: int, queries: int) -> None:
    """Raise for more answers than questions."""
    if answers > queries:
        raise ArgumentError(
            f"At most all queries can be answered; got {answers} answers for {queries} queries. "
            "Set fewer answers, or more queries."
        )


def questions_of(
    queries: int, answers: int | None, classes: int, unit: Unit, replaced: int
) -> list[VoteCounts | LargestVotes]:
    """What is asked of the ballots: all votes or, with a number of answers, tests of all and so many votes.

    Args:
        queries: number of questions.
        answers: most that are answered of those that pass a test; None where there is none, and all are.
        classes: how many.
        unit: what touches one teacher at most.
        replaced: how many ballots a replaced unit changes.
    """
    votes = VoteCounts(queries if answers is None else answers, classes, unit, replaced)
    return [votes] if answers is None else [LargestVotes(queries, classes, unit, replaced), votes]


def with_noise(query: VoteCounts | LargestVotes, scale: float, relation: Relation) -> GaussianMechanism:
    """Its answer with noise of this standard deviation, in votes."""
    return GaussianMechanism(query, scale / query.l2_sensitivity(relation), relation)


def noisy_answers(
    mechanisms: Sequence[GaussianMechanism], ballots: Any, threshold: float | None, noise: NoiseSource
) -> tuple[Integers, Floats, float]:
    """Which questions are answered, the noisy votes on them, and the scale of that noise.

    With a threshold, all tests are one answer; of the questions that pass, the first are asked, never more
    than were paid for. What is not asked is zero in the second answer, whatever the ballots say.

    Args:
        mechanisms: of the tests, where there is a threshold, and of the votes.
        ballots: (teachers, questions), or `CountedVotes` in their place.
        threshold: votes that a favourite must have, noise included.
        noise: where it comes from.
    """
    *tests, voting = mechanisms
    asked = np.arange(ballots.shape[1])
    for test in tests:
        assert threshold is not None
        largest = test.release(ballots, NO_LABELS, noise=noise)
        asked = np.flatnonzero(largest >= threshold)
    asked = asked[: voting.query.shape[0]]
    votes = voting.release(ballots[:, asked], NO_LABELS, noise=noise)[: len(asked)]
    return asked, votes, voting.scale


_CLASSES = 10
_BALLOTS_REPLACED = 2  # a rule that we do not know may send a unit's successor to another teacher
_SMALLEST_EPSILON = 1e-12  # so much noise that ε is 0 is fine, but no budget
_MOST_TEACHERS = 10**9  # sums of votes live on the same grid


@dataclass(frozen=True)
class Inquiry:
    """How many questions teachers are asked, how many they answer, and with how much noise: the price.

    Plain GNMax answers every question by the class with most noisy votes. Confident-GNMax, which has noise on
    its tests, looks first whether the favourite has enough votes, and answers at most `answers` of the
    questions that pass. All tests and all those answers are paid for in advance, used or not: how many pass
    is known only after looking. Both noises are Gaussian and fixed, so the price is the exact curve of
    μ² = queries·(1/σ₁)² + answers·(√2/σ₂)², twice the distances under replace-one: who is with which teacher
    was decided elsewhere, and a unit's successor may be with another.

    >>> paper = Inquiry(1000, noise=50.0, threshold_noise=200.0, answers=684)
    >>> round(paper.guarantee(1e-5).epsilon, 4)
    3.1776

    Attributes:
        queries: number of questions.
        noise: standard deviation σ₂ of the noise on each class's votes.
        threshold_noise: standard deviation σ₁ of the noise on each test; None where there are no tests.
        answers: most questions that are answered; None for all of them.
        unit: what touches one teacher at most: an example, or a person with all theirs.
        relation: neighbouring relation.
        classes: how many, declared. Of the price they decide what the integer grid costs, next to nothing.
    """

    queries: int
    noise: float
    threshold_noise: float | None = None
    answers: int | None = None
    unit: Unit = Unit.ROW
    relation: Relation = Relation.ADD_REMOVE
    classes: int = _CLASSES

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        checks.whole("queries", self.queries)
        checks.whole("classes", self.classes, at_least=2)
        for name in ("noise", "threshold_noise"):
            value = getattr(self, name)
            if value is not None and checks.positive(name, value) > MOST_NOISE:
                raise ArgumentError(f"{name} must be at most {MOST_NOISE:g} votes; got {value!r}. Lower it.")
        if self.threshold_noise is None and self.answers is not None:
            raise ArgumentError(
                "A number of answers is for questions that must pass a noisy test; no threshold noise is "
                "given. Give it, or leave the answers out: all queries are then answered."
            )
        if self.answers is not None:
            require_answerable(checks.whole("answers", self.answers), self.queries)

    @classmethod
    def within(cls, budget: Budget, queries: int, **settings: Any) -> Inquiry:
        """The inquiry whose answers have the least noise that fits the budget; tests have what is given.

        >>> round(Inquiry.within(Budget(epsilon=1.0, delta=1e-5), 1000).noise)
        167
        """
        most = cls(queries, MOST_NOISE, relation=budget.relation, **settings)
        sensitivity = most.mechanisms[-1].query.l2_sensitivity(budget.relation)

        def at(multiplier: float) -> Inquiry:
            return replace(most, noise=min(multiplier * sensitivity, MOST_NOISE))

        return at(noise_multiplier_for(budget, lambda z: at(z).events))

    @property
    def most_answers(self) -> int:
        """How many answers are paid for."""
        return self.queries if self.answers is None else self.answers

    @property
    def mechanisms(self) -> tuple[GaussianMechanism, ...]:
        """The tests, if there are any, and the answers: each kind one noisy answer."""
        answers, scales = None, [self.noise]
        if self.threshold_noise is not None:
            answers, scales = self.most_answers, [self.threshold_noise, self.noise]
        asked = questions_of(self.queries, answers, self.classes, self.unit, _BALLOTS_REPLACED)
        return tuple(with_noise(*one, self.relation) for one in zip(asked, scales, strict=True))

    @property
    def events(self) -> tuple[Event, ...]:
        """What they cost."""
        return tuple(step.event for step in self.mechanisms)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What whoever brings the votes promises."""
        one = "example" if self.unit is Unit.ROW else "person, with all their examples,"
        return (
            f"each {one} was given to one teacher at most, by a rule that does not depend on the "
            "others, and a teacher's votes depend on what it was given alone",
            "questions, teachers, classes, noise and threshold were fixed without looking at the data",
        )

    def require_threshold(self, threshold: float | None, teachers: int) -> None:
        """Raise unless there is a threshold where there are tests, and one that can be passed."""
        if (threshold is None) is not (self.threshold_noise is None):
            raise ArgumentError(
                "A test has a threshold and noise of its own; got one without the other. "
                "Give both, or neither."
            )
        if threshold is not None:
            require_passable(checks.moderate("threshold", threshold), teachers)

    def guarantee(self, delta: float) -> Guarantee:
        """What is promised about the answers, with ε at this δ."""
        return guarantee_of(self.events, delta, self.assumptions)


@dataclass(frozen=True, eq=False)
class VoteAnswers:
    """Noisy answers of teachers, free to use and to publish.

    Attributes:
        positions: the answered questions, by their numbers from 0, in order.
        labels: of each the class with most noisy votes, as its position; the first of equals.
        inquiry: what was asked.
        guarantee: what it promises.
        seeded: whether the noise came from a seed: then nothing is protected.
        created: when, in UTC.
        ledger_head: the entry of the charge.
    """

    positions: Integers
    labels: Labels
    inquiry: Inquiry
    guarantee: Guarantee
    seeded: bool
    created: str
    ledger_head: str

    @property
    def statement(self) -> str:
        """The sentence that goes with the answers wherever they are shown."""
        return f"These answers are {str(self.guarantee).removeprefix('This model is ')}"


@plain_floats()  # no flag and no filter of the caller's makes votes tell
def aggregate_votes(
    votes: AnyArray,
    inquiry: Inquiry,
    *,
    teachers: int,
    name: str,
    delta: float,
    threshold: float | None = None,
    cast: bool = False,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> VoteAnswers:
    """Charge the ledger, then answer.

    Args:
        votes: whole numbers: how many teachers vote for each class, (queries, classes), or with `cast` the
            ballots themselves, (teachers, queries) of class positions. Values that cannot be, such as counts
            below zero or more votes than teachers, are brought into range without a word.
        inquiry: what is asked, and with how much noise.
        teachers: how many there are, a public number.
        name: what the ledger calls the private data set that the teachers learned from.
        delta: δ of the guarantee.
        threshold: how many votes the favourite of a question must have, noise included; where there are
            tests.
        cast: whether `votes` are ballots.
        ledger: where it is charged; the user's default ledger file if not given.
        noise: `SecureNoise()` if not given.

    Raises:
        BudgetExceeded: the data set's budget in the ledger does not cover it; no vote was read.
    """
    require_votes(votes, inquiry, teachers, cast=cast)
    inquiry.require_threshold(threshold, teachers)
    steps, promise = inquiry.mechanisms, inquiry.guarantee(delta)
    with charge_votes(name, inquiry.events, "votes", delta, ledger, noise) as (receipt, source):
        ballots = count_votes(votes, teachers, inquiry.classes, cast=cast)
        asked, noisy, _ = noisy_answers(steps, ballots, threshold, source)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    labels = noisy.argmax(axis=1)
    return VoteAnswers(asked, labels, inquiry, promise, source.seeded, created, receipt.head)


@contextmanager
def charge_votes(
    name: str,
    events: tuple[Event, ...],
    label: str,
    delta: float,
    ledger: Ledger | None,
    noise: NoiseSource | None,
) -> Iterator[tuple[Receipt, NoiseSource]]:
    """Charge for what runs inside, and note how it ended."""
    promised = max(guarantee_of(events, delta).epsilon, _SMALLEST_EPSILON)
    budget = Budget(epsilon=promised, delta=delta, relation=events[0].relation)
    ledger, noise = with_defaults(budget, ledger, noise)
    warn_if_weak(budget, stacklevel=5)  # past this context, whoever opens it, and `plain_floats`
    with charge_run(ledger, name, events, label) as receipt:
        yield receipt, noise


def require_votes(votes: AnyArray, inquiry: Inquiry, teachers: int, *, cast: bool) -> None:
    """Raise for votes of another shape or type than declared, both of which are public; no value is read."""
    if checks.whole("teachers", teachers) > _MOST_TEACHERS:
        raise ArgumentError(f"teachers must be at most {_MOST_TEACHERS:g}; got {teachers}. Check the number.")
    wanted = (teachers, inquiry.queries) if cast else (inquiry.queries, inquiry.classes)
    axes = "(teachers, questions)" if cast else "(questions, classes)"
    if votes.shape != wanted:
        raise DataError(
            f"{'Ballots' if cast else 'Counts of votes'} have the shape {axes}, here {wanted}; got "
            f"{votes.shape}. Check what is declared, or turn them round."
        )
    if not np.issubdtype(votes.dtype, np.integer):
        raise DataError(f"Votes are whole numbers; got the type {votes.dtype}. Save them as int64.")


def count_votes(votes: AnyArray, teachers: int, classes: int, *, cast: bool) -> CountedVotes:
    """Counts in the place of ballots, with what cannot be brought into range."""
    return CountedVotes.of(votes_of(votes, classes) if cast else votes, teachers)


def inquiry_record(inquiry: Inquiry, teachers: int, threshold: float | None) -> JsonObject:
    """What was asked, as a record beside the answers has it."""
    own = {name: getattr(inquiry, name) for name in ("queries", "classes", "noise", "threshold_noise")}
    return {**own, "answers_paid_for": inquiry.most_answers, "teachers": teachers, "threshold": threshold}


_FAR = 9.6  # standard deviations
_CHAIN = 3  # steps of smooth sensitivity, between the first and the last of four neighbours in a chain
MISSED = 1e-21
"""The probability that a normal draw is further to one side than 9.6 standard deviations, rounded up."""

_ORDER = 20.0
_SMOOTHNESS = 2.0
_SCALE_SHARE = 0.75


@dataclass(frozen=True)
class VoteReport:
    """A bound on what the answers to these votes tell, released with noise; all settings fixed before a look.

    Attributes:
        inquiry: the answers it is about. Their labels alone must be what was released: noisy votes tell all
            that was paid for.
        teachers: how many there are.
        budget: what the report itself may cost, (ε, δ).
        threshold: of the answers' tests, where there are some.
        order: Rényi order α of the loss. 20 suits losses of a tenth of the price: at δ = 1e-5 no order makes
            less than log(1/δ)/(α − 1), here 0.6, of ε.
        smoothness: β of the smooth sensitivity; None for 2/σ₂. The loss of a question whose others win with
            probability Φ(−t) grows by e^(√2·t/σ₂) with each vote that moves: beyond t = √2 smooth
            sensitivity then looks no further than it must.
        confidence: with which the reported bound holds.
    """

    inquiry: Inquiry
    teachers: int
    budget: Budget
    threshold: float | None = None
    order: float = _ORDER
    smoothness: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse settings that say nothing, before anything is charged."""
        if self.budget.flavour != "approximate":
            raise ArgumentError("A report needs a budget in epsilon and delta; got another. Give both.")
        if self.budget.relation is not self.inquiry.relation:
            raise ArgumentError("Report and answers are about one relation; got two. Choose one.")
        if not 0.5 <= checks.fraction("confidence", self.confidence) <= 0.999:
            raise ArgumentError(
                f"confidence must lie between 0.5 and 0.999; got {self.confidence!r}. Usual is 0.95."
            )
        if self.smoothness is not None and not 1e-3 <= checks.positive("smoothness", self.smoothness) <= 1:
            raise ArgumentError(
                f"smoothness must lie between 0.001 and 1; got {self.smoothness!r}. Leave it out for 2/noise."
            )
        self.inquiry.require_threshold(self.threshold, self.teachers)
        _ = self.loss

    @cached_property
    def loss(self) -> AnswerLoss:
        """The loss that is reported."""
        asked = self.inquiry
        price = asked.noise, self.order, asked.most_answers, asked.relation
        test = self.threshold, asked.threshold_noise
        return AnswerLoss(asked.queries, self.teachers, asked.classes, *price, *test)

    @cached_property
    def steps(self) -> tuple[GaussianMechanism, GaussianMechanism]:
        """The two releases; the bound of the second is set once the first is there.

        μ² is shared 3 to 1. The report is as wide as z₂·e^(9.6·β·z₁): it grows exponentially in the noise on
        log S, and only in proportion to that on the loss.
        """
        asked = self.inquiry
        smoothness = min(1.0, max(1e-3, self.smoothness or _SMOOTHNESS / asked.noise))
        scale = LossSensitivity(self.loss, smoothness, asked.unit)
        value = LossOfAnswers(self.loss, self.loss.of_all_answers, asked.unit)

        def both(z: float) -> tuple[GaussianMechanism, GaussianMechanism]:
            first = GaussianMechanism(scale, z / math.sqrt(_SCALE_SHARE), asked.relation)
            return first, GaussianMechanism(value, z / math.sqrt(1 - _SCALE_SHARE), asked.relation)

        return both(noise_multiplier_for(self.budget, lambda z: _events(both(z))))

    @property
    def margin(self) -> float:
        """By how much the bound is above the noisy log S, for the unlikely and for chains of neighbours."""
        scale, _ = self.steps
        return _FAR * scale.scale + _CHAIN * scale.query.l2_sensitivity(self.inquiry.relation)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the report costs."""
        return _events(self.steps)

    def guarantee(self) -> Guarantee:
        """What is promised about the report."""
        return guarantee_of(self.events, self.budget.delta, self.inquiry.assumptions)

    @plain_floats()  # no flag and no filter of the caller's makes votes tell
    def release(
        self,
        votes: AnyArray,
        *,
        name: str,
        cast: bool = False,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
    ) -> ReportedLoss:
        """Charge the ledger, then look; the arguments are those of `aggregate_votes`."""
        require_votes(votes, self.inquiry, self.teachers, cast=cast)
        ledger, noise = with_defaults(self.budget, ledger, noise)
        if self.inquiry.unit is Unit.ROW and ledger.unit_of(name) is Unit.PERSON:
            raise ArgumentError(
                f"A report about rows tells nothing of persons who may have many; '{name}' counts by person. "
                "Ask about persons: unit=Unit.PERSON (--unit person)."
            )
        _ = self.steps, self.loss.growth  # what cannot be afforded, or held in memory, fails here
        delta = self.budget.delta
        with charge_votes(name, self.events, "votes report", delta, ledger, noise) as (receipt, _):
            ballots = count_votes(votes, self.teachers, self.inquiry.classes, cast=cast)
            noisy, deviation = self.release_loss(ballots, noise)
        return ReportedLoss(self, noisy, deviation, noise.seeded, receipt.head)

    def release_loss(self, ballots: Any, noise: NoiseSource) -> tuple[float, float]:
        """The noisy loss and the standard deviation of its noise: all that is released."""
        scale, value = self.steps
        upper = float(scale.release(ballots, NO_LABELS, noise=noise)[0]) + self.margin
        most = self.loss.of_all_answers  # no loss moves further than that
        bound = min(max(math.exp(min(upper, 700.0)), self.loss.smallest_bound), most)
        sharp = replace(value, query=LossOfAnswers(self.loss, bound, self.inquiry.unit))
        return float(sharp.release(ballots, NO_LABELS, noise=noise)[0]) * bound, sharp.scale * bound


def _events(steps: tuple[GaussianMechanism, GaussianMechanism]) -> tuple[GaussianEvent, GaussianEvent]:
    first, second = (step.event for step in steps)
    return first, replace(second, numeric_delta=MISSED)


@dataclass(frozen=True, eq=False)
class ReportedLoss:
    """What was released, and what follows from it.

    Attributes:
        report: its settings.
        noisy_loss: the loss of answering at the report's order, with noise; it may be on either side.
        scale: standard deviation of that noise.
        seeded: whether the noise came from a seed: then nothing is protected.
        ledger_head: the entry of the charge.
    """

    report: VoteReport
    noisy_loss: float
    scale: float
    seeded: bool
    ledger_head: str

    @property
    def loss_bound(self) -> float:
        """The loss of answering is at most this, with the stated confidence; never above all answers'."""
        from scipy.special import ndtri

        bound = self.noisy_loss + float(ndtri(self.report.confidence)) * self.scale * (1 + 1e-9)
        return min(max(bound, 0.0), self.report.loss.of_all_answers)

    @property
    def epsilon_of_labels(self) -> float:
        """ε of the labels for the data as they are, if the bound holds; never above the price for all."""
        asked, delta = self.report.inquiry, self.report.budget.delta
        return min(epsilon_at_order(self._labels, self.report.order, delta), asked.guarantee(delta).epsilon)

    @property
    def epsilon_with_report(self) -> float:
        """The same for labels and report together."""
        asked, delta, order = self.report.inquiry, self.report.budget.delta, self.report.order
        exact = epsilon_of((*asked.events, *self.report.events), delta)
        own = self._price(self.report.events)
        lost = 3 * math.exp(min(exact, 700.0)) * MISSED  # above (1 + e^ε)·1e-21
        if lost >= delta:
            return exact
        return min(epsilon_at_order(self._labels + own, order, delta - lost), exact)

    def _price(self, events: Sequence[Event]) -> float:
        """D_α of Gaussian steps, whatever the votes."""
        return self.report.order * (mu_of(events) or 0.0) ** 2 / 2 if events else 0.0

    @property
    def _labels(self) -> float:
        """D_α of tests, whatever the votes, of labels, by the bound, and what the grid costs."""
        asked, order = self.report.inquiry, self.report.order
        of_tests = self._price(asked.events[:-1])
        grid = math.fsum(event.numeric_epsilon for event in asked.events) * order / (order - 1)
        return of_tests + self.loss_bound + grid

    @property
    def statement(self) -> str:
        """The sentence that goes with the numbers wherever they are shown."""
        asked, delta = self.report.inquiry, self.report.budget.delta
        own, price = self.report.guarantee(), asked.guarantee(delta)
        labels, both = rounded_up(self.epsilon_of_labels, 4), rounded_up(self.epsilon_with_report, 4)
        change = asked.relation.sentence(asked.unit)
        return (
            f"With probability at least {self.report.confidence:g} over the noise of this report: for the "
            f"data as they are, {change} leaves the labels (ε = {labels}, δ = {rounded_up(delta)})"
            f"-indistinguishable, and labels and report together ε = {both}. That describes these data, and "
            f"is no guarantee: the price for any data is ε = {rounded_up(price.epsilon, 4)} for the labels "
            f"and ε = {rounded_up(own.epsilon, 4)} for this report."
        )
