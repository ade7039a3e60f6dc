"""The public feature map: centre, rotate and half-whiten by what the public pool shows.

Everything here is learned from public rows, so it costs no privacy. The map is applied to private rows in
exact integers: a BLAS product may round one row differently in another batch, and the sensitivity of a sum
rests on rows that do not depend on one another.

The pipeline for one row x, each arrow a function of that row alone:

    x → signed square root (only if every public feature is ≥ 0: a public test) → unit norm
      → minus the public mean → public principal axes, axis j scaled by λ_j^(−whitening) → first `axes` of them
      → unit norm again

The last step puts all of the row inside the kept axes, so that none of the sensitivity is spent outside them.
Why scaling by λ^(−1/4) rather than λ^(−1/2): full whitening evens out all axes, noise included, and hurts small
classes; half of it keeps the order of the axes and takes away most of their dominance.

Exactness: rows are integers of norm ≤ 2²⁶, the mean likewise, the matrix has integer columns of norm ≤ 2²⁵. Every partial
sum of a product is an integer of size ≤ (2²⁶ + 2²⁶)·2²⁵ = 2⁵² by Cauchy-Schwarz, so float64 computes it exactly in
any order, with or without fused multiply-add, on any number of threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.errors import DataError
from dptransfer.features.base import Arrays, as_integers, readable
from dptransfer.features.lattice import FloatRows, IntegerRows, row_chunks, unit_lattice

_ROW_NORM = 2**26
_COLUMN_NORM = 2**25
_SMALLEST_RATIO = 1e-6  # an axis with less than this share of the largest variance is not blown up further


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
        _check.whole("axes", self.axes)
        _check.non_negative("whitening", self.whitening)

    def output_dimension(self, dimension: int, public: PublicEmbeddings | None) -> int:
        """Axes kept; a pool of m rows spans at most m − 1."""
        return min(self.axes, dimension, max(1, len(_required(public)) - 1))

    def fit(self, dimension: int, public: PublicEmbeddings | None) -> FittedPublicMap:
        """Learn the map; the principal axes of a pool are computed once and kept."""
        pool = _required(public)
        base = _principal_axes(pool)
        kept = self.output_dimension(dimension, pool)
        variance = base.variance[:kept]
        stretch = np.maximum(variance, _SMALLEST_RATIO * variance[0]) ** -self.whitening
        matrix = base.axes[:, :kept] * (stretch / stretch.max())
        return FittedPublicMap(
            root=base.root,
            mean=as_integers(np.trunc(base.mean * (_ROW_NORM * (1 - 2.0**-20)))),  # float32 rows: a hair over unit norm
            matrix=as_integers(np.trunc(matrix * (_COLUMN_NORM * (1 - 2.0**-40)))),
            pool=pool.fingerprint,
            whitening=self.whitening,
        )


@readable
@dataclass(frozen=True, eq=False)
class FittedPublicMap:
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

    @property
    def input_dimension(self) -> int:
        """Width of the rows it takes."""
        return int(self.matrix.shape[0])

    @property
    def dimension(self) -> int:
        """Number of axes kept."""
        return int(self.matrix.shape[1])

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the map: equal identities map equal rows to equal integers."""
        digest = hashlib.sha256(f"{self.kind} root={self.root} {self.matrix.shape}".encode())
        digest.update(np.ascontiguousarray(self.mean))
        digest.update(np.ascontiguousarray(self.matrix))
        return digest.hexdigest()

    def lattice(self, rows: NDArray[Any], norm: int) -> IntegerRows:
        """Mapped integer rows; see the module docstring for why they are exact."""
        result = np.empty((len(rows), self.dimension), dtype=np.int64)
        mean, matrix = self.mean.astype(np.float64), self.matrix.astype(np.float64)
        for chunk in row_chunks(len(rows), self.input_dimension // 8):
            centred = unit_lattice(_rooted(rows[chunk]) if self.root else rows[chunk], _ROW_NORM) - mean
            result[chunk] = unit_lattice(centred @ matrix, norm)
        return result

    def arrays(self) -> Arrays:
        """Mean and matrix."""
        return {"mean": self.mean, "matrix": self.matrix}

    def settings(self) -> dict[str, Any]:
        """What made it, and its identity."""
        return {"root": self.root, "pool": self.pool, "whitening": self.whitening, "identity": self.identity}

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> FittedPublicMap:
        """Restore from a release; the identity must be that of the arrays."""
        fitted = cls(
            root=settings["root"],
            mean=np.asarray(arrays["mean"], dtype=np.int32),
            matrix=np.asarray(arrays["matrix"], dtype=np.int32),
            pool=settings["pool"],
            whitening=settings["whitening"],
        )
        if fitted.identity != settings["identity"]:
            raise DataError("The feature map's arrays must have the recorded identity; they do not.")
        return fitted


@dataclass(frozen=True, eq=False)
class _PrincipalAxes:
    root: bool
    mean: FloatRows
    axes: FloatRows
    variance: FloatRows


class _Pool:
    """A pool as a cache key: two pools with one fingerprint are one pool."""

    def __init__(self, public: PublicEmbeddings) -> None:
        self.public = public

    def __hash__(self) -> int:
        return hash(self.public.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pool) and other.public.fingerprint == self.public.fingerprint


def _principal_axes(public: PublicEmbeddings) -> _PrincipalAxes:
    return _cached_principal_axes(_Pool(public))


@lru_cache(maxsize=4)
def _cached_principal_axes(pool: _Pool) -> _PrincipalAxes:
    """Mean and principal axes of the unit-norm public rows (public data: ordinary floats are fine here)."""
    rows = pool.public.rows
    root = bool((rows >= 0).all())
    count, dimension = rows.shape
    mean = np.zeros(dimension)
    second = np.zeros((dimension, dimension))
    for start in range(0, count, 8192):
        unit = rows[start : start + 8192].astype(np.float32)
        unit = np.sqrt(unit) if root else unit
        unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        mean += unit.sum(axis=0, dtype=np.float64)
        second += unit.T @ unit
    mean /= count
    variance, axes = np.linalg.eigh(second / count - np.outer(mean, mean))
    order = np.argsort(-variance)
    return _PrincipalAxes(root, mean, axes[:, order], np.maximum(variance[order], np.finfo(float).tiny))


def _rooted(rows: NDArray[Any]) -> FloatRows:
    """Signed square root: defined for every row, since a private row may hold anything."""
    wide = rows.astype(np.float64)
    return np.copysign(np.sqrt(np.abs(wide)), wide)


def _required(public: PublicEmbeddings | None) -> PublicEmbeddings:
    if public is None:
        raise DataError(
            "PublicMap learns from public rows; none were given. "
            "Pass public=PublicEmbeddings(...) (on the command line: --public pool.emb), or use features=UnitNorm()."
        )
    return public
