"""Votes of teachers, and the data-dependent privacy loss of their answers.

The rows of these queries are teachers' ballots, (teachers, questions): the position of a class, or −1 where a
teacher abstains. A unit of the private data touches one teacher, so one row of ballots, however many rows it
has (`methods.votes.voting`); what the other rows say does not depend on it.

What votes cost depends on them: where all teachers agree, the label tells next to nothing about one of them.
That cost is itself a function of private votes. The queries here are for a report on it that is private too.

**One question.** Let m be the votes of its favourite and g the lead over the second. A unit changes b ballots
(1 under add/remove, 2 under replace-one), so m by at most b and g by at most 2b. Others than the favourite
win with probability at most (C − 1)·Φ(−g/√2σ), here with g − 2b in place of g, which covers both neighbours,
so that divergences in both directions are bounded (`accounting.renyi`): R(g). With a test, which
passes with probability Φ((m − T)/σ₁), the loss of passing and answering is, with w the chance of passing
tilted to order α, logit w = α·logit Pr − (α − 1)·logit Pr′,

    D(test) + log(1 + w·(e^((α−1)R) − 1))/(α − 1).

D(test) is counted as α(b/σ₁)²/2 whatever the votes. The rest, the loss of answering, is what is reported: in
the place of "chance of an answer × its cost", an expectation that bounds nothing. It grows with m and falls
with g; both are made so exactly, by running maxima.

**All questions.** Losses add up, and what more than the paid answers would cost is not lost. k units away
from these votes the sum is at most L_k, every question's loss at (m + kb, g − 2kb). One unit further it
differs by at most S_k, the sum of the growths d(m + kb, g − 2kb), where d(m, g) is the largest loss(m′ + b,
g′ − 2b) − loss(m′, g′) over m′ ≤ m and g′ ≥ g. (If a neighbour of (m, g) has less loss, then no less than at
x = (m − i, g + j) for some i ≤ b, j ≤ 2b; and (m, g) has no more than at x + (b, −2b).) The chance of an
answer changes with m and the cost of one with g: both are in d.

**Smooth sensitivity.** S = max_k e^(−βk)·S_k bounds how far a neighbour's sum is away, and S_k of a neighbour
is at most S_(k+1) of these votes: log S moves by at most β (Nissim, Raskhodnikova and Smith 2007). So log S
can be released with Gaussian noise of its own, and the loss with noise as wide as the released bound says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dptransfer.accounting.renyi import argmax_divergence, required_order
from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers, Labels
from dptransfer.errors import ArgumentError
from dptransfer.exact.lattice import SUM_BITS
from dptransfer.privacy import Relation, Unit

ABSTAINS = -1
"""The ballot of a teacher without an opinion: it has no examples."""

_SLAB = 256  # ballots that are counted at a time
_NO_LOSSES = (
    "Teachers' votes have no losses by row: a row moves its teacher's ballot, by all or by nothing, together "
    "with the teacher's other rows. Use a method without teachers."
)


@dataclass(frozen=True, eq=False)
class CountedVotes:
    """Votes that came counted already, in the place of ballots: queries answer about them alike.

    Attributes:
        counts: (questions, classes).
        teachers: how many voted, or abstained.
    """

    counts: Integers
    teachers: int

    @classmethod
    def of(cls, counts: AnyArray, teachers: int) -> CountedVotes:
        """A count below zero is none, and what is more than all teachers can cast is left out.

        Without a word, for counts are private.

        >>> CountedVotes.of(np.array([[2, 0], [-5, 4]]), teachers=3).counts.tolist()
        [[2, 0], [0, 3]]
        """
        given = np.clip(np.asarray(counts).astype(np.int64), 0, teachers)
        return cls(np.diff(np.minimum(given.cumsum(axis=1), teachers), prepend=0), teachers)

    @property
    def shape(self) -> tuple[int, int]:
        """(teachers, questions), as of ballots."""
        return self.teachers, len(self.counts)

    def __len__(self) -> int:
        return self.teachers

    def with_changed(self, ballots: int) -> CountedVotes:
        """The same where so many who vote for a question's favourite vote for the next class.

        >>> CountedVotes(np.array([[2, 0], [0, 1]]), teachers=2).with_changed(1).counts.tolist()
        [[1, 1], [1, 0]]
        """
        counts, every = self.counts.copy(), np.arange(len(self.counts))
        favourite = counts.argmax(axis=1)
        moved = np.minimum(ballots, counts[every, favourite])
        counts[every, favourite] -= moved
        counts[every, (favourite + 1) % counts.shape[1]] += moved
        return CountedVotes(counts, self.teachers)

    def __getitem__(self, places: tuple[slice, Integers]) -> CountedVotes:
        """Of all teachers, the votes on some questions."""
        return CountedVotes(self.counts[places[1]], self.teachers)


def votes_of(ballots: AnyArray | CountedVotes, classes: int) -> Integers:
    """(questions, classes) counts of the ballots (teachers, questions); what is no class counts for none.

    Without a word, for ballots are private. A part of them is read at a time: they may be many, and on disk.

    >>> votes_of(np.array([[0, 1], [0, -1]]), classes=2).tolist()
    [[2, 0], [0, 1]]
    """
    if isinstance(ballots, CountedVotes):
        return ballots.counts
    counts = np.zeros(ballots.shape[1] * classes, dtype=np.int64)
    first = np.arange(ballots.shape[1]) * classes
    for start in range(0, len(ballots), _SLAB):
        cast = np.asarray(ballots[start : start + _SLAB]).astype(np.int64)  # bytes may not hold `classes`
        counts += np.bincount((cast + first)[(cast >= 0) & (cast < classes)], minlength=len(counts))
    return counts.reshape(-1, classes)


@dataclass(frozen=True)
class _Votes:
    """What both queries have.

    Attributes:
        questions: how many.
        classes: how many.
        unit: whose ballots change at most one teacher.
        replaced: how many ballots a replaced unit changes at most: 1 where a unit's teacher is drawn without
            regard to what the unit is (`methods.votes.voting`), 2 where it may decide that.
    """

    questions: int
    classes: int
    unit: Unit
    replaced: int = 2

    grid: ClassVar[int] = 2**SUM_BITS

    def changed_ballots(self, relation: Relation) -> int:
        """How many a unit changes at most."""
        return 1 if relation is Relation.ADD_REMOVE else self.replaced

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """None to be told: ballots are not rows."""
        raise ArgumentError(_NO_LOSSES)


@dataclass(frozen=True)
class VoteCounts(_Votes):
    """How many teachers vote for each class, for every question.

    Releases:      a (questions, classes) matrix of counts.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: one teacher's ballot changes, so that a question's votes lose one here and
                   gain one there: √2 a question, √(2·questions) in all. Replace: the same where the unit's
                   successor is with the same teacher. Where it may join another, two ballots change, and both
                   may move the same way: 2√2 a question.
    Assumes:       one unit touches one teacher; number of teachers and questions are public.
    Reference:     Papernot et al. (2018), GNMax, whose Rényi divergence α/σ² is that of this sensitivity.
    """

    label: ClassVar[str] = "teachers' votes"

    @property
    def shape(self) -> tuple[int, int]:
        """(questions, classes)."""
        return self.questions, self.classes

    def l2_sensitivity(self, relation: Relation) -> float:
        """√2 a question and changed ballot."""
        return math.sqrt(2 * self.questions) * self.changed_ballots(relation)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The counts, of ballots on at most as many questions; what is not asked has no votes."""
        answer = np.zeros(self.shape, dtype=np.int64)
        answer[: rows.shape[1]] = votes_of(rows, self.classes)
        return answer * self.grid


