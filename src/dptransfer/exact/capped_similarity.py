"""Capped similarities of private rows to public candidates, summed by class, in exact integers.

For every candidate p_j and class c: Σ over the class's rows of clip(one + x·p_j, low, high) − low, with `one`
the squared grid norm. Rows are integers of norm at most 2047 ('float16') or 127 ('int8'), so every dot
product is an integer below 2²² or 2¹⁴, which float32, float16 × float16 → float32 and int8 × int8 → int32
arithmetic all compute exactly in any order of summation. So the result does not depend on the device, on
chunking, row order or threads, and every backend is compared by == with the definition. None of them
forms the public × private matrix.

Where rows have weights, whole numbers up to 2¹⁶, each counts so many times. Sums of 2048 weighted shares stay
below 2⁵⁰ and are taken in float64 or int64; whole scores fit int64 while the weights add up to at most 2⁴⁰.

**On the CPU** products are float32 in tiles, capped and summed while they are in the cache.

Why it is exact: rows are integers of norm at most 2047, so every partial sum of a product is an integer of
size at most 2047² < 2²² (Cauchy-Schwarz), which float32 holds exactly in any order, with or without fused
multiply-add. Caps are integers of that size too. Sums over rows are taken in float64, exact to 2⁵³ (of few
rows on the int8 grid in float32), and carried in int64. A tile's sums are below 2³⁴, and with weights of up
to 2¹⁶ below 2⁵⁰.

How it stays fast and small: private rows are taken a panel at a time (32 MiB of float32), sorted by class
inside the panel. Threads share the public rows, a slab each at a time; a tile is private panel rows × slab,
so its size does not depend on how many rows a class has, and a class is summed as a run of whole tile rows.
Where rows have weights, those of one class and one weight are a run; its sum is weighted, and the runs of a
class are put together in the tile, so however many weights there are takes no more memory. BLAS runs one
thread inside each of ours. The public × private matrix never exists.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import NamedTuple, Protocol

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Floats32, Integers
from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import ArgumentError
from dptransfer.exact.chunks import side_by_side
from dptransfer.exact.cuda import Array, on_host, place_beside

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

    private_rows: Array
    labels: Array
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

    def __call__(self, public_rows: Array) -> Integers:
        """The sums for public rows; a memory-mapped array is read piece by piece."""
        sums, share = self._ready_for(public_rows)
        scores = sums(public_rows)
        if share is not None:
            scores += share
        return scores

    def of_slab(self, public_rows: Array) -> Array:
        """The same, of few enough public rows for one slab; a device's stay on it."""
        sums, share = self._ready_for(public_rows)
        scores = sums.of_slab(public_rows)
        return scores if share is None else scores + place_beside(share, scores)

    def _ready_for(self, public_rows: Array) -> tuple[SimilaritySums, Integers | None]:
        self._require_shapes(public_rows)
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
    def _prepared(self) -> tuple[SimilaritySums, Integers | None]:
        norm, low, high = GRID_NORM[self.precision], int(self.low), int(self.high)
        one = norm**2
        private = ClassRows(self.private_rows, self.labels, self.classes, self.weights)
        linear: Callable[..., SimilaritySums] = LinearSums
        capped: Callable[..., SimilaritySums] = CappedSums
        if self.device == "cuda":  # pragma: no cover — GPU
            from dptransfer.exact.similarity_cuda import CudaCappedSums, CudaLinearSums

            linear, capped = CudaLinearSums, CudaCappedSums
        if low <= 0 and high >= 2 * one:
            return linear(private, one - low, norm=norm, any_length=self.any_length), None
        # A product lies in [−one, one], so caps beyond that are moved there; what the move takes off each
        # row's share is the same for every row of a class, and added back.
        inner = tuple(min(max(cap - one, -one), one) for cap in (low, high))
        sums = capped(private, *inner, precision=self.precision)
        share = min(max(inner[0] + one, low), high) - low
        if not share:
            return sums, None
        # Weights make a float64 of the count, exact as they add up to at most 2⁴⁰.
        counts = np.bincount(on_host(self.labels), self.weights, minlength=self.classes)
        return sums, share * counts.astype(np.int64)

    def __getstate__(self) -> dict[str, object]:
        """Without what was prepared: another process has its own device."""
        return {name: value for name, value in self.__dict__.items() if name != "_prepared"}

    def _require_shapes(self, public_rows: Array) -> None:
        private, public = tuple(self.private_rows.shape), tuple(public_rows.shape)
        if len(private) != 2 or len(public) != 2 or private[1] != public[1]:
            raise ArgumentError(
                "private_rows and public_rows must be two-dimensional and equally wide; "
                f"got {len(private)} and {len(public)} dimensions, widths {private[-1:]} and {public[-1:]}. "
                "Map both with the same features."
            )
        for name, given in (("labels", self.labels), ("weights", self.weights)):
            if given is not None and len(given) != private[0]:
                rule = f"{name} must have one entry per private row; the numbers differ."
                raise ArgumentError(f"{rule} Pass one per row.")


