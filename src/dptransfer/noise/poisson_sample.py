"""A Poisson sample: every row is taken or left by a coin of its own.

A coin is a uniform number compared with the rate q, a float and so a fraction with a power of two below. The
first 64 bits of the number are a word of the stream; q·2⁶⁴ = n + f with n an integer and 0 ≤ f < 1. A word
smaller than n means heads and a larger one tails, whatever bits follow. A word equal to n leaves a coin of
probability f, tossed with as many further bits as f has. So heads have probability n/2⁶⁴ + f/2⁶⁴ = q exactly.
"""

from __future__ import annotations

import secrets
from fractions import Fraction

import numpy as np

from dptransfer.arrays import Integers
from dptransfer.noise.stream import WordStream

_CHUNK = 2**15  # rows at a time: the passes over them stay in the cache


def exact_poisson_sample(rows: int, rate: float) -> Integers:
    """Increasing positions, each of 0..rows−1 with probability `rate`, which lies in (0, 1].

    >>> poisson_sample(4, 1.0).tolist()
    [0, 1, 2, 3]
    """
    if rate == 1:
        return np.arange(rows, dtype=np.int64)
    scaled = Fraction(rate) * 2**64
    whole = int(scaled)
    rest, stream, taken = scaled - whole, WordStream(), [np.empty(0, dtype=np.int64)]
    for start in range(0, rows, _CHUNK):
        words = stream.words(min(_CHUNK, rows - start))
        heads = words < np.uint64(whole)
        if rest:
            for place in np.flatnonzero(words == np.uint64(whole)):
                heads[place] = secrets.randbelow(rest.denominator) < rest.numerator
        taken.append(start + np.flatnonzero(heads))
    return np.concatenate(taken)
