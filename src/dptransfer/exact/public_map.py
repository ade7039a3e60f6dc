"""The public feature map: centre, rotate and half-whiten by what the public pool shows.

Everything here is learned from public rows, so it costs no privacy. The map is applied to private rows in
exact integers: a BLAS product may round one row differently in another batch, and the sensitivity of a sum
rests on rows that do not depend on one another.

The pipeline for one row x, each arrow a function of that row alone:

    x → signed square root (only if every public feature is ≥ 0: a public test) → unit norm
      → minus the public mean → public principal axes, axis j scaled by λ_j^(−whitening) → first `axes` of
      them → unit norm again

The last step puts all of the row inside the kept axes, so that none of the sensitivity is spent outside them.
Why scaling by λ^(−1/4) rather than λ^(−1/2): full whitening evens out all axes, noise included, and hurts
small classes; half of it keeps the order of the axes and takes away most of their dominance.

Exactness: rows are integers of norm ≤ 2²⁶, the mean likewise, the matrix has integer columns of norm ≤ 2²⁵.
Every partial sum of a product is an integer of size ≤ (2²⁶ + 2²⁶)·2²⁵ = 2⁵² by Cauchy-Schwarz, so float64
computes it exactly in any order, with or without fused multiply-add, on any number of threads.

The pool's mean and second moment are sums over rows, taken in whole numbers: rows of norm 2²⁴ on the lattice
are rounded to steps of 2⁸, which leaves norms of at most 2¹⁶ + 64 and products below 2³³, so float64 holds
the sums of 2²⁰ rows and int64 those of 2³⁰. So they are the same in whatever pieces the pool is read, by
whomever and in whatever order. The axes are computed once per pool, and kept in memory and on disk.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Integers, Rows, Tensor
from dptransfer.base.worker_env import usable_cores
from dptransfer.base.workers import pieces_of
from dptransfer.data.atomic_files import cache_folder, write_if_possible
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.examples import described_digest
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact import lattice
from dptransfer.exact.chunks import mapped_rows, one_blas_thread, side_by_side, slices
from dptransfer.exact.feature_map import MatrixMap, RowMap, StoredMap
from dptransfer.exact.lattice import clipped_lattice, require_exact_norms, unit_lattice

ROW_NORM = 2**26
_COLUMN_NORM = 2**25
SPAN_CLIP = float(ROW_NORM * _COLUMN_NORM)
"""Longest product of a row with the basis of a span."""
_SMALLEST_RATIO = 1e-4  # an axis with less than this share of the largest variance is not blown up further


@dataclass(frozen=True)
class PublicMap:
    """Feature map learned from an unlabelled public pool.

    >>> pool = PublicEmbeddings(np.random.default_rng(0).normal(size=(500, 16)))
    >>> fitted = PublicMap(axes=4).fit(16, pool)
    >>> fitted.dimension, fitted.lattice(pool.rows[:1], norm=1000).shape
    (4, (1, 4))

    Attributes:
        axes: how many public principal axes are kept (fewer if the pool or the rows have fewer).
        whitening: power w of λ^(−w) in [0, 1/2].
    """

    axes: int = 128
    whitening: float = 0.25

    def __post_init__(self) -> None:
        """Check the settings."""
        checks.whole("axes", self.axes)
        checks.non_negative("whitening", self.whitening)
        if self.whitening > 0.5:
            raise ArgumentError(f"whitening must lie in [0, 1/2], where 1/2 is full; got {self.whitening!r}.")

    def output_dimension(self, dimension: int, public: PublicEmbeddings | None) -> int:
        """Axes kept; m public rows span at most m − 1, and a plan without a pool assumes enough of them."""
        return min(self.axes, dimension, dimension if public is None else max(1, len(public) - 1))

    def fit(self, dimension: int, public: PublicEmbeddings | None) -> FittedPublicMap:
        """Learn the map; the principal axes of a pool are computed once and kept."""
        pool = _required(public)
        require_exact_norms(dimension)
        base = principal_axes(pool)
        kept = self.output_dimension(dimension, pool)
        variance = base.variance[:kept]
        stretch = np.maximum(variance, _SMALLEST_RATIO * variance[0]) ** -self.whitening
        matrix = base.axes[:, :kept] * (stretch / stretch.max())
        # Clipped on the lattice, so that both norms hold exactly, whatever rounding the floats went through.
        return FittedPublicMap(
            root=base.root,
            mean=_lattice_mean(base.mean),
            matrix=clipped_lattice(matrix.T, _COLUMN_NORM, clip=1.0).T.astype(np.int32),
            pool=pool.fingerprint,
            whitening=self.whitening,
        )


@dataclass(frozen=True, eq=False)
class FittedPublicMap(MatrixMap):
    """`PublicMap` learned from one pool; integers throughout.

    Attributes:
        root: whether square roots are taken.
        mean: integer vector, norm at most 2²⁶.
        matrix: integer (dimension, axes) matrix, column norms at most 2²⁵.
        pool: fingerprint of the public pool.
        whitening: power used, for the record.
    """

    root: bool
    mean: NDArray[np.int32]
    matrix: NDArray[np.int32]
    pool: str
    whitening: float
    kind: ClassVar[str] = "public-map"

    def __post_init__(self) -> None:
        """Refuse norms for which products would not be exact."""
        mean, columns = _squared_norm(self.mean[:, None]), _squared_norm(self.matrix)
        if mean.max() > ROW_NORM**2 or columns.max() > _COLUMN_NORM**2:
            rule = "A public map's mean and columns must be small enough for exact products; these are not."
            raise DataError(f"{rule} Fit the map again from its pool.")

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the map: equal identities map equal rows to equal integers."""
        told = f"{self.kind} root={self.root} {self.matrix.shape}"
        return described_digest(told, self.mean, self.matrix)

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Mapped integer rows; see the module docstring for why they are exact."""
        mean, matrix = self._floats

        def mapped(part: AnyArray) -> Integers:
            return unit_lattice((self.uncentred_rows.lattice(part, ROW_NORM) - mean) @ matrix, norm)

        return mapped_rows(mapped, rows, self.dimension)

    def on_device(self, norm: int, device: str) -> RowMap:
        """The same for tensors."""
        mean, matrix = (torch.from_numpy(part).to(device) for part in self._floats)

        def mapped(rows: Tensor) -> Tensor:
            uncentred = lattice.unit_lattice_on_device(rows, ROW_NORM, root=self.root)
            return lattice.unit_lattice_on_device((uncentred - mean) @ matrix, norm)

        return mapped

    @cached_property
    def _floats(self) -> tuple[Floats, Floats]:
        """Mean and matrix as floats, which are as exact; to convert them takes longer than to map a row."""
        return self.mean.astype(np.float64), self.matrix.astype(np.float64)

    @property
    def uncentred_rows(self) -> UncentredRows:
        """What it does to rows before it subtracts the mean."""
        return UncentredRows(self.input_dimension, self.root)

    def first(self, axes: int) -> FittedPublicMap:
        """The same map with only its first `axes` axes; rows have unit norm inside those."""
        return replace(self, matrix=self.matrix[:, :axes])

    def with_mean(self, mean: Floats) -> FittedPublicMap:
        """The same map around another mean, a public or released vector of norm at most 1."""
        return replace(self, mean=_lattice_mean(mean))

    def axis_vectors(self) -> Floats:
        """(dimension, axes) columns: an axis, scaled by its stretch."""
        return self.matrix.astype(np.float64) / _COLUMN_NORM

    def centre(self) -> Floats:
        """The mean that is subtracted from unit rows."""
        return self.mean.astype(np.float64) / ROW_NORM


@dataclass(frozen=True, eq=False)
class FittedSpan(MatrixMap):
    """Unit rows in a basis of a few public directions: all that linear scores along these can tell of a row.

    Unlike a `PublicMap` it neither centres nor stretches, and rows keep the length that they have there.

    >>> FittedSpan.of(np.array([[3.0, 0.0], [-3.0, 0.0]])).lattice(np.array([[3.0, 4.0]]), 1000)
    array([[599]])

    Attributes:
        matrix: integer (dimension, directions) matrix, column norms at most 2²⁵.
    """

    matrix: NDArray[np.int32]
    kind: ClassVar[str] = "span"

    def __post_init__(self) -> None:
        """Refuse norms for which products would not be exact."""
        if _squared_norm(self.matrix).max() > _COLUMN_NORM**2:
            rule = "A span's columns must be small enough for exact products; these are not."
            raise DataError(f"{rule} Make it again.")

    @classmethod
    def of(cls, directions: Floats) -> FittedSpan:
        """The map onto the span of these rows."""
        require_exact_norms(directions.shape[1])
        with one_blas_thread(min(directions.shape)):
            _, lengths, basis = np.linalg.svd(directions, full_matrices=False)
        kept = basis[: max(1, int((lengths > 1e-9 * lengths[0]).sum()))]
        kept = kept * np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)])[:, None]
        return cls(clipped_lattice(kept, _COLUMN_NORM, clip=1.0).T.astype(np.int32))

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the map."""
        return described_digest(f"{self.kind} {self.matrix.shape}", self.matrix)

    @cached_property
    def basis(self) -> Floats:
        """(dimension, directions) orthonormal columns, as they were rounded."""
        found: Floats = self.matrix.astype(np.float64) / _COLUMN_NORM
        return found

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Integer rows of norm at most `norm`, by products as exact as those of a public map."""

        def mapped(part: AnyArray) -> Integers:
            product = unit_lattice(part, ROW_NORM).astype(np.float64) @ self.matrix.astype(np.float64)
            return clipped_lattice(product, norm, clip=SPAN_CLIP)

        return mapped_rows(mapped, rows, self.dimension)


@dataclass(frozen=True)
class UncentredRows(StoredMap):
    """Rows as a public map sees them before it centres them: rooted where it takes roots, of unit norm."""

    input_dimension: int
    root: bool
    kind: ClassVar[str] = "uncentred-rows"

    @property
    def dimension(self) -> int:
        """Rows keep their width."""
        return self.input_dimension

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Unit-norm integer rows."""
        return unit_lattice(rows, norm, root=self.root)


