"""Uniform integers below a bound, by rejection: each has the same probability exactly."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Integers
from dptransfer.noise.stream import WordStream


def uniform_integers(below: int, count: int) -> Integers:
    """`count` independent integers in 0..below−1.

    A 64-bit word is kept if it lies under the largest multiple of `below`, and its remainder is then uniform.
    With `below` at most 2³² a word is thrown away with probability under 2⁻³².

    >>> uniform_integers(1, 3).tolist()
    [0, 0, 0]
    """
    stream, most = WordStream(), 2**64 - 2**64 % below
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < count:
        words = stream.words(count - len(kept))
        if most < 2**64:
            words = words[words < np.uint64(most)]
        kept = np.concatenate([kept, (words % np.uint64(below)).astype(np.int64)])
    return kept
