"""Capped similarities of private rows to public candidates, summed by class, in exact integers.

For every candidate p_j and class c: Σ over the class's rows of clip(one + x·p_j, low, high) − low, with `one`
the squared grid norm. Rows are integers of norm at most 2047 ('float16') or 127 ('int8'), so every dot
product is an integer below 2²², which float32 holds exactly in any order of summation; sums over rows are
carried in float64, exact to 2⁵³. So the result does not depend on chunking, row order or threads. The public
× private matrix is never formed: at most `chunk` × one block of private rows lives at a time (32 MiB by
default).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.errors import ArgumentError

Integers = NDArray[np.int64]

GRID_NORM = {"float16": 2047, "int8": 127}
"""Largest integer row norm for which products are exact in that precision on every backend."""

_BLOCK_ELEMENTS = 2**23  # float32 elements of one product: 32 MiB
_PRIVATE_BLOCK = 2048


def class_similarity(
    private_rows: NDArray[Any],
    labels: Integers,
    classes: int,
    public_rows: NDArray[Any],
    low: int,
    high: int,
    *,
    precision: str = "float16",
    device: str = "cpu",
    chunk: int | None = None,
) -> Integers:
    """(public rows, classes) sums of clip(one + dot, low, high) − low.

    >>> x = np.array([[3, 4], [0, 5]])
    >>> class_similarity(x, np.array([0, 1]), 2, np.array([[5, 0]]), low=0, high=2 * 2047**2) - 2047**2
    array([[15,  0]])

    Args:
        private_rows: integer rows of norm at most `GRID_NORM[precision]`.
        labels: class of each private row.
        classes: number of declared classes.
        public_rows: integer rows, likewise.
        low: smallest value of one + dot that counts, an integer.
        high: largest value that counts, an integer above `low`.
        precision: which grid the rows are on; a public choice.
        device: only 'cpu' so far.
        chunk: public rows per product; any value gives the same integers.
    """
    one = GRID_NORM[_check.one_of("precision", precision, GRID_NORM)] ** 2
    if device != "cpu":
        raise ArgumentError(f"device must be 'cpu'; got {device!r}.")
    if not int(low) < int(high):
        raise ArgumentError(f"low must be below high; got {low} and {high}.")
    if low <= 0 and high >= 2 * one:
        return _linear(private_rows, labels, classes, public_rows, one - int(low))
    return _capped(private_rows, labels, classes, public_rows, int(low) - one, int(high) - one, chunk)


def _linear(
    private_rows: NDArray[Any], labels: Integers, classes: int, public_rows: NDArray[Any], shift: int
) -> Integers:
    """No cap is active, so the sum goes inside the product: one product with the class sums."""
    sums = np.zeros((classes, private_rows.shape[1]))
    for block, owner in _class_blocks(private_rows, labels):
        sums[owner] += block.sum(axis=0, dtype=np.float64)
    counts = np.bincount(labels, minlength=classes).astype(np.int64)
    result = np.empty((len(public_rows), classes), dtype=np.int64)
    for start in range(0, len(public_rows), 8192):
        part = slice(start, start + 8192)
        result[part] = public_rows[part].astype(np.float64) @ sums.T
    return result + counts * shift


def _capped(
    private_rows: NDArray[Any],
    labels: Integers,
    classes: int,
    public_rows: NDArray[Any],
    low: int,
    high: int,
    chunk: int | None,
) -> Integers:
    """Caps are active: products block by block, capped and summed while they are in the cache."""
    result = np.zeros((len(public_rows), classes), dtype=np.int64)
    step = chunk or max(1, _BLOCK_ELEMENTS // _PRIVATE_BLOCK)
    blocks = [(block.astype(np.float32).T, owner) for block, owner in _class_blocks(private_rows, labels)]
    for start in range(0, len(public_rows), step):
        part = slice(start, start + step)
        candidates = public_rows[part].astype(np.float32)
        for block, owner in blocks:
            dots = candidates @ block
            np.clip(dots, low, high, out=dots)
            sums = dots.sum(axis=1, dtype=np.float64)
            result[part, owner] += sums.astype(np.int64) - low * block.shape[1]
    return result


def _class_blocks(rows: NDArray[Any], labels: Integers) -> list[tuple[NDArray[Any], int]]:
    """Rows grouped by class, at most `_PRIVATE_BLOCK` at a time."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    blocks = []
    for start, stop in zip(
        starts, np.append(starts, len(ordered))[1:], strict=True
    ):  # none where there is no row
        for low in range(start, stop, _PRIVATE_BLOCK):
            blocks.append((rows[order[low : min(stop, low + _PRIVATE_BLOCK)]], int(ordered[start])))
    return blocks