def _lattice_mean(mean: Floats) -> NDArray[np.int32]:
    """The mean as integers of norm at most 2²⁶."""
    integers: NDArray[np.int32] = clipped_lattice(mean[None], ROW_NORM, clip=1.0)[0].astype(np.int32)
    return integers


def _squared_norm(columns: NDArray[np.int32]) -> Floats:
    """Squared norm of each column: exact up to 2⁵³, and above that never rounded back below it."""
    result: Floats = np.square(columns.astype(np.float64)).sum(axis=0)
    return result


def _required(public: PublicEmbeddings | None) -> PublicEmbeddings:
    if public is None:
        rule = "PublicMap learns from public rows; none were given."
        raise DataError(f"{rule} Pass public=... (--public pool.emb), or use features=UnitNorm().")
    return public


_KEPT_IN_MEMORY = 4
_FINE_NORM, _SUM_NORM = 2**24, 2**16
_MOST_ROWS = 2**30
_ELEMENTS_AT_ONCE, _ROWS_AT_ONCE = 2**21, 2**20
_FORMAT = "axes-2"  # part of the file name, so that a change of the computation makes new files


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """What a pool shows of the feature space.

    Attributes:
        root: whether square roots were taken first, which is so when no public feature is negative.
        mean: mean of the unit-norm rows.
        axes: orthonormal columns, by falling variance; as many as there are dimensions or, where the pool has
            far fewer rows than that, rows.
        variance: variance along each axis.
    """

    root: bool
    mean: Floats
    axes: Floats
    variance: Floats


