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
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.chunks import mapped_rows
from dptransfer.exact.cuda import Tensor
from dptransfer.exact.feature_map import MatrixMap, RowMap, StoredMap
from dptransfer.exact.lattice import (
    clipped_lattice,
    require_exact_norms,
    unit_lattice,
    unit_lattice_on_device,
)
from dptransfer.exact.principal_axes import principal_axes

ROW_NORM = 2**26
_COLUMN_NORM = 2**25
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
            raise DataError(
                "A public map's mean and columns must be small enough for exact products; these are not. "
                "Fit the map again from its pool."
            )

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the map: equal identities map equal rows to equal integers."""
        digest = hashlib.sha256(f"{self.kind} root={self.root} {self.matrix.shape}".encode())
        digest.update(self.mean.tobytes())
        digest.update(self.matrix.tobytes())
        return digest.hexdigest()

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Mapped integer rows; see the module docstring for why they are exact."""
        mean, matrix = self._floats

        def mapped(part: AnyArray) -> Integers:
            return unit_lattice((self.uncentred_rows.lattice(part, ROW_NORM) - mean) @ matrix, norm)

        return mapped_rows(mapped, rows, self.dimension)

    def on_device(self, norm: int, device: str) -> RowMap:
        """The same for tensors."""
        import torch

        mean, matrix = (torch.from_numpy(part).to(device) for part in self._floats)

        def mapped(rows: Tensor) -> Tensor:
            uncentred = unit_lattice_on_device(rows, ROW_NORM, root=self.root)
            return unit_lattice_on_device((uncentred - mean) @ matrix, norm)

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
        raise DataError(
            "PublicMap learns from public rows; none were given. "
            "Pass public=PublicEmbeddings(...) (on the command line: --public pool.emb), or use "
            "features=UnitNorm()."
        )
    return public
