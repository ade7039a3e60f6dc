"""Integer Gaussian noise on exact answers: one release, shares of one budget, or rounds of questions.

Rounds ask about all rows or about Poisson samples, alone or several under one price.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, Owners
from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact import cuda, feature_map, sums
from dptransfer.exact.chunks import SelectedRows, run_on_thread
from dptransfer.exact.gradient_sums import DeviceSample, RecordedSteps
from dptransfer.exact.lattice import SUM_BITS
from dptransfer.mechanisms import row_shares, witness
from dptransfer.mechanisms.mechanism import ROUND_UP, Step, require_noise
from dptransfer.noise import NoiseSource, lattice_epsilon
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent, Unit
from dptransfer.queries.joint_sensitivity import joint_reach, kind_and_width
from dptransfer.queries.query import L2Query
from dptransfer.queries.softmax_gradient import ROW_NORM, SoftmaxGradient

_Drawn: TypeAlias = tuple[Integers, Integers]
"""Noise, and the units of a fresh sample."""
_FEW = 2**14  # draws that are made sooner than another thread has begun with them


@dataclass(frozen=True)
class GaussianMechanism:
    """A query's answer with independent discrete Gaussian noise on every coordinate.

    Releases:      the noisy answer, in units.
    Guarantee:     (1/z)-GDP with z the noise multiplier, plus the ε of the lattice (see `lattice_epsilon`).
    Relation:      the one it is built with; the query's sensitivity is taken under it.
    Sensitivity:   the query's, L2.
    Assumes:       a noise source with the stated law.
    Reference:     Dong, Roth and Su (2022); Canonne, Kamath and Steinke (2020) for the discrete law.

    Attributes:
        query: what is asked.
        noise_multiplier: z.
        relation: neighbouring relation.
    """

    query: L2Query
    noise_multiplier: float
    relation: Relation

    def __post_init__(self) -> None:
        """Refuse noise so small that the lattice bound does not cover it."""
        require_noise(self.noise_multiplier)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise, in units of the answer."""
        return self.noise_multiplier * self.query.l2_sensitivity(self.relation)

    @property
    def event(self) -> GaussianEvent:
        """Its privacy cost."""
        asked = self.query
        lattice = lattice_epsilon(self.scale * asked.grid, math.prod(asked.shape))
        law = self.noise_multiplier, self.relation, asked.l2_sensitivity(self.relation)
        return GaussianEvent(*law, asked.label, numeric_epsilon=lattice, unit=asked.unit)

    def release(self, rows: AnyArray, labels: Labels, people: Owners = None, *, noise: NoiseSource) -> Floats:
        """Answer and noise are added as integers; scaling back is post-processing."""
        # An answer on record must have the noise it is paid for here: a share may follow from other answers.
        what = f"{self.query.label}, noise multiplier {self.noise_multiplier:.9g}"
        drawn = noise.draw_once(what, lambda: self._draw(rows, labels, people, noise))
        query, moved = self.query, self.query.l2_sensitivity(self.relation)
        return witness.answer_of(drawn, query, self.noise_multiplier, moved)

    def _draw(self, rows: AnyArray, labels: Labels, people: Owners, noise: NoiseSource) -> Integers:
        # The noise first: if it cannot be drawn, no row was read.
        draws = witness.sampler(noise)(self.scale * self.query.grid * ROUND_UP, self.query.shape)
        row_shares.note(self, self.query, rows, labels, people)
        exact = row_shares.answer_told(self.query, rows, labels, people)
        moved = self.query.l2_sensitivity(self.relation)
        return witness.noisy(exact, draws, moved * self.query.grid)


_ROUNDING = 1e-9  # shares are floats; a sum of 1 + 1e-9 is still 1, and is paid for by `_HAIR`
_HAIR = 1 + 1e-9


