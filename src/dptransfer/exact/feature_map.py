"""Feature maps: public, row by row, integer at the end; unit norm, and concatenated maps.

Two objects, as with methods and classifiers: a `Features` is a frozen configuration, `fit` turns it into a
`FittedFeatures` with public data alone, and only the fitted one touches rows. A fitted map is part of a
release, so it can be written as named arrays and read back.

The second has a sixteenth of the squared norm: a head that learns in the first alone, and only scores in the
second, then pays for 1 ÷ √(15/16), which is 3 % more noise, and the second is a fourth as fine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, Integers, JsonObject, Tensor
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.chunks import mapped_rows
from dptransfer.exact.cuda import slabs
from dptransfer.exact.lattice import SUM_BITS, require_exact_norms, unit_lattice, unit_lattice_on_device

Arrays = dict[str, AnyArray]
RowMap: TypeAlias = "Callable[[Tensor], Tensor]"
_SLAB_ELEMENTS = 2**23  # 64 MiB in float64, of which the device holds a few


class FittedFeatures(Protocol):
    """A public map from raw rows to integer rows of bounded norm, one row at a time.

    Attributes:
        kind: the name under which a release stores it.
        input_dimension: width of the rows it takes.
        dimension: width of the rows it gives.
    """

    kind: ClassVar[str]

    @property
    def input_dimension(self) -> int:
        """Width of the rows it takes."""

    @property
    def dimension(self) -> int:
        """Width of the rows it gives."""

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Integer rows of L2 norm at most `norm`; each depends on its own row alone, bit for bit."""

    def arrays(self) -> Arrays:
        """The map as named arrays, for a release."""

    def settings(self) -> JsonObject:
        """The map's numbers and words, JSON-ready, for a release."""


class Features(Protocol):
    """The configuration of a feature map; `fit` sees public data only."""

    def fit(self, dimension: int, public: PublicEmbeddings | None) -> FittedFeatures:
        """The map for rows of width `dimension`."""

    def output_dimension(self, dimension: int, public: PublicEmbeddings | None) -> int:
        """Width of the mapped rows, known before anything is fitted."""


def apply(features: FittedFeatures, rows: AnyArray) -> Floats:
    """Mapped rows as floats in the unit ball, for prediction and for public rows.

    It is the integer map scaled back, so a row is predicted on exactly as it was learned from.
    """
    require_width(features, rows.shape)
    return features.lattice(rows, 2**SUM_BITS).astype(np.float64) * 2.0**-SUM_BITS


def lattice_on_device(features: FittedFeatures, norm: int, device: str = "cuda") -> RowMap:
    """`features.lattice(rows, norm)` for tensors on the device; float64, which holds these integers exactly.

    A map has a method `on_device` for this, which brings its arrays there once. One that has none is applied
    on the CPU, and what it gives is brought back.
    """
    if (on_device := getattr(features, "on_device", None)) is not None:
        mapped: RowMap = on_device(norm, device)
        return mapped
    return lambda rows: torch.from_numpy(features.lattice(rows.cpu().numpy(), norm)).to(device).double()


