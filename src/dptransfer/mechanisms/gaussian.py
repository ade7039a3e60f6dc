"""An exact integer answer plus integer Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dptransfer.arrays import AnyArray, Floats, Labels, People
from dptransfer.mechanisms import row_shares
from dptransfer.mechanisms.base import ROUND_UP, exact_answer, require_noise
from dptransfer.noise import NoiseSource, lattice_epsilon
from dptransfer.privacy import GaussianEvent, Relation
from dptransfer.queries.base import L2Query


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
        return noise.once(what, lambda: self._draw(rows, labels, people, noise))

    def _draw(self, rows: AnyArray, labels: Labels, people: People | None, noise: NoiseSource) -> Floats:
        # The noise first: if it cannot be drawn, no row was read.
        draws = noise.discrete_gaussian(self.scale * self.query.grid * ROUND_UP, self.query.shape)
        row_shares.note(self, self.query, rows, labels, people)
        return (exact_answer(self.query, rows, labels, people) + draws) / float(self.query.grid)
