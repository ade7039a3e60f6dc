"""Rows of floats to rows of integers whose norm is bounded exactly.

Floating-point sums do not have the sensitivity that real numbers have, and their low bits depend on the
order of summation. So every private row becomes a row of integers first, by a function of that row alone:

1. a row with a NaN or an infinity becomes a row of zeros (raising would tell that it is there);
2. the row is scaled by a power of two (`features.scaled_rows`), so that neither 1e308 nor 1e-308 over- or
   underflows, and its largest entry has so few bits (19 to 26) before the point that
3. its norm is bounded from above in integers: coordinates, less a grain (2⁻¹⁰), are rounded away from zero,
   so that what is next to nothing counts as nothing; the sum of their squares is exact in float64; to its
   root the norm of two grains per coordinate is added, and the whole is taken a hair (2⁻⁴⁰) large;
4. it is multiplied by `norm` ÷ that bound and rounded toward zero, which can only shrink it.

Each step is either elementwise, and so correctly rounded whatever the batch, or an exact integer sum, and
so the same in any order. The bound ‖q‖ ≤ `norm` therefore holds in exact arithmetic: with b ≥ ‖x‖(1 + 2⁻⁴¹)
the float product x·(norm/b) is off by at most a factor 1 + 2⁻⁵⁰, in any rounding mode, and |trunc(v)| ≤ |v|.
That the integers are the same on every thread, too, rests on no flag for subnormal numbers, and on equal
rounding modes, which `compute.plain_floats` sees to.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.errors import ArgumentError
from dptransfer.features.chunks import mapped_rows
from dptransfer.features.scaled_rows import scaled_rows

SUM_BITS = 30
"""Sums live on a grid of 2⁻³⁰: rows have integer norm at most 2³⁰, so int64 holds sums of 2³³ rows."""

LARGEST_DIMENSION = 2**14
"""Of rows; leaves 19 bits for each coordinate."""

HAIR = 1 + 2.0**-40
GRAIN = 2.0**-10


def unit_lattice(rows: AnyArray, norm: int, *, root: bool = False) -> Integers:
    """Scale each row to L2 norm `norm`, rounded toward zero to integers; zero rows stay zero.

    With `root`, the row's signed square roots: defined for every row, since a private row may hold anything.

    >>> unit_lattice(np.array([[3.0, 4.0], [np.nan, 1.0]]), norm=1000)
    array([[599, 799],
           [  0,   0]])
    """
    return _lattice(rows, norm, root=root)


def clipped_lattice(rows: AnyArray, norm: int, *, clip: float) -> Integers:
    """Clip each row to L2 norm `clip`, then map that ball onto the integer ball of radius `norm`.

    >>> clipped_lattice(np.array([[3.0, 4.0], [0.3, 0.4]]), norm=1000, clip=1.0)
    array([[599, 799],
           [299, 399]])
    """
    return _lattice(rows, norm, clip=_check.positive("clip", clip))


def rows_and_lengths(rows: AnyArray, norm: int) -> tuple[Floats, Floats]:
    """Integer rows of about this norm, for products, and lengths: a row is its integers · length ÷ `norm`.

    As `unit_lattice`, but rounded to nearest, which keeps products with them unbiased: their norm is at most
    `norm` + ½ √dimension. A length is a function of its row alone, as the integers are; those beyond 2²⁰⁰
    are cut.

    >>> integers, lengths = rows_and_lengths(np.array([[3.0, 4.0], [np.nan, 1.0]]), norm=1000)
    >>> integers.tolist(), lengths[:1].round(2).tolist()
    ([[600.0, 800.0], [0.0, 0.0]], [5.0])
    """
    require_exact_norms(rows.shape[1])
    x, power = scaled_rows(rows, coordinate_bits(rows.shape[1]))
    above = _norms_above(x)
    x *= (norm / above)[:, None]
    lengths: Floats = np.ldexp(above, np.clip(-power, -200, 200).astype(np.intc))
    return np.rint(x, out=x), lengths


def require_exact_norms(dimension: int) -> None:
    """Raise if rows are too wide for exact squared norms; asked before anything is charged."""
    if dimension > LARGEST_DIMENSION:
        raise ArgumentError(
            f"Rows may have at most {LARGEST_DIMENSION} dimensions for exact norms; got {dimension}. "
            "Encode to fewer dimensions first."
        )


def _lattice(rows: AnyArray, norm: int, *, root: bool = False, clip: float | None = None) -> Integers:
    require_exact_norms(rows.shape[1])
    return mapped_rows(partial(_lattice_chunk, norm=norm, root=root, clip=clip), rows, rows.shape[1])


def _lattice_chunk(rows: AnyArray, norm: int, root: bool, clip: float | None) -> Floats:
    x, power = scaled_rows(rows, coordinate_bits(rows.shape[1]), root=root)
    above = _norms_above(x)
    if clip is not None:
        # In scaled units the clip is clip·2ᵖ; rows inside it keep their length relative to it.
        above = np.maximum(above, np.ldexp(clip * HAIR, power.astype(np.intc)))
    x *= (norm / above)[:, None]
    return np.trunc(x, out=x)


def _norms_above(x: Floats) -> Floats:
    """An upper bound on the norm of scaled rows; see the module docstring."""
    units = np.abs(x)
    units -= GRAIN
    np.ceil(units, out=units)
    above: Floats = (np.sqrt(np.einsum("ij,ij->i", units, units)) + grains(x.shape[1])) * HAIR
    return above


def grains(dimension: int) -> float:
    """Norm of what rounding without a grain may have left out: one each, and what the subtraction rounded."""
    return 2 * GRAIN * math.sqrt(dimension)


def coordinate_bits(dimension: int) -> int:
    """How many bits b a coordinate may have: the squares of d of them add up to at most d·2²ᵇ ≤ 2⁵².

    >>> coordinate_bits(1280)
    20
    """
    return (52 - math.ceil(math.log2(dimension))) // 2
