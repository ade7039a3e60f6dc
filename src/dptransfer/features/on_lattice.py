"""Rows that are on the lattice already: for steps that visit the same mapped rows many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.errors import ArgumentError
from dptransfer.features.base import Arrays, FittedFeatures
from dptransfer.features.lattice import SUM_BITS, require_exact_norms


@dataclass(frozen=True)
class OnLattice:
    """The identity on integer rows of norm at most `norm`; a row beyond it becomes a row of zeros.

    The norm is checked again, exactly and row by row, so that a query's sensitivity does not rest on where
    its rows came from. On a grid that is a whole number of times finer the same rows have larger integers.

    >>> OnLattice(2, norm=5).lattice(np.array([[3, 4], [3, 5]]), norm=5)
    array([[3, 4],
           [0, 0]])
    >>> OnLattice(2, norm=5).lattice(np.array([[3, 4]]), norm=50)
    array([[30, 40]])
    """

    dimension: int
    norm: int
    kind: ClassVar[str] = "on-lattice"

    def __post_init__(self) -> None:
        """Refuse a norm whose square, doubled, leaves int64."""
        require_exact_norms(self.dimension)
        if not 0 < self.norm <= 2**SUM_BITS:
            raise ArgumentError(f"norm must be between 1 and 2**{SUM_BITS}; got {self.norm!r}.")

    @property
    def input_dimension(self) -> int:
        """Rows keep their width."""
        return self.dimension

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """The rows themselves."""
        self._require_grid(rows, norm)
        values = rows.astype(np.int64)
        values[self._outside(rows, rows.astype(np.float64))] = 0
        values *= norm // self.norm
        return values

    def floats(self, rows: AnyArray, norm: int) -> Floats:
        """The rows themselves as float64, which is exact: one copy, for steps that visit them often."""
        self._require_grid(rows, norm)
        values = rows.astype(np.float64)
        outside = self._outside(rows, values)
        if outside.any():
            values[outside] = 0.0
        if norm != self.norm:
            values *= norm // self.norm
        return values

    def _require_grid(self, rows: AnyArray, norm: int) -> None:
        if norm % self.norm or norm > 2**SUM_BITS or not np.issubdtype(rows.dtype, np.integer):
            raise ArgumentError(
                f"Rows must be integers on the grid of norm {self.norm} or a multiple; asked for norm {norm}."
            )

    def _outside(self, rows: AnyArray, floats: Floats) -> NDArray[np.bool_]:
        """Which rows are longer than the norm, exactly."""
        # Row by row a dot product of the linear algebra library, in half the time of einsum.
        squares = (floats[:, None, :] @ floats[:, :, None])[:, 0, 0]
        # Exact as long as it is below 2⁵³; once above that, adding squares never brings it back down.
        outside: NDArray[np.bool_] = squares > self.norm**2
        if self.norm**2 >= 2**53:
            # Not exact; where the float sum is at most twice the bound, the integer sum does not overflow.
            outside = squares > 2.0 * self.norm**2
            bounded = np.clip(rows, -self.norm - 1, self.norm + 1).astype(np.int64)
            outside |= np.einsum("ij,ij->i", bounded, bounded) > self.norm**2
        return outside

    def arrays(self) -> Arrays:
        """It has none."""
        return {}

    def settings(self) -> dict[str, Any]:
        """It has none."""
        return {}


def lattice_floats(features: FittedFeatures, rows: AnyArray, norm: int) -> Floats:
    """Mapped integer rows as float64, without the detour over int64 where they are on the lattice already."""
    if isinstance(features, OnLattice):
        return features.floats(rows, norm)
    return features.lattice(rows, norm).astype(np.float64)
