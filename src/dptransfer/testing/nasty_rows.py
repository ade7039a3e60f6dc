"""Numbers and rows that try to break things: NaN, infinities, overflow, subnormals, duplicates."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats

LARGEST = float(np.finfo(np.float64).max)
NASTY = [
    float("nan"),
    float("inf"),
    float("-inf"),
    1e308,
    -1e308,
    LARGEST,
    -LARGEST,
    5e-324,
    -1e-310,
    2.0**-1022,
    1e-160,
    0.0,
    -0.0,
    1.0,
    -1.0,
]
"""Entries at the edges of what a float64 can be."""


def random_rows(rng: np.random.Generator, count: int, width: int) -> Floats:
    """Rows of any kind: ordinary, single coordinates, constants, with nasty entries, and some twice."""
    rows = rng.normal(size=(count, width)) * 10.0 ** rng.integers(-3, 4, (count, 1))
    kinds = rng.integers(0, 5, count)
    for place in np.flatnonzero(kinds):
        value = NASTY[rng.integers(len(NASTY))]
        if kinds[place] == 1:
            rows[place] = value
        elif kinds[place] == 2:
            rows[place] = np.where(np.arange(width) == rng.integers(width), value, 0.0)
        elif kinds[place] == 3:
            rows[place, rng.integers(width)] = value
        elif place:
            rows[place] = rows[rng.integers(place)]
    return rows
