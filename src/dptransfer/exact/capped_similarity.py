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

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import Integers
from dptransfer.errors import ArgumentError
from dptransfer.exact import similarity_cpu as cpu
from dptransfer.exact import similarity_cuda as cuda
from dptransfer.exact.cuda import on_host, to_device

GRID_NORM = {"float16": 2047, "int8": 127}
"""Largest integer row norm for which products are exact in that precision on every backend."""

GRID_DTYPE: dict[str, type[np.int16] | type[np.int8]] = {"float16": np.int16, "int8": np.int8}
"""Smallest integer type that holds a row of that grid."""

LARGEST_WEIGHT = 2**16
"""Of one row; see above."""

_preparing = threading.Lock()


@dataclass(frozen=True, eq=False)
class ClassSimilarity:
    """(public rows, classes) sums of clip(one + dot, low, high) − low; private rows are prepared once.

    It can be sent to another process, which prepares the rows again.

    >>> x = np.array([[3, 4], [0, 5]])
    >>> similarity = ClassSimilarity(x, np.array([0, 1]), 2, low=0, high=2 * 2047**2)
    >>> similarity(np.array([[5, 0]])) - 2047**2
    array([[15,  0]])

    Attributes:
        private_rows: integer rows of norm at most `GRID_NORM[precision]`; an array or a torch tensor.
        labels: class of each private row.
        classes: number of declared classes.
        low: smallest value of one + dot that counts, an integer.
        high: largest value that counts, an integer above `low`.
        precision: which grid the rows are on; a public choice.
        device: 'cpu' or 'cuda'.
        weights: how many times each private row counts, from 0 to `LARGEST_WEIGHT`; once each if not given.
        any_length: whether public rows, then bytes, may be longer than the norm. Caps bound what such a row
            gets from each private row, and its products, below 127·128·√d < 2²⁴, are exact all the same;
            where there are no caps it counts as a row of zeros.
    """

    private_rows: Any
    labels: Any
    classes: int
    low: int
    high: int
    precision: str = "float16"
    device: str = "cpu"
    weights: Integers | None = None
    any_length: bool = False

    def __post_init__(self) -> None:
        """Check what does not depend on public rows."""
        checks.one_of("precision", self.precision, GRID_NORM)
        checks.whole("classes", self.classes)
        if not int(self.low) < int(self.high):
            raise ArgumentError(f"low must be below high; got {self.low} and {self.high}. Swap or move them.")

    def __call__(self, public_rows: Any) -> Integers:
        """The sums for public rows; a memory-mapped array is read piece by piece."""
        sums, share = self._ready_for(public_rows)
        scores: Integers = sums(public_rows)
        if share is not None:
            scores += share
        return scores

    def there(self, public_rows: Any) -> Any:
        """The same, of few enough public rows for one slab; a device's stay on it."""
        if self.device == "cpu":
            return self(public_rows)
        sums, share = self._ready_for(public_rows)
        scores = sums.there(public_rows)
        return scores if share is None else scores + to_device(share)

    def _ready_for(self, public_rows: Any) -> tuple[Any, Integers | None]:
        _require_shapes(self.private_rows, self.labels, public_rows, self.weights)
        with _preparing:  # once, though threads may ask side by side
            return self._prepared

    def only(self, wanted: Sequence[int]) -> ClassSimilarity:
        """The same for the rows of some classes, in this order."""
        labels = on_host(self.labels)
        places = np.full(self.classes, -1)
        places[list(wanted)] = np.arange(len(wanted))
        own = np.flatnonzero(places[labels] >= 0)
        weights = None if self.weights is None else self.weights[own]
        rows, numbers = self.private_rows[own], places[labels[own]]
        return replace(self, private_rows=rows, labels=numbers, classes=len(wanted), weights=weights)

    @cached_property
    def _prepared(self) -> tuple[Any, Integers | None]:
        norm, low, high = GRID_NORM[self.precision], int(self.low), int(self.high)
        one = norm**2
        private = cpu.ClassRows(self.private_rows, self.labels, self.classes, self.weights)
        # two modules with the same two classes
        backend: ModuleType = cuda if self.device == "cuda" else cpu
        if low <= 0 and high >= 2 * one:
            return backend.Linear(private, one - low, norm=norm, any_length=self.any_length), None
        # A product lies in [−one, one], so caps beyond that are moved there; what the move takes off each
        # row's share is the same for every row of a class, and added back.
        inner = tuple(min(max(cap - one, -one), one) for cap in (low, high))
        sums = backend.Capped(private, *inner, precision=self.precision)
        share = min(max(inner[0] + one, low), high) - low
        if not share:
            return sums, None
        # Weights make a float64 of the count, exact as they add up to at most 2⁴⁰.
        counts = np.bincount(on_host(self.labels), self.weights, minlength=self.classes)
        return sums, share * counts.astype(np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """Without what was prepared: another process has its own device."""
        return {name: value for name, value in self.__dict__.items() if name != "_prepared"}


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
