"""Capped similarities of private rows to public candidates, summed by class, in exact integers.

For every candidate p_j and class c: Σ over the class's rows of clip(one + x·p_j, low, high) − low, with `one`
the squared grid norm. Rows are integers of norm at most 2047 ('float16') or 127 ('int8'), so every dot
product is an integer below 2²² or 2¹⁴, which float32, float16 × float16 → float32 and int8 × int8 → int32
arithmetic all compute exactly in any order of summation. So the result does not depend on the device, on
chunking, row order or threads, and every backend is compared by == with the definition. None of them
forms the public × private matrix.

Where rows have weights, whole numbers up to 2¹⁶, each counts so many times. Sums of 2048 weighted shares stay
below 2⁵⁰ and are taken in float64 or int64; whole scores fit int64 while the weights add up to at most 2⁴⁰.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Integers
from dptransfer.compute import cpu, cuda
from dptransfer.compute.device import use_cuda
from dptransfer.errors import ArgumentError

GRID_NORM = {"float16": 2047, "int8": 127}
"""Largest integer row norm for which products are exact in that precision on every backend."""

GRID_DTYPE: dict[str, type[np.int16] | type[np.int8]] = {"float16": np.int16, "int8": np.int8}
"""Smallest integer type that holds a row of that grid."""

LARGEST_WEIGHT = 2**16
"""Of one row; see above."""


def class_similarity(
    private_rows: Any,
    labels: Any,
    classes: int,
    public_rows: Any,
    low: int,
    high: int,
    *,
    precision: str = "float16",
    device: str = "cpu",
    chunk: int | None = None,
    weights: Integers | None = None,
) -> Integers:
    """(public rows, classes) sums of clip(one + dot, low, high) − low.

    >>> x = np.array([[3, 4], [0, 5]])
    >>> class_similarity(x, np.array([0, 1]), 2, np.array([[5, 0]]), low=0, high=2 * 2047**2) - 2047**2
    array([[15,  0]])

    Args:
        private_rows: integer rows of norm at most `GRID_NORM[precision]`; an array or a torch tensor.
        labels: class of each private row.
        classes: number of declared classes.
        public_rows: integer rows, likewise; a memory-mapped array is read piece by piece.
        low: smallest value of one + dot that counts, an integer.
        high: largest value that counts, an integer above `low`.
        precision: which grid the rows are on; a public choice.
        device: 'cpu' or 'cuda'; rows that are CUDA tensors are worked on where they are.
        chunk: public rows at a time; any value gives the same integers.
        weights: how many times each private row counts, from 0 to `LARGEST_WEIGHT`; once each if not given.
    """
    one = GRID_NORM[_check.one_of("precision", precision, GRID_NORM)] ** 2
    _check.whole("classes", classes)
    if chunk is not None:
        _check.whole("chunk", chunk)
    if not int(low) < int(high):
        raise ArgumentError(f"low must be below high; got {low} and {high}. Swap or move them.")
    _require_shapes(private_rows, labels, public_rows, weights)
    # two modules with the same two functions
    backend: ModuleType = cuda if use_cuda(device, private_rows, public_rows) else cpu
    if low <= 0 and high >= 2 * one:
        linear: Integers = backend.linear(
            private_rows, labels, classes, public_rows, one - int(low), weights=weights
        )
        return linear
    # A product lies in [−one, one], so caps beyond that are moved there; what the move takes off each row's
    # share is the same for every row of a class, and added back.
    inner_low, inner_high = (min(max(int(cap) - one, -one), one) for cap in (low, high))
    scores: Integers = backend.capped(
        private_rows,
        labels,
        classes,
        public_rows,
        inner_low,
        inner_high,
        chunk,
        precision=precision,
        weights=weights,
    )
    share = min(max(inner_low + one, int(low)), int(high)) - int(low)
    if share:
        # Weights make a float64 of the count, exact as they add up to at most 2⁴⁰.
        scores += share * np.bincount(_host(labels), weights, minlength=classes).astype(np.int64)
    return scores


def _require_shapes(private_rows: Any, labels: Any, public_rows: Any, weights: Integers | None) -> None:
    private, public = tuple(private_rows.shape), tuple(public_rows.shape)
    if len(private) != 2 or len(public) != 2 or private[1] != public[1]:
        raise ArgumentError(
            "private_rows and public_rows must be two-dimensional and equally wide; "
            f"got {len(private)} and {len(public)} dimensions, widths {private[-1:]} and {public[-1:]}. "
            "Map both with the same features."
        )
    if len(labels) != private[0]:
        raise ArgumentError("labels must have one entry per private row; it has another number of them.")
    if weights is not None and len(weights) != private[0]:
        raise ArgumentError("weights must have one entry per private row; it has another number of them.")


def _host(labels: Any) -> Integers:
    return np.asarray(labels.cpu() if hasattr(labels, "cpu") else labels, dtype=np.int64)
