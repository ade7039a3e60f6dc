"""Round rows of floats to integer rows of bounded norm.

Floats as small as 1e-310, or products with 2⁻¹⁰²⁴, are **subnormal**, and a processor may be told to take
them for zeros: a flag of each thread, set by other libraries too (`torch.set_flush_denormal`). A row must not
come out differently on another thread, so nothing here rests on that flag:

- sizes are compared, NaNs and infinities found, and exponents read in the bits, as integers;
- a row is multiplied once, by a power of two that is a normal number, made of its bits;
- entries that the flag could turn into zeros are then so far (2⁸⁰) below the row's largest that they end as
  zeros on every lattice, and count as zeros in the norm. (Their roots are 2⁴⁰ below, which is enough for
  lattices of norm up to 2⁴⁰: rooted rows have at most 2³⁰.) In a row that is all so small that they would
  not be, subnormal entries are converted from their integer mantissas.

Floating-point sums do not have the sensitivity that real numbers have, and their low bits depend on the
order of summation. So every private row becomes a row of integers first, by a function of that row alone:

1. a row with a NaN or an infinity becomes a row of zeros (raising would tell that it is there);
2. the row is scaled by a power of two (`scaled_rows`), so that neither 1e308 nor 1e-308 over- or
   underflows, and its largest entry has so few bits (19 to 26) before the point that
3. its norm is bounded from above in integers: coordinates, less a grain (2⁻¹⁰), are rounded away from zero,
   so that what is next to nothing counts as nothing; the sum of their squares is exact in float64; to its
   root the norm of two grains per coordinate is added, and the whole is taken a hair (2⁻⁴⁰) large;
4. it is multiplied by `norm` ÷ that bound and rounded toward zero, which can only shrink it.

Each step is either elementwise, and so correctly rounded whatever the batch, or an exact integer sum, and
so the same in any order. The bound ‖q‖ ≤ `norm` therefore holds in exact arithmetic: with b ≥ ‖x‖(1 + 2⁻⁴¹)
the float product x·(norm/b) is off by at most a factor 1 + 2⁻⁵⁰, in any rounding mode, and |trunc(v)| ≤ |v|.
That the integers are the same on every thread, too, rests on no flag for subnormal numbers, and on equal
rounding modes, which `exact.chunks.plain_floats` sees to.

On a torch device the steps are the same ones, each elementwise and correctly rounded (IEEE 754 in float64, on
NVIDIA GPUs too: product, quotient, root, rounding) or an exact sum of integers, and what is subnormal, too
large or not finite is told by bits, as here. So the integers are the same, bit for bit.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Integers, Tensor
from dptransfer.errors import ArgumentError
from dptransfer.exact.chunks import mapped_rows
from dptransfer.exact.cuda import square_root

MARGIN = 80
"""Rows with no entry of this power of two times the smallest normal number are lifted first."""

LIFT = 600
"""By this power of two, which brings subnormal numbers to where all is normal, and nothing too far."""


def scaled_rows(rows: AnyArray, bits: int, *, root: bool = False) -> tuple[Floats, Integers]:
    """Rows whose largest entry lies in [2**(bits − 1), 2**bits), and the powers of two that brought it there.

    A row that is zero, or holds a NaN or an infinity, becomes zeros. With `root`, signed square roots are
    taken after the scaling, which is by a larger, even power.

    >>> scaled_rows(np.array([[3.0, -4.0], [np.nan, 1.0]]), bits=10)
    (array([[ 384., -512.],
           [   0.,    0.]]), array([7, 0]))
    """
    rows = _in_known_bits(rows)
    kind = np.finfo(rows.dtype)
    sizes = _largest_sizes(rows)
    sizes[sizes >= (kind.maxexp - kind.minexp + 1) << kind.nmant] = 0
    # The largest entry is below 2**exponent, and at least half of that.
    exponent = np.maximum(sizes >> kind.nmant, MARGIN) + kind.minexp
    power = 2 * (bits - (exponent + 1) // 2) if root else bits - exponent
    power[sizes == 0] = 0
    x = np.multiply(rows, powers_of_two(power)[:, None], dtype=np.float64)
    x[sizes == 0] = 0.0
    if root:
        roots = np.abs(x)
        np.copysign(np.sqrt(roots, out=roots), x, out=x)
    small = (sizes > 0) & (sizes < MARGIN << kind.nmant)
    if small.any():
        x[small], lifted = scaled_rows(_lifted(rows[small]), bits, root=root)
        power[small] = lifted + LIFT
    return x, power


def powers_of_two(exponents: Integers) -> Floats:
    """2**exponent, for exponents from −1022 to 1023.

    >>> powers_of_two(np.array([-1022, 0, 3]))[1:]
    array([1., 8.])
    """
    return ((exponents + 1023) << 52).view(np.float64)


def _in_known_bits(rows: AnyArray) -> AnyArray:
    """Rows as float32 or float64 in this machine's byte order, without a float operation where they are."""
    if rows.dtype.kind == "f" and rows.dtype.itemsize in (4, 8):
        return np.asarray(rows, dtype=rows.dtype.newbyteorder("="))
    return rows.astype(np.float64)  # no half is subnormal there, and no flag touches that conversion