_MEMORY: OrderedDict[str, PrincipalAxes] = OrderedDict()


def principal_axes(public: PublicEmbeddings) -> PrincipalAxes:
    """The pool's axes, from memory, from the cache folder, or computed."""
    key = public.fingerprint
    if key not in _MEMORY:
        file = cache_folder() / f"{_FORMAT}-{key}.safetensors"
        found = _read(file, *public.rows.shape)
        if found is None:
            found = _compute(public)
            _write(file, found)
        _MEMORY[key] = found
        if len(_MEMORY) > _KEPT_IN_MEMORY:
            _MEMORY.popitem(last=False)
    return _MEMORY[key]


def _compute(public: PublicEmbeddings) -> PrincipalAxes:
    """Public data: ordinary floats are fine for all but the sums."""
    rows = public.rows
    count, dimension = rows.shape
    if 2 * count <= dimension:  # far cheaper than a (dimension, dimension) matrix, and the same axes
        few = rows[:]
        root = bool((few >= 0).all())
        wide = _unit_floats(few, root)
        mean = wide.mean(axis=0)
        with one_blas_thread(count):
            _, lengths, across = np.linalg.svd(wide - mean, full_matrices=False)
        return PrincipalAxes(root, mean, across.T, np.maximum(lengths**2 / count, np.finfo(float).tiny))
    if count > _MOST_ROWS:
        rule = f"The axes of a public pool are found from at most 2³⁰ rows; it has {count}."
        raise DataError(f"{rule} Use a part of it, or features=UnitNorm().")
    sums = _sums(public, root=True)
    root = bool(len(sums))
    sums = sums if root else _sums(public, root=False)
    mean = sums[0] / (float(_SUM_NORM) * count)
    second = sums[1:] / (float(_SUM_NORM) ** 2 * count)
    with one_blas_thread(dimension):
        variance, axes = np.linalg.eigh(second - np.outer(mean, mean))
    order = np.argsort(-variance)
    return PrincipalAxes(root, mean, axes[:, order], np.maximum(variance[order], np.finfo(float).tiny))