class SimilaritySums(Protocol):
    """Sums over the private rows of each class, prepared for public rows to come."""

    def __call__(self, public_rows: Array, /) -> Integers:
        """(public rows, classes) sums."""

    def of_slab(self, public_rows: Array, /) -> Array:
        """The same, of few enough public rows for one slab, left where they are computed."""


PANEL_BYTES = 48 * 2**20
THREAD_BYTES = 40 * 2**20
"""Memory beyond arguments and result is at most PANEL_BYTES + threads × THREAD_BYTES, whatever the sizes.

That is of one call: where pieces of a pool are scored side by side, each has a call, and a panel, of its own.

A panel takes 32 MiB and its gathering some more. A thread has a slab (8 MiB), a tile (4 MiB), and sums of up
to 8 MiB in three copies, though with fewer than a hundred classes they take less than one."""

PART = 2.0**26
"""Where a weighted sum is cut in two; see `exact_parts`."""

_PANEL_ELEMENTS = 2**23
_SLAB_ELEMENTS = 2**21
_SLAB_ROWS = 512
_TILE_ROWS = 2048  # a tall tile: BLAS packs the slab anew for every product, and here for fewer of them
_FEW_ROWS = 1024  # on the int8 grid: 2¹⁰ products of at most 127² add up to less than 2²⁴
_GATHERED = 128  # private rows picked out at a time
_WEIGHT_BITS = 17


class ClassRows(NamedTuple):
    """Integer rows on the grid, which are summed by class.

    Attributes:
        rows: of any real type; an array, or a torch tensor.
        labels: class of each row.
        classes: number of declared classes.
        weights: how many times each row counts; once if not given.
    """

    rows: Array
    labels: Array
    classes: int
    weights: Integers | None = None


class Panel(NamedTuple):
    """Some private rows in order of class and weight: run i, of class `classes[i]`, ends at `ends[i]`."""

    rows: Floats32
    classes: Integers
    weights: Integers | None
    ends: Integers


