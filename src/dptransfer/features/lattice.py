"""Rows of floats to rows of integers whose norm is bounded exactly.

Floating-point sums do not have the sensitivity that real numbers have, and their low bits depend on the
order of summation. So every private row becomes a row of integers first, by a function of that row alone:

1. a row with a NaN or an infinity becomes a row of zeros (raising would tell that it is there);
2. the row is scaled by a power of two, which is exact, so that neither 1e308 nor 1e-308 over- or underflows;
3. its norm is bounded from above in integers: coordinates are rounded away from zero to so few bits (19 to
   26) that the sum of their squares is exact in float64, and the root is taken a hair (2⁻⁴⁰) large;
4. it is multiplied by `norm` ÷ that bound and rounded toward zero, which can only shrink it.

Each step is either elementwise, and so correctly rounded whatever the batch, or an exact integer sum, and
so the same in any order. The bound ‖q‖ ≤ `norm` therefore holds in exact arithmetic: with b ≥ ‖x‖(1 + 2⁻⁴¹)
the float product x·(norm/b) is off by at most a factor 1 + 2⁻⁵¹, and |trunc(v)| ≤ |v|.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.errors import ArgumentError
from dptransfer.features.chunks import over_chunks

IntegerRows = NDArray[np.int64]
FloatRows = NDArray[np.float64]

SUM_BITS = 30
"""Sums live on a grid of 2⁻³⁰: rows have integer norm at most 2³⁰, so int64 holds sums of 2³³ rows."""

_LARGEST_DIMENSION = 2**14  # leaves 19 bits for each coordinate in `_norm_above`
HAIR = 1 + 2.0**-40


def unit_lattice(rows: NDArray[Any], norm: int) -> IntegerRows:
    """Scale each row to L2 norm `norm`, rounded toward zero to integers; zero rows stay zero.

    >>> unit_lattice(np.array([[3.0, 4.0], [np.nan, 1.0]]), norm=1000)
    array([[599, 799],
           [  0,   0]])
    """
    return _lattice(rows, norm, clip=None)


def clipped_lattice(rows: NDArray[Any], norm: int, *, clip: float) -> IntegerRows:
    """Clip each row to L2 norm `clip`, then map that ball onto the integer ball of radius `norm`.

    >>> clipped_lattice(np.array([[3.0, 4.0], [0.3, 0.4]]), norm=1000, clip=1.0)
    array([[599, 799],
           [299, 399]])
    """
    return _lattice(rows, norm, clip=_check.positive("clip", clip))


def require_exact_norms(dimension: int) -> None:
    """Raise if rows are too wide for exact squared norms; asked before anything is charged."""
    if dimension > _LARGEST_DIMENSION:
        raise ArgumentError(
            f"Rows may have at most {_LARGEST_DIMENSION} dimensions for exact norms; got {dimension}. "
            "Encode to fewer dimensions first."
        )


def _lattice(rows: NDArray[Any], norm: int, clip: float | None) -> IntegerRows:
    count, dimension = rows.shape
    require_exact_norms(dimension)
    result = np.zeros((count, dimension), dtype=np.int64)

    def fill(chunk: slice) -> None:
        result[chunk] = _lattice_chunk(rows[chunk], norm, clip)

    for _ in over_chunks(fill, count, dimension):
        pass
    return result


def _lattice_chunk(rows: NDArray[Any], norm: int, clip: float | None) -> FloatRows:
    with np.errstate(invalid="ignore"):  # a signalling NaN would warn here, and so tell that it is there
        x = rows.astype(np.float64)
    peak = np.abs(x).max(axis=1)  # a NaN or an infinity in a row is its peak too
    x[~np.isfinite(peak)] = 0.0
    peak[~np.isfinite(peak)] = 0.0
    # Entries end in [-1, 1], also those of the largest float (exponent 1024; its power of two is subnormal,
    # but exact). Below 2⁻¹⁰²¹ the power would overflow, so subnormal rows stay small, which only shrinks
    # them.
    exponent = np.clip(np.frexp(peak)[1], -1021, 1024)
    x *= np.ldexp(1.0, -exponent)[:, None]
    above = _norm_above(x)
    reach = np.full(len(x), float(norm))
    if clip is not None:
        # In scaled units the clip is clip·2⁻ᵉ; rows inside it keep their length relative to it.
        with np.errstate(over="ignore"):
            above = np.maximum(above, np.ldexp(clip * HAIR, -exponent))
    factor = np.divide(reach, above, out=np.zeros_like(above), where=above > 0)
    x *= factor[:, None]
    return np.trunc(x, out=x)


def _norm_above(x: FloatRows) -> FloatRows:
    """An upper bound on each row's norm, for rows with entries in [-1, 1], from exact integers.

    With d coordinates of b bits each, squares add up to at most d·2²ᵇ ≤ 2⁵², which float64 adds exactly in
    any order.
    """
    bits = (52 - math.ceil(math.log2(x.shape[1]))) // 2
    units = np.abs(x)
    units *= 2.0**bits
    np.ceil(units, out=units)
    squares: FloatRows = np.einsum("ij,ij->i", units, units)
    return np.sqrt(squares) * (HAIR / 2.0**bits)