@dataclass(frozen=True)
class GaussianShares:
    """Several Gaussian releases that together cost what one release at `noise_multiplier` would.

    Releases:      the noisy answers of the queries it is asked, each at its share of the budget.
    Guarantee:     GaussianEvent(z) for all of them together: a release with share q has multiplier z/√q and
                   is √q/z-GDP, and releases whose shares add up to at most 1 are 1/z-GDP even if each share
                   and query depends on earlier answers.
    Relation:      the one it is built with; each query's sensitivity is taken under it.
    Sensitivity:   each query's own, L2; the event quotes that of the largest, `query`.
    Assumes:       every answer has at most as many coordinates as `query`, and a sensitivity of no fewer
                   steps than `fewest_steps` (checked).
    Reference:     Smith and Thakurta (2022), fully adaptive composition for Gaussian differential privacy.

    Attributes:
        query: the largest query that will be asked, for the event.
        noise_multiplier: z of the whole.
        relation: neighbouring relation.
        label: what is released, in words.
    """

    query: L2Query
    noise_multiplier: float
    relation: Relation
    label: str

    @property
    def event(self) -> GaussianEvent:
        """What all shares cost together.

        The lattice costs 1/scale² per coordinate, so a share q of the budget costs q times what the whole
        would: their sum is at most the whole's, with as many coordinates as the largest answer.
        """
        scale = self.noise_multiplier * self.fewest_steps
        lattice = lattice_epsilon(scale, math.prod(self.query.shape))
        largest = GaussianMechanism(self.query, self.noise_multiplier, self.relation).event
        return replace(largest, label=self.label, numeric_epsilon=lattice)

    @property
    def fewest_steps(self) -> float:
        """Steps of the grid that a query's sensitivity must be, at least (checked by `SharesLeft`).

        Half of the largest query's, on its grid or on that of sums, whichever is coarser: gradients of
        persons are on a finer one, and counts and sums are released beside them.
        """
        coarsest: int = min(self.query.grid, 2**SUM_BITS)
        return self.query.l2_sensitivity(self.relation) * coarsest / 2

    def open(self, *, noise: NoiseSource) -> SharesLeft:
        """Begin to spend the shares."""
        return SharesLeft(self, noise)


@dataclass
class SharesLeft:
    """What is left of a `GaussianShares` budget; refuses to spend more than it has."""

    budget: GaussianShares
    noise: NoiseSource
    left: float = 1.0

    def release(
        self, query: L2Query, share: float, rows: AnyArray, labels: Labels, people: Owners = None
    ) -> Floats:
        """The query's noisy answer on these rows, for `share` of the budget."""
        checks.positive("share", share)
        largest, relation = self.budget.query, self.budget.relation
        if share > self.left + _ROUNDING:
            raise BudgetError(
                f"Shares must add up to at most 1; {share:g} was asked for and {self.left:g} is left."
            )
        if (
            math.prod(query.shape) > math.prod(largest.shape)
            or query.l2_sensitivity(relation) * query.grid < self.budget.fewest_steps
            or query.unit is not largest.unit
        ):
            raise ArgumentError(
                "A query must not be larger or coarser than the one the shares were planned for, nor about "
                "another unit."
            )
        self.left -= share
        multiplier = self.budget.noise_multiplier / math.sqrt(share) * _HAIR
        mechanism = GaussianMechanism(query, multiplier, relation)
        return mechanism.release(rows, labels, people, noise=self.noise)

    def scale(self, query: L2Query, share: float) -> float:
        """Standard deviation of the noise that `release` would add."""
        return self.budget.noise_multiplier / math.sqrt(share) * query.l2_sensitivity(self.budget.relation)


