"""The plain feature map: optional average pooling, then unit norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.features.base import Arrays, readable
from dptransfer.features.chunks import mapped_rows
from dptransfer.features.lattice import require_exact_norms, unit_lattice

FINE_NORM = 2**30  # of the rows whose neighbouring coordinates are pooled


@dataclass(frozen=True)
class UnitNorm:
    """Every row scaled to unit norm; with `pool` > 1, neighbouring coordinates are averaged first.

    >>> UnitNorm(pool=4).output_dimension(1280, None)
    320

    Attributes:
        pool: how many neighbouring coordinates are averaged into one; the last group may be smaller.
    """

    pool: int = 1

    def __post_init__(self) -> None:
        """Check the window."""
        _check.whole("pool", self.pool)

    def output_dimension(self, dimension: int, public: PublicEmbeddings | None) -> int:
        """Width after pooling."""
        return -(-dimension // self.pool)

    def fit(self, dimension: int, public: PublicEmbeddings | None) -> FittedUnitNorm:
        """There is nothing to learn."""
        require_exact_norms(dimension)
        return FittedUnitNorm(dimension, self.pool)


@readable
@dataclass(frozen=True)
class FittedUnitNorm:
    """`UnitNorm` for rows of one width."""

    input_dimension: int
    pool: int = 1
    kind: ClassVar[str] = "unit-norm"

    @property
    def dimension(self) -> int:
        """Width after pooling."""
        return -(-self.input_dimension // self.pool)

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Unit-norm integer rows."""
        if self.pool == 1:
            return unit_lattice(rows, norm)
        # Pooled sums in exact integers: a float average could round differently in another batch. The
        # division is left out, since the row is scaled to unit norm afterwards.
        starts = np.arange(0, self.input_dimension, self.pool)

        def pooled(part: AnyArray) -> Integers:
            return unit_lattice(np.add.reduceat(unit_lattice(part, FINE_NORM), starts, axis=1), norm)

        return mapped_rows(pooled, rows, self.dimension)

    def arrays(self) -> Arrays:
        """It has none."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Width and window."""
        return {"input_dimension": self.input_dimension, "pool": self.pool}

    @classmethod
    def read(cls, arrays: Mapping[str, AnyArray], settings: Mapping[str, Any]) -> FittedUnitNorm:
        """Restore from a release."""
        return cls(settings["input_dimension"], settings["pool"])
