"""The logarithm of the mean of two softmaxes, for every row by itself, to the last bit.

Exponentials and logarithms are looked up in tables, and what lies between two entries is a polynomial: sums
and products of single numbers, which are rounded the same way wherever a row stands. A softmax's sum over
classes is one of integers below 2⁵³, so that its order does not matter. The result is off by some 2⁻³⁰ for
probabilities above 10⁻⁶; what is below 2⁻³³ is taken for that.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dptransfer.arrays import Floats

_DEPTH = 24  # exp(−24) is below 2⁻³³
_EXP_BITS, _LOG_BITS = 10, 12
_LEAST = 2.0**-34


def log_mean_softmax(first: Floats, second: Floats) -> Floats:
    """log((softmax(−first) + softmax(−second)) ÷ 2), along the first axis.

    Args:
        first: (classes, rows): how far a logit lies below the row's largest.
        second: the same of other logits.

    >>> np.exp(log_mean_softmax(np.zeros((2, 1)), np.array([[0.0], [np.log(3)]]))).round(9).tolist()
    [[0.625], [0.375]]
    """
    mean = (_softmax(first) + _softmax(second)) * 0.5
    return _logarithm(np.maximum(mean, _LEAST))


def _softmax(depth: Floats) -> Floats:
    """Probabilities, from exponentials that are whole numbers and add up to less than 2⁵³."""
    place = np.minimum(depth, _DEPTH) * 2.0**_EXP_BITS
    entry = np.floor(place)
    rest = (place - entry) * 2.0**-_EXP_BITS
    # exp(−rest) up to rest⁴/24, at most 2⁻⁴⁴.
    between = 1.0 - rest * (1.0 - rest * (0.5 - rest * (1 / 6)))
    whole = 2.0 ** (52 - math.ceil(math.log2(max(2, len(depth)))))
    weights = np.rint(_exponentials()[entry.astype(np.int64)] * between * whole)
    chances: Floats = weights / weights.sum(axis=0)
    return chances


def _logarithm(values: Floats) -> Floats:
    mantissa, exponent = np.frexp(values)  # from ½ to 1
    entry = np.floor(mantissa * 2.0**_LOG_BITS)
    near = entry * 2.0**-_LOG_BITS
    rest = (mantissa - near) / near
    # log(1 + rest) up to rest⁴/4, at most 2⁻⁴⁶.
    between = rest * (1.0 - rest * (0.5 - rest * (1 / 3)))
    found: Floats = _logarithms()[entry.astype(np.int64)] + between + exponent * math.log(2)
    return found


@cache
def _exponentials() -> Floats:
    """exp(−t·2⁻¹⁰) by t."""
    table: Floats = np.exp(-np.arange(_DEPTH * 2**_EXP_BITS + 1) * 2.0**-_EXP_BITS)
    return table


@cache
def _logarithms() -> Floats:
    """log(t·2⁻¹²) by t, from ½ on."""
    table = np.zeros(2**_LOG_BITS)
    upper = np.arange(2 ** (_LOG_BITS - 1), 2**_LOG_BITS)
    table[upper] = np.log(upper * 2.0**-_LOG_BITS)
    return table
