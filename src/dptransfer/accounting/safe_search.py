"""Bisection that only returns a number it has tried.

A root finder may stop on the wrong side of the root; these stop on the side that was seen to fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

Test: TypeAlias = Callable[[float], bool]
"""Whether a number is on the safe side."""


def smallest(fits: Test, low: float, high: float, *, tolerance: float = 1e-12) -> float | None:
    """Smallest number of [low, high], to relative `tolerance`, that is known to fit; None if `high` does not.

    `fits` must be monotone: once true, true for every larger number. Both ends are positive.

    >>> round(smallest(lambda x: x * x >= 2, 1e-3, 1e9), 5)
    1.41421
    """
    if fits(low):
        return low
    return _last_that_fits(fits, high, low, tolerance) if fits(high) else None


def largest(fits: Test, low: float, high: float, *, tolerance: float = 1e-12) -> float | None:
    """Largest number of [low, high], to relative `tolerance`, that is known to fit; None if `low` does not.

    `fits` must be monotone the other way: once true, true for every smaller number.

    >>> round(largest(lambda x: x * x <= 2, 1e-3, 1e9), 5)
    1.41421
    """
    if fits(high):
        return high
    return _last_that_fits(fits, low, high, tolerance) if fits(low) else None


def _last_that_fits(fits: Callable[[float], bool], good: float, bad: float, tolerance: float) -> float:
    """The number nearest to `bad` that was seen to fit, when the two are closer than the tolerance."""
    while max(good, bad) > min(good, bad) * (1 + tolerance):
        middle = math.sqrt(good) * math.sqrt(bad)
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def smallest_root(
    excess: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float | None:
    """Like `smallest`, where x fits if `excess(x)` ≤ 0, for an `excess` that is smooth and dear to compute.

    A chord on logarithmic axes guesses the root; a hair to either side of the guess is tried, and a bisection
    follows whenever that did not halve the interval.

    >>> round(smallest_root(lambda x: 2 - x * x, 1e-3, 1e9, tolerance=1e-6), 5)
    1.41421
    """
    at_low, at_high = excess(low), excess(high)
    if at_low <= 0:
        return low
    if at_high > 0:
        return None

    def narrowed(x: float) -> None:
        nonlocal low, high, at_low, at_high
        value = excess(x)
        if value <= 0:
            high, at_high = x, value
        else:
            low, at_low = x, value

    while high > low * (1 + tolerance):
        width = math.log(high / low)
        guess = low * math.exp(width * at_low / (at_low - at_high))
        for x in (guess * (1 + tolerance / 3), guess * (1 - tolerance / 3)):
            if low < x < high:
                narrowed(x)
        if math.log(high / low) > width / 2 and high > low * (1 + tolerance):
            narrowed(math.sqrt(low) * math.sqrt(high))
    return high


def largest_whole(fits: Callable[[int], bool], at_most: int) -> int | None:
    """Largest whole number of [1, at_most] that is known to fit; None if 1 does not.

    `fits` must be monotone: once true, true for every smaller number.

    >>> largest_whole(lambda n: n * n <= 50, 1000)
    7
    """
    if not fits(1):
        return None
    low, high = 1, 2
    while high <= at_most and fits(high):
        low, high = high, 2 * high
    high = min(high, at_most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
