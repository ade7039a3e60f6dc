"""Rows on the grid of the similarity kernels: of private rows an array, of a public pool a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import AnyArray, Integers
from dptransfer.compute.similarity import GRID_DTYPE, GRID_NORM
from dptransfer.data.sharded_rows import ShardedRows, stored_bytes
from dptransfer.features import FittedFeatures
from dptransfer.features.unit_norm import FittedUnitNorm

GridRows = NDArray[np.integer[Any]]

MAPPED_ELEMENTS = 2**22
"""Of mapped rows at a time: 32 MiB."""


def grid_rows(features: FittedFeatures, rows: AnyArray, precision: str) -> GridRows:
    """Mapped rows on the precision's grid in its smallest type: 2 or 1 bytes a coordinate.

    The map gives eight-byte integers, so it is applied some rows at a time.
    """
    result = np.empty((len(rows), features.dimension), dtype=GRID_DTYPE[precision])
    step = max(1, MAPPED_ELEMENTS // max(1, features.dimension))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        result[part] = features.lattice(rows[part], GRID_NORM[precision])
    return result


@dataclass(frozen=True, eq=False)
class GridPool:
    """A public pool on the grid, of which what is asked for is read and mapped, and nothing is kept.

    Attributes:
        features: the map.
        rows: the pool, which may be in many files.
        precision: the grid.
    """

    features: FittedFeatures
    rows: AnyArray
    precision: str

    @property
    def shape(self) -> tuple[int, int]:
        """Of the mapped rows."""
        return len(self.rows), self.features.dimension

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: slice | Integers) -> GridRows:
        if not self.as_stored:
            return grid_rows(self.features, self.rows[which], self.precision)
        stored: GridRows = cast(Any, self.rows).read(which, as_stored=True)
        return stored

    def require_unchanged(self) -> None:
        """Raise if a file of the pool is another one by now."""
        rows: Any = self.rows
        if isinstance(rows, ShardedRows):
            rows.require_unchanged()

    @property
    def as_stored(self) -> bool:
        """Whether the files hold rows of this grid: whole numbers of one byte, of unit norm at 127.

        They are taken as they are, which keeps their precision, and saves the way there and back. Nobody has
        seen to their norm: whoever scores them does.
        """
        small = self.precision == "int8" and stored_bytes(self.rows)
        return small and self.features == FittedUnitNorm(self.shape[1])
