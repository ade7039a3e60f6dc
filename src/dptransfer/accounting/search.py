"""Bisection that only returns a number it has tried.

A root finder may stop on the wrong side of the root; these two stop on the side that was seen to fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def smallest(
    fits: Callable[[float], bool], low: float, high: float, *, tolerance: float = 1e-12
) -> float | None:
    """Smallest number of [low, high], to relative `tolerance`, that is known to fit; None if `high` does not.

    `fits` must be monotone: once true, true for every larger number. Both ends are positive.

    >>> round(smallest(lambda x: x * x >= 2, 1e-3, 1e9), 5)
    1.41421
    """
    if fits(low):
        return low
    if not fits(high):
        return None
    while high > low * (1 + tolerance):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def largest(
    fits: Callable[[float], bool], low: float, high: float, *, tolerance: float = 1e-12
) -> float | None:
    """Largest number of [low, high], to relative `tolerance`, that is known to fit; None if `low` does not.

    `fits` must be monotone the other way: once true, true for every smaller number.

    >>> round(largest(lambda x: x * x <= 2, 1e-3, 1e9), 5)
    1.41421
    """
    if fits(high):
        return high
    if not fits(low):
        return None
    while high > low * (1 + tolerance):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
