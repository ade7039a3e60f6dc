"""Exact choices among millions of integer scores: floats propose, exact arithmetic decides.

With M the largest score let w_j = exp(−(M − score_j)/scale), a real number in (0, 1].

The exponential mechanism's law, P(j) ∝ w_j. For every j an integer W_j ≥ w_j·2^b is computed. A position is
proposed with probability W_j ÷ ΣW, exactly, from a uniform integer below ΣW, and kept with probability
w_j·2^b ÷ W_j; otherwise all is done again. What is kept at position j has probability ∝ W_j · w_j·2^b/W_j ∝
w_j: the law itself, whatever the bounds W are. They only decide how often a proposal is thrown away: as W_j ≤
w_j·2^b·(1 + 2⁻³⁹) + 1, with probability below 2⁻³⁹ + n·2⁻ᵇ.

Permute-and-flip's law, the largest score + Exponential(scale). It is that of walking through a random
permutation and stopping at j with probability w_j (McKenna and Sheldon 2020). Toss all coins first: the walk
then stops at a uniformly random one of those that show heads, since the permutation does not depend on them.
A coin is a uniform number U_j in [0, 1) compared with w_j; its first 16 bits settle it unless they come
within two steps of w_j's, and then more bits are drawn.

Why W bounds w. The difference is an exact integer; as a float, divided by the scale, it is t·(1 + 2⁻⁵²) at
worst. Where t ≤ 64 that moves exp(−t) by a factor within 1 ± 2⁻⁴⁵, and an exponential that is off by up to a
thousand units in the last place by another 1 ± 2⁻⁴²; the factor 1 + 2⁻⁴⁰ on top covers both, and rounding.
Where t > 64, w·2^b < 1 for b ≤ 61, and W = 1 is enough.

The one coin that decides is tossed exactly; see `noise.coin`.
"""

from __future__ import annotations

import os
import secrets
from fractions import Fraction

import numpy as np

from dptransfer.arrays import Floats, Integers
from dptransfer.noise.coin import below_exponential

_CHUNK = 2**15  # scores at a time: the passes over them stay in the cache
_MARGIN = 2.0**-40
_COIN_BITS = 16


def gumbel_argmax(scores: Integers, scale: float) -> int:
    """Position j with probability ∝ exp(scores_j / scale), exactly.

    >>> gumbel_argmax(np.array([0, 10_000, 0]), scale=1.0)
    1
    """
    best = int(scores.max())
    bits = 61 - len(scores).bit_length()  # so that ΣW stays below 2⁶²
    starts = range(0, len(scores), _CHUNK)
    weights = [int(_bounds(scores[start : start + _CHUNK], best, scale, bits).sum()) for start in starts]
    ends = np.cumsum(weights)
    while True:
        drawn = secrets.randbelow(int(ends[-1]))
        chunk = int(np.searchsorted(ends, drawn, side="right"))
        part = _bounds(scores[starts[chunk] : starts[chunk] + _CHUNK], best, scale, bits)
        inside = np.cumsum(part)
        place = int(np.searchsorted(inside, drawn - (int(ends[chunk]) - weights[chunk]), side="right"))
        position = starts[chunk] + place
        if _kept(best - int(scores[position]), scale, Fraction(2**bits, int(part[place]))):
            return position


def exponential_argmax(scores: Integers, scale: float) -> int:
    """Position of the largest scores_j + Exponential(scale), exactly.

    >>> exponential_argmax(np.array([0, 10_000, 0]), scale=1.0)
    1
    """
    best = int(scores.max())
    heads = []
    for start in range(0, len(scores), _CHUNK):
        part = scores[start : start + _CHUNK]
        above = _bounds(part, best, scale, _COIN_BITS)
        coins = np.frombuffer(os.urandom(2 * len(part)), dtype=np.uint16).astype(np.int64)
        # W − 2 < w·2¹⁶ ≤ W, so a coin of at most W − 3 surely shows heads, and one of W or more tails.
        shown = coins <= above - 3
        for place in np.flatnonzero((coins < above) & ~shown):
            shown[place] = _heads(int(coins[place]), best - int(part[place]), scale)
        heads.append(start + np.flatnonzero(shown))
    every = np.concatenate(heads)  # never empty: the coin of the largest score always shows heads
    return int(every[secrets.randbelow(len(every))])


def _bounds(scores: Integers, best: int, scale: float, bits: int) -> Integers:
    """Integers W with w·2^bits ≤ W ≤ w·2^bits·(1 + 2⁻³⁹) + 1."""
    if best - int(scores.max()) > 65 * scale:  # all so far below the best that 1 is enough
        return np.ones(len(scores), dtype=np.int64)
    # Wraps round where a difference exceeds 2⁶³, which reading it without a sign undoes.
    gaps = (np.int64(best) - scores).view(np.uint64).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        gaps /= -scale
        weights: Floats = np.exp(gaps, out=gaps)
        weights *= (1 + _MARGIN) * 2.0**bits
    return weights.astype(np.int64) + 1


def _kept(gap: int, scale: float, factor: Fraction) -> bool:
    """True with probability exp(−gap/scale)·factor, which is at most 1."""
    return below_exponential(secrets.randbits(64), 64, gap, scale, factor)


def _heads(coin: int, gap: int, scale: float) -> bool:
    """Whether a uniform number that begins with these bits is below exp(−gap/scale)."""
    return below_exponential(coin, _COIN_BITS, gap, scale, Fraction(1))