class CappedSums:
    """Sums of clip(dot, low, high) − low over private rows, for whatever public rows are given.

    Args:
        private: the private rows.
        low: lower cap on the product.
        high: upper cap on the product.
        precision: either grid; float32 products are exact on both.
    """

    def __init__(self, private: ClassRows, low: int, high: int, *, precision: str = "float16") -> None:
        self._private, self._caps, self._few = private, (low, high), precision == "int8"

    def __call__(self, public_rows: AnyArray) -> Integers:
        """(public rows, classes) sums; a memory map is read a slab at a time."""
        result = np.zeros((len(public_rows), self._private.classes), dtype=np.int64)
        # Few enough rows for the memory bound and the cache, and a share for every thread.
        fitting = min(_SLAB_ROWS, _SLAB_ELEMENTS // max(1, public_rows.shape[1]))
        step = max(1, min(fitting, -(-len(public_rows) // usable_cores())))
        for panel in panels(self._private):

            def score(start: int, panel: Panel = panel) -> None:
                slab = np.asarray(public_rows[start : start + step], dtype=np.float32)
                _add_capped(result[start : start + step], panel, slab, *self._caps, few=self._few)

            for _ in side_by_side(score, range(0, len(public_rows), step), usable_cores()):
                pass
        return result

    of_slab = __call__


class LinearSums:
    """Sums of dot + shift over private rows: no cap, so the sum goes inside the product.

    Class sums of n rows have norm at most 2047·n and products at most 2²²·n, exact in float64 up to 2³¹ of
    them. In two parts float32, which is half as wide, takes sums of few enough rows: on the int8 grid, of
    millions. Weighted sums have norm at most 2047·2⁴⁰ < 2⁵¹ and take two parts of float64; see `exact_parts`.

    Args:
        private: the private rows.
        shift: added to each product.
        norm: that of the grid.
        any_length: whether public rows may be longer than that; such a row then counts as zeros.
    """

    def __init__(self, private: ClassRows, shift: int, *, norm: int = 2047, any_length: bool = False) -> None:
        self._longest = norm**2 if any_length else None
        count, dimension = private.rows.shape
        sums, counts = np.zeros((private.classes, dimension)), np.zeros(private.classes, dtype=np.int64)
        for panel in panels(private):
            start = 0
            each = repeat(1) if panel.weights is None else panel.weights
            for owner, weight, end in zip(panel.classes, each, panel.ends, strict=False):
                sums[owner] += weight * panel.rows[start:end].sum(axis=0, dtype=np.float64)
                counts[owner] += weight * (end - start)
                start = end
        parts: list[AnyArray]
        self._part, parts = PART, [sums] if private.weights is None else [*exact_parts(sums)]
        part = _float32_part(count, dimension, norm)
        if private.weights is None and part is not None:
            self._part, parts = part, [one.astype(np.float32) for one in exact_parts(sums, part)]
        self._columns = np.ascontiguousarray(np.concatenate(parts).T)
        self._shifts = counts * shift

    def __call__(self, public_rows: AnyArray) -> Integers:
        """(public rows, classes) sums."""
        classes = len(self._shifts)
        result = np.empty((len(public_rows), classes), dtype=np.int64)
        # Half a slab, 4 MiB: less stays nearer to the core, but threads then wait for the interpreter.
        step = max(1, _SLAB_ELEMENTS // 2 // max(1, public_rows.shape[1]))

        def score(start: int) -> None:
            slab = np.asarray(public_rows[start : start + step], dtype=self._columns.dtype)
            products = slab @ self._columns
            own = result[start : start + step]
            own[:] = products[:, :classes]
            for first in range(classes, products.shape[1], classes):
                own *= int(self._part)
                own += products[:, first : first + classes].astype(np.int64)
            if self._longest is not None:
                own[squared_norms(slab) > self._longest] = 0
            own += self._shifts

        for _ in side_by_side(score, range(0, len(public_rows), step), usable_cores()):
            pass
        return result

    of_slab = __call__


def exact_parts(sums: Floats, part: float = PART) -> list[Floats]:
    """Whole numbers h and l with sums = part·h + l, whose products with grid rows are exact.

    By default for float64: sums of norm below 2⁵¹ make h of norm below 2²⁵ + √d, where d is the width, and l
    has at most 2²⁶·√d: with rows of norm 2047 the products, and all their partial sums, stay below 2⁵³ up to
    d = 2³².

    >>> [part.tolist() for part in exact_parts(np.array([2.0**26 + 5, -1.0]))]
    [[1.0, -1.0], [5.0, 67108863.0]]
    """
    return list(np.divmod(sums, part))


def squared_norms(rows: Floats | Floats32) -> Floats | Floats32:
    """Squared norms of rows of whole numbers.

    Up to the grid's they are exact in float32; one beyond it stays so, however it is rounded.
    """
    squares: Floats | Floats32 = (rows[:, None, :] @ rows[:, :, None])[:, 0, 0]  # faster than einsum
    return squares


def _float32_part(rows: int, dimension: int, norm: int) -> float | None:
    """Where sums of so many rows of this norm are cut for float32, or None if two parts are too few.

    Their products with rows of the same norm must stay below 2²⁴: l has norm below part·√d, and h at most
    that of the sums ÷ part, plus √d.

    >>> _float32_part(8_000_000, 256, 127), _float32_part(9_000_000, 256, 127)
    (8192.0, None)
    """
    largest, wide = 2.0**24 / norm, math.sqrt(dimension)
    part = 2.0 ** math.floor(math.log2(largest / wide))
    return part if part >= 1 and norm * rows / part + wide <= largest else None


def panels(private: ClassRows) -> Iterator[Panel]:
    """The private rows, a bounded number at a time, each lot in order of class and weight."""
    rows, labels, _, weights = private
    step = max(1, _PANEL_ELEMENTS // max(1, rows.shape[1], 64))
    for start in range(0, len(rows), step):
        own = np.asarray(labels[start : start + step])
        if weights is not None:
            own = (own.astype(np.int64) << _WEIGHT_BITS) + weights[start : start + step]
        order = np.argsort(own, kind="stable")
        present, sizes = np.unique(own, return_counts=True)
        lot = np.empty((len(own), rows.shape[1]), dtype=np.float32)

        def gather(first: int, start: int = start, order: Integers = order, lot: Floats32 = lot) -> None:
            lot[first : first + _GATHERED] = rows[start + order[first : first + _GATHERED]]

        for _ in side_by_side(gather, range(0, len(own), _GATHERED), usable_cores()):
            pass
        classes, weight = present.astype(np.int64), None
        if weights is not None:
            classes, weight = np.divmod(classes, 1 << _WEIGHT_BITS)
        yield Panel(lot, classes, weight, np.cumsum(sizes))


def _add_capped(result: Integers, panel: Panel, slab: Floats32, low: int, high: int, *, few: bool) -> None:
    """Add one panel's capped sums to the result's rows for one slab of public rows.

    With few rows in a tile, and products of at most 127², float32 holds sums of a tile, and BLAS takes them.
    """
    height = min(_TILE_ROWS, _FEW_ROWS, len(panel.rows)) if few else min(_TILE_ROWS, len(panel.rows))
    tile, ones = np.empty((height, len(slab)), dtype=np.float32), np.ones(height, dtype=np.float32)
    for start in range(0, len(panel.rows), height):
        stop = min(start + height, len(panel.rows))
        dots = tile[: stop - start]
        np.dot(panel.rows[start:stop], slab.T, out=dots)
        np.clip(dots, np.float32(low), np.float32(high), out=dots)
        first = int(np.searchsorted(panel.ends, start, side="right"))
        last = int(np.searchsorted(panel.ends, stop, side="left"))
        cuts = np.array([start, *panel.ends[first:last], stop]) - start
        sums = np.empty((len(cuts) - 1, len(slab)))
        for run in range(len(sums)):
            own = dots[cuts[run] : cuts[run + 1]]
            if few:
                sums[run] = ones[: len(own)] @ own
            else:
                np.add.reduce(own, axis=0, dtype=np.float64, out=sums[run])
        sums -= (low * np.diff(cuts))[:, None]
        owners = panel.classes[first : last + 1]
        if panel.weights is not None:
            sums *= panel.weights[first : last + 1, None]
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            sums, owners = np.add.reduceat(sums, starts, axis=0), owners[starts]
        result[:, owners] += sums.T.astype(np.int64)