@dataclass(frozen=True)
class GaussianRounds:
    """Up to `times` noisy answers to questions of one shape, each chosen in the light of earlier answers.

    Releases:      the noisy answers, in units.
    Guarantee:     GaussianEvent(z, times): together √times/z-GDP, plus the ε of the lattice. With a sampling
                   rate below 1, SampledGaussianEvent.
    Relation:      the one it is built with; the query's sensitivity is taken under it.
    Sensitivity:   the query's, L2; every question asked must have the planned one's sensitivity in grid steps
                   and no more coordinates (checked).
    Assumes:       a noise source with the stated law; which rows a round sampled is never told.
    Reference:     Dong, Roth and Su (2022) for composition; Abadi et al. (2016) for sampled rounds.

    Attributes:
        query: a question of the shape that will be asked.
        noise_multiplier: z of each round.
        relation: neighbouring relation.
        times: most rounds there can be; all are paid for.
        label: what is released, in words.
        sampling_rate: probability with which a round looks at an example; 1 for all of them.
        is_part: whether it is paid for as a part of a `JointRounds`.
    """

    query: L2Query
    noise_multiplier: float
    relation: Relation
    times: int
    label: str = ""
    sampling_rate: float = 1.0
    is_part: bool = False

    def __post_init__(self) -> None:
        """Refuse what the bounds do not cover."""
        checks.whole("times", self.times)
        checks.rate("sampling_rate", self.sampling_rate)
        require_noise(self.noise_multiplier)

    @property
    def is_sampled(self) -> bool:
        """Whether a round looks at some of the rows only."""
        return self.sampling_rate < 1

    @property
    def _one_round(self) -> GaussianMechanism:
        """A round as if it looked at all rows; of sampled ones, under add/remove (`SampledGaussianEvent`)."""
        relation = Relation.ADD_REMOVE if self.is_sampled else self.relation
        return GaussianMechanism(self.query, self.noise_multiplier, relation)

    @property
    def sensitivity(self) -> float:
        """What the noise multiplier is relative to; for sampled rounds, what one row contributes."""
        return self._one_round.event.sensitivity

    @property
    def scale(self) -> float:
        """Standard deviation of a round's noise, in units of the answer."""
        return self._one_round.scale

    @property
    def event(self) -> GaussianEvent | SampledGaussianEvent:
        """What all rounds cost together."""
        label, lattice = self.label or self.query.label, self.times * self._one_round.event.numeric_epsilon
        if not self.is_sampled:
            return replace(self._one_round.event, label=label, times=self.times, numeric_epsilon=lattice)
        # Under replace-one two answers may be twice as far apart as one row's contribution: twice the bound
        # covers that (see `lattice_epsilon`).
        apart = 2 if self.relation is Relation.REPLACE_ONE else 1
        law = self.noise_multiplier, self.sampling_rate, self.times, self.relation, self.sensitivity
        return SampledGaussianEvent(*law, label, numeric_epsilon=apart * lattice, unit=self.query.unit)

    def open(self, *, noise: NoiseSource) -> RoundsLeft:
        """Begin the rounds."""
        return RoundsLeft(self, noise)


