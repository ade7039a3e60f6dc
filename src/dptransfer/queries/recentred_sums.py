"""Per-class sums of rows clipped around a released centre: one step of CoinPress."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers, Labels
from dptransfer.compute.sums import add_by_class
from dptransfer.errors import RelationMismatch
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import over_chunks
from dptransfer.features.lattice import SUM_BITS, clipped_lattice
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.contributions import whole_norms

_ROW_NORM = 2**26


@dataclass(frozen=True, eq=False)
class RecentredSums:
    """Per-class sums of (x − centre_c) ÷ radius_c, clipped to norm 1.

    Releases:      a (classes, dimension) matrix, all classes in one answer.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      replace one example by another of the same class: class sizes are public.
    Sensitivity:   L2. Same class: one row of the matrix moves by the difference of two vectors of norm at
                   most 1, so 2. Another class: two rows move by one such vector each, √2. So 2.
    Assumes:       centres and radii public or released; labels in 0..classes−1.
    Reference:     Biswas et al. (2020), Algorithm 1, as used by Wahdany et al. (2025), Appendix A.4.

    Attributes:
        features: map to unit-norm rows.
        centres: (classes, dimension), in units of the mapped rows.
        radii: (classes,) clipping radii.
    """

    features: FittedFeatures
    centres: Floats
    radii: Floats

    label = "class sums around released centres"
    unit = Unit.ROW
    grid = 2**SUM_BITS
    largest_contribution = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(classes, dimension)."""
        return len(self.radii), self.features.dimension

    def l2_sensitivity(self, relation: Relation) -> float:
        """2, and only under replace-one."""
        if relation is not Relation.REPLACE_ONE:
            raise RelationMismatch(
                "CoinPress needs public class sizes, so its guarantee is for replacing one example; "
                f"got {relation.value}. Use Budget(..., relation=Relation.REPLACE_ONE), or the method 'mean'."
            )
        return 2.0

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """Sums in steps of 2⁻³⁰; a centre is rounded to the rows' grid, so the difference is exact."""
        sums = np.zeros(self.shape, dtype=np.int64)
        for unit, own in self._clipped(rows, labels):
            add_by_class(sums, unit, own)
        return sums

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """Norms of the clipped differences."""
        norms = [whole_norms(unit) / self.grid for unit, _ in self._clipped(rows, labels)]
        return np.concatenate([np.zeros(0), *norms])

    def _clipped(self, rows: AnyArray, labels: Labels) -> Iterator[tuple[Integers, Labels]]:
        """Each chunk's differences on the lattice, and its labels."""
        centres = np.rint(np.clip(self.centres, -(2.0**20), 2.0**20) * _ROW_NORM)

        def part(chunk: slice) -> tuple[Integers, Labels]:
            own = labels[chunk]
            difference = (self.features.lattice(rows[chunk], _ROW_NORM) - centres[own]) / _ROW_NORM
            return clipped_lattice(difference / self.radii[own][:, None], self.grid, clip=1.0), own

        return over_chunks(part, len(rows), self.features.input_dimension)
