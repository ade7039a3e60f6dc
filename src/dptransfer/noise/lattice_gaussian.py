"""Millions of discrete Gaussian draws a second: P(k) ∝ exp(−k²/2s²) on the integers, cut off at 16 s.

Floats propose; what decides is exact. Write g(k) = exp(−k²/2s²).

**Proposal.** The integers are cut into bins of w = 2^j neighbours, so that s/w lies in [32, 64), or w = 1 for
s < 64; all of this is exact, since w is a power of two. Bin h holds k = hw + l with 0 ≤ l < w, for
h = −H, …, H − 1 with H = ⌈16 s/w⌉ ≤ 1024. A table of 2¹⁶ slots names bin h in W_h ≥ 1 of them. 16 bits of a
uniform word choose a slot and j bits of a second word are l, so every k is proposed with probability exactly
W_h/(2¹⁶ w).

**Acceptance.** Let N be an integer with N·g(k) ≤ W_h for every k of bin h. A proposal is kept with
probability N·g(k)/W_h, and otherwise everything is drawn again. What is kept is k with probability ∝ W_h ·
N·g(k)/W_h ∝ g(k): the law itself, whatever the W are, in the last bin as in the first. They only decide how
often a proposal is thrown away: N·s·√(2π)/(2¹⁶ w) are kept, 0.96 or more.

**Why N·g ≤ W.** The largest g of a bin is at its integer a nearest to zero: a = hw for h ≥ 0, and |a| =
(−h − 1)w + 1 for h < 0. W = ⌊N·ĝ(1 + 2⁻⁴⁰)⌋ + 1, where ĝ is g(a) in floats, and the next paragraph shows
that ĝ is right to a factor 1 ± 2⁻⁴¹. N is the largest integer for which these W fit the slots for certain;
the slots left over go to bin 0.

**Rounding.** A draw |k| < 2⁶³ becomes a float with relative error u = 2⁻⁵³, its square has 3u, −1/2s² has 2u,
the product of the two 6u, to first order. Since |k| ≤ 16.1 s, the exponent is below 130 and off by less than
2⁻⁴³. If `numpy.exp` is right to a thousand units in the last place, which is **assumed**, it adds 2000 u <
2⁻⁴², and N/W two more u. So the float t has relative error below 2⁻⁴¹, and t ≈ 2⁴⁷·N·g(k)/W ≤ 2⁴⁷ is off by
less than 64. It is compared with U, the first 47 bits of a uniform number. Where U and t differ by more than
65 the comparison is certain. Otherwise, once in 10¹² proposals, U gets more bits and is compared with
N·g(k)/W in exact arithmetic (`noise.coin`). Hence the law is exact on the integers −Hw, …, Hw − 1.

**What is cut off.** Let X have the full law. For every t, by Poisson summation for the last step,

    E exp(tX) = exp(t²s²/2) · Σ_k exp(−(k − ts²)²/2s²) / Σ_k exp(−k²/2s²) ≤ exp(t²s²/2),

so P(X ≥ 16 s) ≤ exp(−16²/2) with t = 16/s, and both sides together have at most τ = 2·exp(−128) < 2⁻¹⁸³. What
runs is X given that it is not cut off, at total variation distance P(cut off) ≤ τ from X. For M draws in all,
in however many adaptive steps, the distance is at most Mτ: `lattice_gaussian_distance`, which an event
records and `accounting.compose` turns into δ. It means nothing for ρ, μ or Rényi divergences, which are
infinite between laws on different integers; the ideal steps are converted first.

Besides the exponential it is assumed that the words are uniform (`noise.stream`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.noise.coin import below_exponential
from dptransfer.noise.stream import WordStream

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

_CHUNK = 2**13  # proposals at a time: the passes over them stay in the cache
_SLOT_BITS = 16
_COIN_BITS = 47
_REACH = 16  # in standard deviations
_BINS_PER_SCALE = 64
_MARGIN = 2.0**-40
_UNCERTAIN = 65.0


@dataclass(frozen=True)
class Proposal:
    """Which bin is proposed how often, for one scale.

    Attributes:
        shift: j; a bin holds 2^j integers.
        reach: H; bins are −H..H−1, and arrays by bin begin with bin −H.
        ceiling: N.
        weights: W by bin, summing to 2¹⁶.
        slots: The bin that each slot names.
        thresholds: 2⁴⁷·N/W by bin, as floats.
    """

    shift: int
    reach: int
    ceiling: int
    weights: Integers
    slots: NDArray[np.int16]
    thresholds: Floats


def lattice_gaussian(scale: float, count: int) -> Integers:
    """Independent integers k with |k| ≤ 16·scale and probability ∝ exp(−k²/2·scale²), exactly.

    Args:
        scale: Standard deviation s in grid steps, from 10 to 2⁵⁷; the caller has checked it.
        count: How many.

    >>> draws = lattice_gaussian(1e6, 10_000)
    >>> bool(0.9e6 < draws.std() < 1.1e6)
    True
    """
    table, stream = proposal(scale), WordStream()
    kept, found = np.empty(count, dtype=np.int64), 0
    while found < count:
        # Some are thrown away; asking for a few more than are missing mostly saves a second round.
        size = min(_CHUNK, count - found + (count - found) // 20 + 8)
        words = stream.words(2 * size)
        draws, keep = judged(words[:size], words[size:], scale, table)
        draws = draws[keep][: count - found]
        kept[found : found + len(draws)] = draws
        found += len(draws)
    return kept


def lattice_gaussian_distance(coordinates: int) -> float:
    """Total variation distance of `coordinates` draws, in all steps together, from those of the full law.

    >>> lattice_gaussian_distance(10**9) < 1e-45
    True
    """
    return _check.whole("coordinates", coordinates) * 2.0**-183


@lru_cache(maxsize=32)
def proposal(scale: float) -> Proposal:
    """The table for one scale: a hundred microseconds and 200 KiB."""
    shift = max(0, math.frexp(scale / _BINS_PER_SCALE)[1])
    width = 2**shift
    reach = math.ceil(_REACH * (scale / width))
    bins = np.arange(-reach, reach)
    nearest = np.where(bins >= 0, bins * width, (-bins - 1) * width + 1)
    bounds = _exponentials(nearest, scale) * (1 + _MARGIN)
    ceiling = int((2**_SLOT_BITS - len(bins)) / bounds.sum())
    weights = (ceiling * bounds).astype(np.int64) + 1
    weights[reach] += 2**_SLOT_BITS - weights.sum()
    slots = np.repeat(bins, weights).astype(np.int16)
    thresholds = 2.0**_COIN_BITS * ceiling / weights
    for array in (weights, slots, thresholds):  # they are shared by all later calls
        array.flags.writeable = False
    return Proposal(shift, reach, ceiling, weights, slots, thresholds)


def judged(first: Words, second: Words, scale: float, table: Proposal) -> tuple[Integers, NDArray[np.bool_]]:
    """What each pair of uniform words proposes, and whether it is kept.

    The first word holds slot (16 bits), one unused bit and U (47 bits), the second the place in the bin.
    """
    slot = (first >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
    bins = table.slots[slot].astype(np.int64)
    draws = (second & np.uint64(2**table.shift - 1)).view(np.int64)
    draws += bins << table.shift
    bins += table.reach
    threshold = _exponentials(draws, scale)
    threshold *= table.thresholds[bins]
    uniform = (first & np.uint64(2**_COIN_BITS - 1)).view(np.int64)
    above = uniform - threshold
    keep = above < 0
    distance = np.abs(above, out=above)
    if distance.min() <= _UNCERTAIN:
        for place in np.flatnonzero(distance <= _UNCERTAIN):
            keep[place] = _settled(int(draws[place]), int(uniform[place]), scale, table, int(bins[place]))
    return draws, keep


def _exponentials(draws: Integers, scale: float) -> Floats:
    """exp(−k²/2·scale²) in floats; the module's proof bounds their error."""
    exponents = draws.astype(np.float64)
    exponents *= exponents
    exponents *= -0.5 / (scale * scale)
    return np.exp(exponents, out=exponents)


def _settled(draw: int, uniform: int, scale: float, table: Proposal, place: int) -> bool:
    """Whether a uniform number that begins with these 47 bits keeps the draw, in exact arithmetic."""
    factor = Fraction(table.ceiling, int(table.weights[place]))
    return below_exponential(uniform, _COIN_BITS, draw**2, 2 * Fraction(scale) ** 2, factor)