@dataclass
class RoundsLeft:
    """What is left of a `GaussianRounds`; refuses to answer more often than was paid for."""

    paid: GaussianRounds
    noise: NoiseSource
    asked: int = 0
    _ahead: dict[tuple[float, tuple[int, ...], int, int], Future[_Drawn]] = field(
        default_factory=dict, repr=False
    )
    _recorded: RecordedSteps = field(default_factory=dict, repr=False)

    def release(self, query: L2Query, rows: AnyArray, labels: Labels, people: Owners = None) -> Floats:
        """The query's noisy answer on these rows, or on a fresh Poisson sample of them, or of the people."""
        planned, relation = self.paid.query, self.paid.relation
        if self.asked >= self.paid.times:
            raise BudgetError(f"{self.paid.times} rounds were paid for; this would be one more.")
        if (
            math.prod(query.shape) > math.prod(planned.shape)
            or query.grid < planned.grid
            or query.l2_sensitivity(relation) != planned.l2_sensitivity(relation)
            or query.unit is not planned.unit
        ):
            raise ArgumentError(
                "A round's question must be no larger, coarser or more sensitive than planned, of one unit."
            )
        if self.paid.is_part and not _fits_a_part(query, planned):
            raise ArgumentError(
                "A question that is paid for with others must be of its planned kind, about rows of at most "
                f"the planned width on the grid of 2⁻¹⁶; got {query.label}. "
                "Map the rows with `head_rows` first."
            )
        self.asked += 1
        drawn = self.noise.draw_once(query.label, lambda: self._draw(query, rows, labels, people))
        paid = self.paid
        return witness.answer_of(drawn, query, paid.noise_multiplier, paid.sensitivity)

    def _draw(self, query: L2Query, rows: AnyArray, labels: Labels, people: Owners) -> Integers:
        # What is random first: if it cannot be drawn, no row was read.
        law = self.paid.scale * query.grid * ROUND_UP, query.shape, sums.units_of(len(rows), people)
        noise, taken = self._drawn(*law)
        row_shares.note(replace(self.paid, times=1), query, rows, labels, people)
        if self.paid.is_sampled:
            self._begin_with_next(*law, idle=not isinstance(rows, np.ndarray) or usable_cores() > 2)
            chosen = sums.sampled_rows(taken, people)
            rows, labels, people = self._taken(query, rows, labels, people, chosen)
        exact = row_shares.answer_told(query, rows, labels, people)
        return witness.noisy(exact, noise, self.paid.sensitivity * query.grid)

    def _drawn(self, scale: float, shape: tuple[int, ...], units: int) -> _Drawn:
        """Noise, and which of so many units are in a fresh sample: those drawn ahead, if of this law.

        And if it was drawn by this process: the two sides of a fork would have the same.
        """
        law, ahead = (scale, shape, units, os.getpid()), self._ahead
        self._ahead = {}
        wait(drawn for (*_, process), drawn in ahead.items() if process == os.getpid())
        return ahead[law].result() if law in ahead else self._drawing(scale, shape, units)()

    def _drawing(self, scale: float, shape: tuple[int, ...], units: int) -> Callable[[], _Drawn]:
        """Draws both; samplers are asked for here, inside of an answer, as a workspace demands."""
        gaussian, rate = witness.sampler(self.noise), self.paid.sampling_rate
        if not self.paid.is_sampled:
            return lambda: (gaussian(scale, shape), np.arange(0))
        sample = self.noise.poisson_sample
        return lambda: (gaussian(scale, shape), sample(units, rate))

    def _begin_with_next(self, scale: float, shape: tuple[int, ...], units: int, *, idle: bool) -> None:
        """Begin to draw the next round's noise and sample on another thread, if there is a next round.

        And if a core is `idle` meanwhile: where two share a sample, a third thread is only in their way.

        Both are independent of rows and answers, so when they are drawn is nobody's concern. The source gives
        what it would give without this, in the same order, and never two things at a time: the next round
        begins by waiting for it, and rounds of samples are asked one after the other. (Others draw nothing
        ahead: they may take turns with rounds of another question, which ask the same source in between.)
        What a killed run had drawn ahead was used for nothing and seen by nobody, so that another draw takes
        its place in the run that goes on.
        """
        if idle and self.asked < self.paid.times and math.prod(shape) >= _FEW:
            self._ahead[scale, shape, units, os.getpid()] = run_on_thread(self._drawing(scale, shape, units))

    def _taken(
        self, query: L2Query, rows: Any, labels: Any, people: Owners, chosen: Integers
    ) -> tuple[Any, Any, Owners]:
        """The chosen rows with labels and people; of a gradient's it is left to those who work on them."""
        if people is None and isinstance(query, SoftmaxGradient):
            if isinstance(rows, np.ndarray):
                return SelectedRows(rows, chosen), labels[chosen], None
            return DeviceSample(rows, labels, chosen, self._recorded), labels, None  # pragma: no cover — GPU
        places = cuda.place_beside(chosen, rows)
        return rows[places], labels[places], None if people is None else people[chosen]


