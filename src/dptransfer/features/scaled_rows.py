"""Rows of any real type as float64, each times a power of two that its bits decide.

Floats as small as 1e-310, or products with 2⁻¹⁰²⁴, are **subnormal**, and a processor may be told to take
them for zeros: a flag of each thread, set by other libraries too (`torch.set_flush_denormal`). A row must not
come out differently on another thread, so nothing here rests on that flag:

- sizes are compared, NaNs and infinities found, and exponents read in the bits, as integers;
- a row is multiplied once, by a power of two that is a normal number, made of its bits;
- entries that the flag could turn into zeros are then so far (2⁸⁰) below the row's largest that they end as
  zeros on every lattice, and count as zeros in the norm. (Their roots are 2⁴⁰ below, which is enough for
  lattices of norm up to 2⁴⁰: rooted rows have at most 2³⁰.) In a row that is all so small that they would
  not be, subnormal entries are converted from their integer mantissas.
"""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers

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