def mapped_on_cuda(features: FittedFeatures, rows: AnyArray, norm: int) -> Tensor:  # pragma: no cover — GPU
    """`features.lattice(rows, norm)` as a float64 tensor on a GPU, of rows that are brought there in slabs.

    As `OnLattice` does, norms are taken once more and a row beyond its norm becomes zeros.
    """
    mapped = lattice_on_device(features, norm)
    whole = torch.empty((len(rows), features.dimension), dtype=torch.float64, device="cuda")
    for place, slab in slabs(rows, _SLAB_ELEMENTS // features.input_dimension):
        whole[place] = within(mapped(slab), norm)
    return whole


def within(rows: Tensor, norm: int) -> Tensor:
    """Integer rows, those that are longer than the norm as zeros; exact, for norms up to 2²⁶."""
    # A sum of squares is exact as long as it is below 2⁵³; once above that, nothing brings it back down.
    return rows * ((rows * rows).sum(dim=1) <= norm**2)[:, None]


def apply_on_device(features: FittedFeatures, device: str = "cuda") -> RowMap:
    """`apply` for tensors on the device: mapped rows as floats in the unit ball, for prediction."""
    mapped = lattice_on_device(features, 2**SUM_BITS, device)
    return lambda rows: mapped(rows) * 2.0**-SUM_BITS


def require_width(features: FittedFeatures, shape: tuple[int, ...]) -> None:
    """Raise unless rows of this shape are what the map takes."""
    if len(shape) != 2 or shape[1] != features.input_dimension:
        rule = f"Rows must have shape (examples, {features.input_dimension}), as in the fit; got {shape}."
        raise DataError(f"{rule} Encode with the model's own encoder first.")


Reader: TypeAlias = Callable[[Arrays, JsonObject], FittedFeatures]


def release_readers() -> dict[str, Reader]:
    """How to restore the maps that releases may contain, by kind."""
    from dptransfer.exact.public_map import FittedPublicMap, FittedSpan
    from dptransfer.exact.vocabulary_map import FittedVocabularyMap

    return {
        FittedUnitNorm.kind: FittedUnitNorm.read,
        FittedSideBySide.kind: FittedSideBySide.read,
        FittedPublicMap.kind: FittedPublicMap.read,
        FittedSpan.kind: FittedSpan.read,
        FittedVocabularyMap.kind: FittedVocabularyMap.read,
    }


def read_features(arrays: Arrays, settings: JsonObject) -> FittedFeatures:
    """Restore a map from a release."""
    readers, kind = release_readers(), settings.get("kind")
    if kind not in readers:
        raise ArgumentError(
            f"A feature map's kind must be one of {', '.join(sorted(readers))}; got {kind!r}."
        )
    return readers[kind](arrays, settings)


def describe(features: FittedFeatures) -> JsonObject:
    """What a release records about the map, next to its arrays."""
    return {"kind": features.kind, **features.settings()}


@dataclass(frozen=True)
class StoredMap:
    """Base of the maps that a release keeps by their fields, with the `identity` of those that have one."""

    kind: ClassVar[str]

    def arrays(self) -> Arrays:
        """The fields that are arrays."""
        return {name: np.ascontiguousarray(one) for name, one in self._fields(arrays=True)}

    def settings(self) -> JsonObject:
        """The other fields, JSON-ready."""
        plain = dict(self._fields(arrays=False))
        plain |= {name: list(one) for name, one in plain.items() if isinstance(one, tuple)}
        return {**plain, "identity": self.identity} if hasattr(self, "identity") else plain

    @classmethod
    def read(cls, arrays: Arrays, settings: JsonObject) -> Self:
        """Restore from a release; the identity must be that of the arrays."""
        own: JsonObject = {name: np.asarray(array, dtype=np.int32) for name, array in arrays.items()}
        for name in {one.name for one in fields(cls)} - own.keys():
            own[name] = tuple(settings[name]) if isinstance(settings[name], list) else settings[name]
        restored = cls(**own)
        if getattr(restored, "identity", None) != settings.get("identity"):
            raise DataError("The feature map's arrays must have the recorded identity; they do not.")
        return restored

    def _fields(self, *, arrays: bool) -> Iterator[tuple[str, object]]:
        found = ((one.name, getattr(self, one.name)) for one in fields(self))
        return ((name, value) for name, value in found if isinstance(value, np.ndarray) is arrays)


class MatrixMap(StoredMap):
    """Base of the maps whose rows are products with `matrix`, integers of (input dimension, dimension)."""

    matrix: NDArray[np.int32]

    @property
    def input_dimension(self) -> int:
        """Width of the rows it takes."""
        return int(self.matrix.shape[0])

    @property
    def dimension(self) -> int:
        """Width of the rows it gives."""
        return int(self.matrix.shape[1])


@dataclass(frozen=True)
class OnLattice(StoredMap):
    """The identity on integer rows of norm at most `norm`; a row beyond it becomes a row of zeros.

    The norm is checked again, exactly and row by row, so that a query's sensitivity does not rest on where
    its rows came from. On a grid that is a whole number of times finer the same rows have larger integers.

    >>> OnLattice(2, norm=5).lattice(np.array([[3, 4], [3, 5]]), norm=5)
    array([[3, 4],
           [0, 0]])
    >>> OnLattice(2, norm=5).lattice(np.array([[3, 4]]), norm=50)
    array([[30, 40]])
    """

    dimension: int
    norm: int
    kind: ClassVar[str] = "on-lattice"

    def __post_init__(self) -> None:
        """Refuse a norm whose square, doubled, leaves int64."""
        require_exact_norms(self.dimension)
        if not 0 < self.norm <= 2**SUM_BITS:
            raise ArgumentError(f"norm must be between 1 and 2**{SUM_BITS}; got {self.norm!r}.")

    @property
    def input_dimension(self) -> int:
        """Rows keep their width."""
        return self.dimension

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """The rows themselves."""
        return self.floats(rows, norm).astype(np.int64)

    def floats(self, rows: AnyArray, norm: int) -> Floats:
        """The rows themselves as float64, which is exact: one copy, for steps that visit them often."""
        if norm % self.norm or norm > 2**SUM_BITS or not np.issubdtype(rows.dtype, np.integer):
            raise ArgumentError(
                f"Rows must be integers on the grid of norm {self.norm} or a multiple; asked for norm {norm}."
            )
        values = rows.astype(np.float64)
        outside = self._outside(rows, values)
        if outside.any():
            values[outside] = 0.0
        if norm != self.norm:
            values *= norm // self.norm
        return values

    def _outside(self, rows: AnyArray, floats: Floats) -> NDArray[np.bool_]:
        """Which rows are longer than the norm, exactly."""
        # Row by row a dot product of the linear algebra library, in half the time of einsum.
        squares = (floats[:, None, :] @ floats[:, :, None])[:, 0, 0]
        # Exact as long as it is below 2⁵³; once above that, adding squares never brings it back down.
        outside: NDArray[np.bool_] = squares > self.norm**2
        if self.norm**2 >= 2**53:
            # Not exact; where the float sum is at most twice the bound, the integer sum does not overflow.
            outside = squares > 2.0 * self.norm**2
            bounded = np.clip(rows, -self.norm - 1, self.norm + 1).astype(np.int64)
            outside |= np.einsum("ij,ij->i", bounded, bounded) > self.norm**2
        return outside


def lattice_floats(features: FittedFeatures, rows: AnyArray, norm: int) -> Floats:
    """Mapped integer rows as float64, without the detour over int64 where they are on the lattice already."""
    if isinstance(features, OnLattice):
        return features.floats(rows, norm)
    return features.lattice(rows, norm).astype(np.float64)


_PARTS = ("first", "second")
_SIXTEENTHS = 15, 1  # of the squared norm
STRETCHES = tuple(math.sqrt(16 / share) for share in _SIXTEENTHS)
"""How much longer rows of either map are alone."""


@dataclass(frozen=True, eq=False)
class FittedSideBySide:
    """What two maps give, with 15/16 and 1/16 of the squared norm: so the row as a whole is within the norm.

    A head for one part that is to score these rows multiplies its weights by that part's `STRETCHES`.

    >>> from dptransfer.exact.feature_map import UnitNorm
    >>> FittedSideBySide(UnitNorm().fit(2, None), UnitNorm(pool=2).fit(2, None)).lattice(np.eye(2), norm=1000)
    array([[967,   0, 249],
           [  0, 967, 249]])

    Attributes:
        first: a map.
        second: another of rows of the same width.
    """

    first: FittedFeatures
    second: FittedFeatures
    kind: ClassVar[str] = "side-by-side"

    @property
    def input_dimension(self) -> int:
        """Width of the rows that both take."""
        return self.first.input_dimension

    @property
    def dimension(self) -> int:
        """Of both together."""
        return self.first.dimension + self.second.dimension

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Integer rows of both; the squares of norms of at most √(norm²·share) add up to at most norm²."""
        first, second = norms_of_parts(norm)
        return np.hstack([self.first.lattice(rows, first), self.second.lattice(rows, second)])

    def arrays(self) -> Arrays:
        """Those of both."""
        return {
            f"{name}.{key}": array for name in _PARTS for key, array in getattr(self, name).arrays().items()
        }

    def settings(self) -> JsonObject:
        """Those of both."""
        return {name: describe(getattr(self, name)) for name in _PARTS}

    @classmethod
    def read(cls, arrays: Arrays, settings: JsonObject) -> FittedSideBySide:
        """Restore from a release; a map of the kind may not hold another of it."""
        parts = []
        for name in _PARTS:
            mark = f"{name}."
            own = {key.removeprefix(mark): array for key, array in arrays.items() if key.startswith(mark)}
            if settings[name].get("kind") == cls.kind:
                raise ValueError("maps lie side by side in pairs")
            parts.append(read_features(own, settings[name]))
        if parts[0].input_dimension != parts[1].input_dimension:
            raise ValueError("maps side by side take the same rows")
        return cls(*parts)


def norms_of_parts(norm: int) -> tuple[int, int]:
    """The norms of the two maps' integers, for rows of at most this norm.

    >>> norms_of_parts(1000)
    (968, 250)
    """
    first, second = (math.isqrt(norm * norm * share // 16) for share in _SIXTEENTHS)
    return first, second


FINE_NORM = 2**30  # of the rows whose neighbouring coordinates are pooled


@dataclass(frozen=True)
class UnitNorm:
    """Every row scaled to unit norm; with `pool` > 1, neighbouring coordinates are averaged first.

    >>> UnitNorm(pool=4).output_dimension(1280, None)
    320

    Attributes:
        pool: how many neighbouring coordinates are averaged into one; the last group may be smaller.
    """

    pool: int = 1

    def __post_init__(self) -> None:
        """Check the window."""
        checks.whole("pool", self.pool)

    def output_dimension(self, dimension: int, public: PublicEmbeddings | None) -> int:
        """Width after pooling."""
        return -(-dimension // self.pool)

    def fit(self, dimension: int, public: PublicEmbeddings | None) -> FittedUnitNorm:
        """There is nothing to learn."""
        require_exact_norms(dimension)
        return FittedUnitNorm(dimension, self.pool)


@dataclass(frozen=True)
class FittedUnitNorm(StoredMap):
    """`UnitNorm` for rows of one width."""

    input_dimension: int
    pool: int = 1
    kind: ClassVar[str] = "unit-norm"

    @property
    def dimension(self) -> int:
        """Width after pooling."""
        return -(-self.input_dimension // self.pool)

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """Unit-norm integer rows."""
        if self.pool == 1:
            return unit_lattice(rows, norm)
        # Pooled sums in exact integers: a float average could round differently in another batch. The
        # division is left out, since the row is scaled to unit norm afterwards.
        starts = np.arange(0, self.input_dimension, self.pool)

        def pooled(part: AnyArray) -> Integers:
            return unit_lattice(np.add.reduceat(unit_lattice(part, FINE_NORM), starts, axis=1), norm)

        return mapped_rows(pooled, rows, self.dimension)

    def on_device(self, norm: int, device: str) -> RowMap:
        """The same for tensors."""

        def mapped(rows: Tensor) -> Tensor:
            if self.pool == 1:
                return unit_lattice_on_device(rows, norm)
            missing = self.dimension * self.pool - self.input_dimension
            fine = torch.nn.functional.pad(unit_lattice_on_device(rows, FINE_NORM), (0, missing))
            pooled = fine.reshape(len(rows), self.dimension, self.pool).sum(dim=2)
            return unit_lattice_on_device(pooled, norm)

        return mapped
