"""Two feature maps of the same rows, next to each other: for a head that scores in both.

The second has a sixteenth of the squared norm: a head that learns in the first alone, and only scores in the
second, then pays for 1 ÷ √(15/16), which is 3 % more noise, and the second is a fourth as fine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.features.base import Arrays, FittedFeatures, describe, read_features, readable

_PARTS = ("first", "second")
_SIXTEENTHS = 15, 1  # of the squared norm
STRETCHES = tuple(math.sqrt(16 / share) for share in _SIXTEENTHS)
"""How much longer rows of either map are alone."""


@readable
@dataclass(frozen=True, eq=False)
class FittedSideBySide:
    """What two maps give, with 15/16 and 1/16 of the squared norm: so the row as a whole is within the norm.

    A head for one part that is to score these rows multiplies its weights by that part's `STRETCHES`.

    >>> from dptransfer.features import UnitNorm
    >>> FittedSideBySide(UnitNorm().fit(2, None), UnitNorm(pool=2).fit(2, None)).lattice(np.eye(2), norm=1000)
    array([[967,   0, 249],
           [  0, 967, 249]])

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
        """Integer rows of both; the squares of norms of at most √(norm²·share) add up to at most norm²."""
        first, second = norms_of_parts(norm)
        return np.hstack([self.first.lattice(rows, first), self.second.lattice(rows, second)])

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


def norms_of_parts(norm: int) -> tuple[int, int]:
    """The norms of the two maps' integers, for rows of at most this norm.

    >>> norms_of_parts(1000)
    (968, 250)
    """
    first, second = (math.isqrt(norm * norm * share // 16) for share in _SIXTEENTHS)
    return first, second
