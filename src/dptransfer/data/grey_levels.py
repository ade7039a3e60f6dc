"""Greys of more than eight bits as bytes: which stored value is black, which is white, and who says so.

A picture of bytes needs no such thing. Of others the file may say it (DICOM's window, TIFF's range), or the
owner declares it for the whole data set. Nothing is ever stretched to what a picture happens to hold: its
brightness would be lost, and a picture of noise would look like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from dptransfer.base.types import AnyArray, Floats, PixelArray
from dptransfer.errors import ArgumentError, DataError

GreyRange: TypeAlias = tuple[float, float]
"""The stored values that are black and white."""
Shade: TypeAlias = Callable[[Floats], Floats]
"""From stored values to brightness, 0 for black and 255 for white; what is beyond is cut off."""

DECLARE = (
    "Give black and white for the whole set (--grey-range LOW,HIGH, or grey_range=(low, high)), or save "
    "pictures of eight bits."
)
_DARK = 256 // 4
_MOSTLY_WHITE, _SOME = 3 / 4, 1 / 100
_AT_A_TIME = 2**20  # values


def declared_range(given: Iterable[float | str] | None) -> GreyRange | None:
    """The declared range as two finite floats, the lower first; None stays None.

    >>> declared_range((0, 4095))
    (0.0, 4095.0)
    """
    if given is None:
        return None
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(high - low) and low < high):
        raise ArgumentError(f"A grey range is two numbers, such as (0, 4095), the lower first; got {given}.")
    return low, high


def between(low: float, high: float, *, inverted: bool = False) -> Shade:
    """Evenly from black at `low` to white at `high`; `inverted`: from white to black.

    The product comes first, so that whole numbers which meet a level meet it exactly.
    """

    def shade(values: Floats) -> Floats:
        return 255 * ((high - values) if inverted else (values - low)) / (high - low)

    return shade


def as_bytes(samples: AnyArray, shade: Shade) -> PixelArray:
    """Each value's brightness as a byte, rounded down; what is no number is black.

    Of sixteen bits and fewer there is a table of all values; others go a part at a time: a large picture as
    doubles would take more memory than the machine may have.
    """
    if samples.dtype.kind in "iu" and samples.dtype.itemsize <= 2:
        samples = samples.astype(samples.dtype.newbyteorder("="), copy=False)
        unsigned = np.dtype(f"u{samples.dtype.itemsize}")
        every = np.arange(256**unsigned.itemsize, dtype=np.int64).astype(unsigned).view(samples.dtype)
        table = as_bytes(every.astype(np.float64), shade)
        found: PixelArray = table[samples.view(unsigned)]
        return found
    made = np.empty(samples.shape, dtype=np.uint8)
    step = max(1, _AT_A_TIME * len(samples) // max(1, samples.size))
    with np.errstate(all="ignore"):
        for start in range(0, len(samples), step):
            levels = np.clip(shade(samples[start : start + step].astype(np.float64)), 0, 255)
            made[start : start + step] = np.nan_to_num(levels, nan=0.0)
    return made


def require_not_dark(levels: AnyArray) -> None:
    """Raise for sixteen bits that leave the upper three quarters of them to nobody, and do not say why.

    Scanners store 10, 12 or 14 bits in 16, which is black, or nearly, to whoever takes 65535 for white. A
    picture without a value above 2¹⁴ is one of these or too dark to be of use.
    """
    if not levels.size or levels.max() < _DARK:
        rule = "This 16-bit file uses only part of its range (10, 12 or 14 bits?), without saying which."
        raise DataError(f"{rule} {DECLARE}")


def require_in_range(values: AnyArray, declared: GreyRange) -> None:
    """Raise for a picture that a declared range would make white: its values have more bits than that.

    Under a range of whole bits, from 0 to 2^b − 1, hardly any value may lie above: such files cannot store
    one. Under a window, of the values that are not black most must not. Bone, metal and text above a window,
    and any amount of air below it, are as the owner wants them.
    """
    low, high = declared
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    above = int((values > high).sum())
    if above <= _SOME * values.size:
        return
    whole_bits = low == 0 and high >= 255 and math.log2(high + 1).is_integer()
    if whole_bits or above > _MOSTLY_WHITE * int((values > low).sum()):
        rule = f"Many values lie above the declared grey range, {low:g} to {high:g}, and would all be white."
        raise DataError(f"{rule} Give the range of the values, such as --grey-range 0,65535 for 16 bits.")