@dataclass(frozen=True)
class LargestVotes(_Votes):
    """How many teachers vote for the favourite class, for every question.

    Releases:      one count for each question.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. A changed ballot moves every class's count by at most one, and so the largest count:
                   1 a question, √questions in all. Replace: the same where the unit's successor is with the
                   same teacher; where two ballots may change, twice as much.
    Assumes:       one unit touches one teacher; number of teachers and questions are public.
    Reference:     Papernot et al. (2018), the test of Confident-GNMax, of Rényi divergence α/2σ².
    """

    label: ClassVar[str] = "votes for each question's favourite"

    @property
    def shape(self) -> tuple[int]:
        """(questions,)."""
        return (self.questions,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 a question and changed ballot."""
        return math.sqrt(self.questions) * self.changed_ballots(relation)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The largest counts, of ballots on this many questions."""
        largest: Integers = votes_of(rows, self.classes).max(axis=1)
        return largest * self.grid


ROUNDING = 1e-6
"""Added to sensitivities: sums of floats, each off by some 1e-16 of the price of a question, are off by less
relative to `AnswerLoss.smallest_bound`, and a step of the grid, 2⁻³⁰, is less."""

_SMALLEST_SHARE = 2.0**-20

_MOST_TEACHERS = 20_000
_MOST_WITH_TEST = 4_000  # a table of (m, g) has as many rows and columns
_HAIR = 2.0**-29  # votes: on a grid of 2⁻³⁰ a tie may go either way


@dataclass(frozen=True)
class AnswerLoss:
    """The loss of answering as a function of votes, at one Rényi order; everything here is a public setting.

    Attributes:
        questions: how many.
        teachers: how many.
        classes: how many.
        noise: standard deviation of the noise on each class's votes.
        order: α.
        answers: most questions that are answered.
        relation: neighbouring relation.
        threshold: votes that pass the test, noise included; None where there is none.
        threshold_noise: standard deviation of that noise.
    """

    questions: int
    teachers: int
    classes: int
    noise: float
    order: float
    answers: int
    relation: Relation
    threshold: float | None = None
    threshold_noise: float | None = None

    def __post_init__(self) -> None:
        """Refuse what leaves the floats, or memory."""
        required_order(self.order, self.mu)
        most = _MOST_TEACHERS if self.threshold is None else _MOST_WITH_TEST
        if checks.whole("teachers", self.teachers) > most:
            raise ArgumentError(
                f"A report on votes {'with' if self.threshold else 'without'} tests is for at most {most} "
                f"teachers; got {self.teachers}. Leave the report out."
            )

    @property
    def ballots(self) -> int:
        """How many ballots one unit changes."""
        return 1 if self.relation is Relation.ADD_REMOVE else 2

    @property
    def mu(self) -> float:
        """What one answer costs whatever the votes, in GDP."""
        return self.ballots * math.sqrt(2) / self.noise

    @property
    def of_all_answers(self) -> float:
        """The loss that no votes exceed."""
        return self.answers * self.order * self.mu**2 / 2

    @property
    def smallest_bound(self) -> float:
        """The smallest smooth sensitivity that is told from none: a millionth of what all questions cost."""
        return _SMALLEST_SHARE * self.questions * self.order * self.mu**2 / 2

    @cached_property
    def by_lead(self) -> Floats:
        """R(g), for leads from 0 to all teachers."""
        from scipy.special import log_ndtr

        lead = np.arange(self.teachers + 1) - 2 * self.ballots - _HAIR
        log_other = math.log(self.classes - 1) + log_ndtr(-lead / (math.sqrt(2) * self.noise))
        return np.maximum.accumulate(argmax_divergence(log_other, self.mu, self.order)[::-1])[::-1]

    @cached_property
    def pass_chances(self) -> Floats:
        """w, for favourites with no vote up to all of them; without a test, 1 for any."""
        if self.threshold is None or self.threshold_noise is None:
            return np.ones(1)
        from scipy.special import expit, log_ndtr

        step, most = self.ballots, self.teachers + self.ballots
        beyond = (np.arange(-step, most + 1) - self.threshold) / self.threshold_noise
        logit = log_ndtr(beyond) - log_ndtr(-beyond)
        # The neighbour has so many votes less; or the neighbour, with so many more, is the one that is asked.
        tilted = self.order * logit[step:] - (self.order - 1) * logit[:-step]
        return np.maximum.accumulate(expit(np.maximum(tilted[:-step], tilted[step:])))

    @cached_property
    def loss(self) -> Floats:
        """By votes of the favourite, where there is a test, and by lead."""
        gain = np.expm1((self.order - 1) * self.by_lead)
        return np.log1p(self.pass_chances[:, np.newaxis] * gain) / (self.order - 1)

    @cached_property
    def growth(self) -> Floats:
        """The largest step of the loss at these or fewer votes, and this or a larger lead."""
        votes, leads = (np.arange(length) for length in self.loss.shape)
        further = self.loss[np.ix_(*self._after(1, votes, leads))]
        upward = np.maximum.accumulate(further - self.loss, axis=0)
        return np.maximum.accumulate(upward[:, ::-1], axis=1)[:, ::-1]

    def at_every_distance(self, ballots: AnyArray | CountedVotes) -> tuple[Floats, Floats]:
        """(L_k) and (S_k) of these ballots, for k from 0 until nothing is left of any agreement."""
        counts = np.sort(votes_of(ballots, self.classes), axis=1)
        favourite, lead = counts[:, -1], counts[:, -1] - counts[:, -2]
        reach = range(-(-self.teachers // self.ballots) + 1)
        places = (self._after(units, favourite, lead) for units in reach)
        sums = np.array([[self.loss[place].sum(), self.growth[place].sum()] for place in places])
        return np.minimum(sums[:, 0], self.of_all_answers), sums[:, 1]

    def _after(self, units: int, votes: Integers, leads: Integers) -> tuple[Integers, Integers]:
        """The place in a table of votes that lost `units` as badly as can be."""
        moved = units * self.ballots
        return np.minimum(votes + moved, len(self.pass_chances) - 1), np.maximum(leads - 2 * moved, 0)


@dataclass(frozen=True)
class LossSensitivity:
    """Logarithm of the smooth sensitivity of the loss of answering.

    Releases:      one number.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      the one that the loss is about; add/remove one unit, or replace one unit.
    Sensitivity:   L2. The smoothness β, by definition, and a millionth more for the rounding of float sums:
                   smooth sensitivities below a millionth of the largest loss count as that.
    Assumes:       one unit touches one teacher; all settings are public and fixed in advance.
    Reference:     Nissim, Raskhodnikova and Smith (2007); Papernot et al. (2018), whose published code leaves
                   out that the chance of an answer changes too. It is in the growths here.

    Attributes:
        loss: what it is the sensitivity of.
        smoothness: β.
        unit: whose ballots change at most one teacher.
    """

    loss: AnswerLoss
    smoothness: float
    unit: Unit

    label: ClassVar[str] = "how far one unit moves the loss of the answers"
    shape: ClassVar[tuple[int]] = (1,)
    grid: ClassVar[int] = 2**SUM_BITS

    def l2_sensitivity(self, relation: Relation) -> float:
        """β."""
        require_same(relation, self.loss)
        return self.smoothness + ROUNDING

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The logarithm of S, of ballots."""
        _, growths = self.loss.at_every_distance(rows)
        smooth = float((growths * np.exp(-self.smoothness * np.arange(len(growths)))).max())
        bound = max(smooth, self.loss.smallest_bound)
        return np.array([math.floor(math.log(bound) * self.grid)])


@dataclass(frozen=True)
class LossOfAnswers:
    """The loss of answering, as a multiple of a bound on what one unit moves it.

    Releases:      one number.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z), as long as `bound` is one.
    Relation:      the one that the loss is about; add/remove one unit, or replace one unit.
    Sensitivity:   L2. 1, in units of the bound, and a millionth more for the rounding of float sums.
    Assumes:       one unit touches one teacher; and that `bound`, a public or released number, is no smaller
                   than the smooth sensitivity of either neighbour. Who derives it from a noisy answer says
                   with what probability it may be smaller (`methods.votes.vote_aggregation`).
    Reference:     Papernot et al. (2018) for reporting a loss with smooth sensitivity.

    Attributes:
        loss: the loss.
        bound: how far one unit moves it.
        unit: whose ballots change at most one teacher.
    """

    loss: AnswerLoss
    bound: float
    unit: Unit

    label: ClassVar[str] = "the loss of the answers"
    shape: ClassVar[tuple[int]] = (1,)
    grid: ClassVar[int] = 2**SUM_BITS

    def l2_sensitivity(self, relation: Relation) -> float:
        """One bound."""
        require_same(relation, self.loss)
        return 1 + ROUNDING

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The loss, of ballots."""
        losses, _ = self.loss.at_every_distance(rows)
        return np.array([math.ceil(float(losses[0]) / self.bound * self.grid)])


def require_same(relation: Relation, loss: AnswerLoss) -> None:
    """A loss under one relation has no sensitivity under another."""
    if relation is not loss.relation:
        raise ArgumentError(
            f"A loss is about one relation, here {loss.relation.value}; asked under {relation.value}. "
            "Make one for that."
        )
