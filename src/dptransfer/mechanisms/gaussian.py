"""Integer Gaussian noise on an exact answer, in one release or in shares of one budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Labels, People
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.lattice import SUM_BITS
from dptransfer.mechanisms import row_shares
from dptransfer.mechanisms.mechanism import ROUND_UP, exact_answer, require_noise
from dptransfer.noise import NoiseSource, lattice_epsilon
from dptransfer.privacy import GaussianEvent, Relation
from dptransfer.queries.query import L2Query


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
        """What it costs."""
        return GaussianEvent(
            noise_multiplier=self.noise_multiplier,
            relation=self.relation,
            sensitivity=self.query.l2_sensitivity(self.relation),
            label=self.query.label,
            numeric_epsilon=lattice_epsilon(self.scale * self.query.grid, math.prod(self.query.shape)),
            unit=self.query.unit,
        )

    def release(
        self, rows: AnyArray, labels: Labels, people: People | None = None, *, noise: NoiseSource
    ) -> Floats:
        """Answer and noise are added as integers; scaling back is post-processing."""
        # An answer on record must have the noise it is paid for here: a share may follow from other answers.
        what = f"{self.query.label}, noise multiplier {self.noise_multiplier:.9g}"
        return noise.draw_once(what, lambda: self._draw(rows, labels, people, noise))

    def _draw(self, rows: AnyArray, labels: Labels, people: People | None, noise: NoiseSource) -> Floats:
        # The noise first: if it cannot be drawn, no row was read.
        draws = noise.discrete_gaussian(self.scale * self.query.grid * ROUND_UP, self.query.shape)
        row_shares.note(self, self.query, rows, labels, people)
        return (exact_answer(self.query, rows, labels, people) + draws) / float(self.query.grid)


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
        return GaussianEvent(
            noise_multiplier=self.noise_multiplier,
            relation=self.relation,
            sensitivity=self.query.l2_sensitivity(self.relation),
            label=self.label,
            numeric_epsilon=lattice_epsilon(scale, math.prod(self.query.shape)),
            unit=self.query.unit,
        )

    @property
    def fewest_steps(self) -> float:
        """Steps of the grid that a query's sensitivity must be, at least (checked by `SharesLeft`).

        Half of the largest query's, on its grid or on that of sums, whichever is coarser: gradients of
        persons are on a finer one, and counts and sums are released beside them.
        """
        coarsest: int = min(self.query.grid, 2**SUM_BITS)
        return self.query.l2_sensitivity(self.relation) * coarsest / 2

    def open(self, *, noise: NoiseSource) -> SharesLeft:
        """Start spending."""
        return SharesLeft(self, noise)


@dataclass
class SharesLeft:
    """What is left of a `GaussianShares` budget; refuses to spend more than it has."""

    budget: GaussianShares
    noise: NoiseSource
    left: float = 1.0

    def release(
        self,
        query: L2Query,
        share: float,
        rows: AnyArray,
        labels: Labels,
        people: People | None = None,
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