def _largest_sizes(rows: AnyArray) -> Integers:
    """The bits of each row's largest absolute value, as an integer: bits are ordered as sizes are."""
    # With the sign in front, the largest signed integer is the largest positive float, if there is one, and
    # the largest unsigned integer the largest negative float, if there is one.
    positive, negative = (rows.view(f"{kind}{rows.itemsize}").max(axis=1) for kind in "iu")
    magnitude = (negative & np.iinfo(positive.dtype).max).astype(np.int64)
    largest: Integers = np.maximum(positive, magnitude)
    return largest


def _lifted(rows: AnyArray) -> Floats:
    """Small rows times 2**LIFT, exactly."""
    kind = np.finfo(rows.dtype)
    whole = rows.view(f"i{rows.itemsize}")
    sizes = whole & np.iinfo(whole.dtype).max
    # The bits of a subnormal number are its mantissa; it is that times a constant.
    subnormal = np.copysign(sizes * 2.0 ** (kind.minexp - kind.nmant + LIFT), whole)
    normal = np.multiply(rows, 2.0**LIFT, dtype=np.float64)
    return np.where(sizes < 1 << kind.nmant, subnormal, normal)


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
    return _lattice(rows, norm, clip=checks.positive("clip", clip))


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
        rule = f"Rows may have at most {LARGEST_DIMENSION} dimensions for exact norms; got {dimension}."
        raise ArgumentError(f"{rule} Encode to fewer dimensions first.")


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


def unit_lattice_on_device(rows: Tensor, norm: int, *, root: bool = False) -> Tensor:
    """`unit_lattice` in torch; integers as float64, which holds them exactly."""
    require_exact_norms(rows.shape[1])
    x = scaled_rows_on_device(rows, coordinate_bits(rows.shape[1]), root=root)
    units = (x.abs() - GRAIN).ceil()
    above: Tensor = (square_root((units * units).sum(dim=1)) + grains(rows.shape[1])) * HAIR
    return (x * (float(norm) / above)[:, None]).trunc()


def scaled_rows_on_device(rows: Tensor, bits: int, *, root: bool = False) -> Tensor:
    """`scaled_rows` in torch, without the powers."""
    rows = rows if rows.dtype in (torch.float32, torch.float64) else rows.double()
    kind = np.finfo(np.float32 if rows.dtype == torch.float32 else np.float64)
    whole = rows.view(torch.int32 if kind.bits == 32 else torch.int64)
    sizes = (whole & torch.iinfo(whole.dtype).max).amax(dim=1).long()
    sizes = torch.where(sizes < (kind.maxexp - kind.minexp + 1) << kind.nmant, sizes, 0)
    exponent = (sizes >> kind.nmant).clamp(min=MARGIN) + kind.minexp
    power = 2 * (bits - (exponent + 1) // 2) if root else bits - exponent
    x = rows.double() * ((power + 1023) << 52).view(torch.float64)[:, None]
    x = torch.where((sizes > 0)[:, None], x, 0.0)
    x = torch.copysign(square_root(x.abs()), x) if root else x
    small = (sizes > 0) & (sizes < MARGIN << kind.nmant)
    if small.any():
        x[small] = scaled_rows_on_device(_lifted_on_device(rows[small], whole[small], kind), bits, root=root)
    return x


def _lifted_on_device(rows: Tensor, whole: Tensor, kind: np.finfo[Any]) -> Tensor:
    sizes = whole & torch.iinfo(whole.dtype).max
    subnormal = sizes.double() * 2.0 ** (kind.minexp - kind.nmant + LIFT)
    subnormal = torch.where(whole < 0, -subnormal, subnormal)
    return torch.where(sizes < 1 << kind.nmant, subnormal, rows.double() * 2.0**LIFT)