def _fits_a_part(query: L2Query, planned: L2Query) -> bool:
    """Whether the proof of `queries.joint_sensitivity` covers the question as it covers the planned one."""
    rows = getattr(query, "features", None)
    on_grid = isinstance(rows, feature_map.OnLattice) and rows.norm == ROW_NORM
    (kind, width), (planned_kind, most) = kind_and_width(query), kind_and_width(planned)
    return kind == planned_kind and on_grid and width <= most


@dataclass(frozen=True)
class JointRounds:
    """Several `GaussianRounds` about the same rows, which together cost less than the sum of their prices.

    Releases:      the noisy answers of its parts.
    Guarantee:     GaussianEvent(z) with 1/z² = reach · Σ times/z_i² over the parts: 1/z-GDP. Fix a pair of
                   neighbours. Every answer is normal, with a mean that moves by at most what the pair can do
                   to it, and Σ (gap/scale)² ≤ 1/z² on every path the answers can take. Give the attacker one
                   more answer with the gap that is missing: then the loss is ½Σ(gap/scale)² plus a martingale
                   with Gaussian steps and quadratic variation 1/z², which is Brownian motion at the time
                   1/z², so the loss has the law of one release at z. The ε of the lattice of the parts
                   adds up as ever.
    Relation:      replace one example; under add/remove one row is the worst for all parts at once. Not
                   for persons, of whom nothing is proven: their parts are paid for one by one.
    Sensitivity:   √reach, of the answers each divided by its own sensitivity and weighted so that all have
                   noise of one scale and the weights' squares add up to 1
                   (proof: `queries.joint_sensitivity`).
    Assumes:       all parts ask about the same rows, on the grid of `SoftmaxGradient` (checked).
    Reference:     Smith and Thakurta (2022) for sums of squares bounded path by path.

    Attributes:
        parts: the rounds; unsampled.
        label: what is released, in words.
    """

    parts: tuple[GaussianRounds, ...]
    label: str

    @property
    def reach(self) -> float:
        """Largest share of the sum of the parts' prices, in μ², that one pair of neighbours can cost."""
        prices = [part.times / part.noise_multiplier**2 for part in self.parts]
        return joint_reach([part.query for part in self.parts], prices) / math.fsum(prices)

    @property
    def event(self) -> GaussianEvent:
        """What all parts cost together."""
        reach = self.reach
        price = math.fsum(part.times / part.noise_multiplier**2 for part in self.parts)
        events = [part.event for part in self.parts]
        assert all(isinstance(event, GaussianEvent) for event in events)  # sampled rounds have other prices
        law = 1 / math.sqrt(reach * price), Relation.REPLACE_ONE, math.sqrt(reach)
        lattice = math.fsum(event.numeric_epsilon for event in events)
        return GaussianEvent(*law, self.label, numeric_epsilon=lattice)

    def at_noise_of(self, recorded: GaussianEvent) -> JointRounds:
        """The same with as much noise in all; the shares of the price, and the reach, stay."""
        factor = recorded.noise_multiplier / self.event.noise_multiplier
        louder = (replace(one, noise_multiplier=factor * one.noise_multiplier) for one in self.parts)
        return replace(self, parts=tuple(louder))


def joint_rounds(parts: Sequence[GaussianRounds], label: str) -> list[Step]:
    """The steps of a plan that releases these parts: a joint one if a row is replaced, else one by one."""
    if any(part.relation is Relation.ADD_REMOVE or part.query.unit is not Unit.ROW for part in parts):
        return list(parts)
    return [JointRounds(tuple(replace(part, is_part=True) for part in parts), label)]


def rounds_of(steps: Iterable[Step]) -> list[GaussianRounds]:
    """The rounds in a plan's steps, those of joint ones too, in order."""
    parts = (part for step in steps for part in (step.parts if isinstance(step, JointRounds) else (step,)))
    return [part for part in parts if isinstance(part, GaussianRounds)]
