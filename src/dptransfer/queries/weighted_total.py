"""The sum of all rows, those of each class with a weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.compute.people import Groups, group_sums, grouped, over_people, scaled_down
from dptransfer.errors import ArgumentError
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import over_chunks
from dptransfer.features.lattice import SUM_BITS
from dptransfer.privacy import Relation
from dptransfer.queries.base import BoundedQuery
from dptransfer.queries.contributions import whole_norms


@dataclass(frozen=True, eq=False)
class WeightedTotal(BoundedQuery):
    """Σ over rows of weight(class of the row) · mapped row, each row of L2 norm at most 1.

    Releases:      a vector as wide as the mapped rows; with a `count_weight` c, one more coordinate behind
                   them: c times the sum of the weights, as units count in the vector.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: the sum moves by one weighted row (w·x, c·w), of norm at most √(1 + c²).
                   Replace: by the difference of two of them, (w·x − w′·x′, c·(w − w′)), whose square is at
                   most (w + w′)² + c²(w − w′)² ≤ 4 for c ≤ 1. Persons: bound times that, by the argument of
                   `ClassSumsAndCounts`: no sum is longer than what is counted for it.
    Assumes:       weights in [0, 1], public or released (checked); labels in 0..classes−1; a feature map that
                   works row by row. Exact: w·x is rounded toward zero and c·w up, from products that are
                   exact or no larger than they should be.
    Reference:     class-balanced means; docs/methods/public-prior.md says what they are used for.

    Attributes:
        features: map of the rows.
        weights: (classes,).
        count_weight: c, a multiple of 2⁻¹⁶ up to 1; 0 for the sum alone.
    """

    features: FittedFeatures
    weights: Floats
    count_weight: float = 0.0

    label = "weighted sum of all rows"
    grid = 2**SUM_BITS

    def __post_init__(self) -> None:
        """Refuse weights that the sensitivity does not cover."""
        if not np.all((self.weights >= 0) & (self.weights <= 1)):
            raise ArgumentError("Weights must lie in [0, 1]; divide them by the largest.")
        if not 0 <= self.count_weight <= 1 or self.count_weight * 2**16 % 1:
            raise ArgumentError(
                f"count_weight must be a multiple of 2**-16 up to 1; got {self.count_weight!r}."
            )

    @property
    def shape(self) -> tuple[int]:
        """(dimension,), or one more with a count."""
        return (self.features.dimension + (self.count_weight > 0),)

    def l2_sensitivity(self, relation: Relation) -> float:
        """√(1 + c²) under add/remove, 2 under replace-one, for each example that a unit counts as."""
        one = math.hypot(1.0, self.count_weight)
        return self.bound.examples * (one if relation is Relation.ADD_REMOVE else 2.0)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The sum in steps of 2⁻³⁰."""
        answer = np.zeros(self.shape, dtype=np.int64)
        for weighted in self._chunks(rows, labels):
            answer += weighted.sum(axis=0)
        return answer

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The sum in steps of 2⁻³⁰, that of each person scaled down to the bound."""
        answer = np.zeros(self.shape, dtype=np.int64)
        longest = math.hypot(1.0, self.count_weight) * self.grid
        # Rounding, less than a step in each entry, is taken off beforehand.
        most = self.bound.examples * longest - 2 * math.sqrt(answer.size)

        def part(groups: Groups) -> Integers:
            sums = group_sums(lambda own: self._weighted(rows[own], labels[own]), groups, answer.size)
            bounded: Integers = scaled_down(sums, groups, longest, most).sum(axis=0)
            return bounded

        for summand in over_people(
            part, grouped(people, np.zeros_like(people)), self.features.input_dimension
        ):
            answer += summand
        return answer

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """The weighted rows' norms."""
        norms = [whole_norms(weighted) / self.grid for weighted in self._chunks(rows, labels)]
        return np.concatenate([np.zeros(0), *norms])

    def _chunks(self, rows: AnyArray, labels: Labels) -> Iterator[Integers]:
        """Each chunk's weighted rows on the lattice."""

        def part(chunk: slice) -> Integers:
            return self._weighted(rows[chunk], labels[chunk])

        return over_chunks(part, len(rows), self.features.input_dimension)

    def _weighted(self, rows: AnyArray, labels: Labels) -> Integers:
        """(w·x, c·w) for each row, in grid steps."""
        weights = self.weights[labels][:, None].astype(np.float64)  # in half precision the grid is infinite
        on_grid = np.trunc(self.features.lattice(rows, self.grid) * weights).astype(np.int64)
        if not self.count_weight:
            return on_grid
        # An integer of at most 31 bits times one of 17: exact.
        counted = np.ceil(np.ceil(weights * self.grid) * self.count_weight)
        return np.column_stack([on_grid, counted.astype(np.int64)])
