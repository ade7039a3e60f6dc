"""Two feature maps of the same rows, next to each other: for a head that scores in both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.features.base import Arrays, FittedFeatures, describe, read_features, readable

_PARTS = ("first", "second")


@readable
@dataclass(frozen=True, eq=False)
class FittedSideBySide:
    """What two maps give, each with half of the squared norm: so the row as a whole is within the norm.

    A head for one part that is to score these rows multiplies its weights of them by `STRETCH`, and those of
    their squares by 2.

    >>> from dptransfer.features import UnitNorm
    >>> FittedSideBySide(UnitNorm().fit(2, None), UnitNorm(pool=2).fit(2, None)).lattice(np.eye(2), norm=1000)
    array([[706,   0, 706],
           [  0, 706, 706]])

    Attributes:
        first: a map.
        second: another of rows of the same width.
    """

    first: FittedFeatures
    second: FittedFeatures
    kind: ClassVar[str] = "side-by-side"

    @property
    def input_dimension(self) -> int:
        """Width of the rows that both take."""
        return self.first.input_dimension

    @property
    def dimension(self) -> int:
        """Of both together."""
        return self.first.dimension + self.second.dimension

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Integer rows of both; the squares of two norms of at most √(norm²/2) add up to at most norm²."""
        each = math.isqrt(norm * norm // 2)
        return np.hstack([part.lattice(rows, each) for part in (self.first, self.second)])

    def arrays(self) -> Arrays:
        """Those of both."""
        return {
            f"{name}.{key}": array for name in _PARTS for key, array in getattr(self, name).arrays().items()
        }

    def settings(self) -> dict[str, Any]:
        """Those of both."""
        return {name: describe(getattr(self, name)) for name in _PARTS}

    @classmethod
    def read(cls, arrays: Mapping[str, AnyArray], settings: Mapping[str, Any]) -> FittedSideBySide:
        """Restore from a release; a map of the kind may not hold another of it."""
        parts = []
        for name in _PARTS:
            mark = f"{name}."
            own = {key.removeprefix(mark): array for key, array in arrays.items() if key.startswith(mark)}
            if settings[name].get("kind") == cls.kind:
                raise ValueError("maps lie side by side in pairs")
            parts.append(read_features(own, settings[name]))
        if parts[0].input_dimension != parts[1].input_dimension:
            raise ValueError("maps side by side take the same rows")
        return cls(*parts)


STRETCH = math.sqrt(2)
"""How much longer rows of one map are alone."""