def _sums(public: PublicEmbeddings, *, root: bool) -> Integers:
    """The sum of all rows and, below it, that of products; nothing where roots of negatives are asked for."""
    rows = public.rows
    total = np.zeros((rows.shape[1] + 1, rows.shape[1]), dtype=np.int64)
    work, pieces = Moments(rows, root), pieces_of(len(rows), rows.dtype.itemsize * rows.shape[1])
    if not len(work(slice(0, 1))):  # mostly the first row tells
        return total[:0]
    for _, part in public.workers.each(work, pieces, "piece of the public pool"):
        if not len(part):
            return total[:0]
        total += part
    return total


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums over a piece of the pool, as `_sums` gives them; nothing where a root has no argument."""

    rows: Rows
    root: bool

    def __call__(self, piece: slice) -> Integers:
        """Of all rows of the piece, some at a time on every core."""
        dimension = self.rows.shape[1]
        total = np.zeros((dimension + 1, dimension), dtype=np.int64)
        parts = slices(piece, min(_ROWS_AT_ONCE, _ELEMENTS_AT_ONCE // dimension))
        for sums in side_by_side(self._of_part, parts, usable_cores()):
            if sums is None:
                return total[:0]
            total[0] += sums[0].astype(np.int64)
            total[1:] += sums[1].astype(np.int64)
        return total

    def _of_part(self, piece: slice) -> tuple[Floats, Floats] | None:
        part = self.rows[piece]
        if self.root and not (part >= 0).all():
            return None
        unit = np.rint(unit_lattice(part, _FINE_NORM, root=self.root) * (_SUM_NORM / _FINE_NORM))
        return unit.sum(axis=0), unit.T @ unit


def _unit_floats(rows: Rows, root: bool) -> Floats:
    """Rows of unit norm, of their square roots where `root` says so."""
    # By the largest entry first: squares of very large or very small entries would leave the floats.
    wide = rows.astype(np.float64)
    wide /= np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    wide = np.sqrt(wide) if root else wide
    wide /= np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return wide


def _read(file: Path, count: int, dimension: int) -> PrincipalAxes | None:
    """What the cache holds; a file that is missing or damaged is as good as none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    with suppress(OSError, SafetensorError, KeyError, ValueError):
        if not file.is_file():
            return None
        arrays = load_file(file)
        mean, axes, variance = arrays["mean"], arrays["axes"], arrays["variance"]
        fits = mean.shape == (dimension,) and axes.shape == (dimension, len(variance))
        fits = fits and len(variance) >= min(count, dimension)
        if fits and all(np.isfinite(array).all() for array in (mean, axes, variance)):
            return PrincipalAxes(bool(arrays["root"][0]), mean, axes, variance)
    return None


def _write(file: Path, found: PrincipalAxes) -> None:
    """Keep for later, if possible."""
    from safetensors.numpy import save

    parts = {name: np.ascontiguousarray(getattr(found, name)) for name in ("mean", "axes", "variance")}
    write_if_possible(file, save({"root": np.array([found.root]), **parts}))
