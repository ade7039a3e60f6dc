"""What a feature map is: public, row by row, and integer at the end.

Two objects, as with methods and classifiers: a `Features` is a frozen configuration, `fit` turns it into a
`FittedFeatures` with public data alone, and only the fitted one touches rows. A fitted map is part of a
release, so it can be written as named arrays and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.features.lattice import SUM_BITS

Arrays = dict[str, AnyArray]


@runtime_checkable
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

    def settings(self) -> dict[str, Any]:
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


def require_width(features: FittedFeatures, shape: tuple[int, ...]) -> None:
    """Raise unless rows of this shape are what the map takes."""
    if len(shape) != 2 or shape[1] != features.input_dimension:
        raise DataError(
            f"Rows must have shape (examples, {features.input_dimension}), as the model was fitted on; "
            f"got shape {shape}. Encode with the model's own encoder first."
        )


Reader = Callable[[Mapping[str, AnyArray], Mapping[str, Any]], FittedFeatures]
_READERS: dict[str, Reader] = {}
_Fitted = TypeVar("_Fitted", bound=FittedFeatures)


def readable(cls: type[_Fitted]) -> type[_Fitted]:
    """Class decorator: releases may contain this kind of map; `cls.read(arrays, settings)` restores it."""
    _READERS[cls.kind] = cls.read  # type: ignore[attr-defined]  # every decorated class has it
    return cls


def read_features(arrays: Mapping[str, AnyArray], settings: Mapping[str, Any]) -> FittedFeatures:
    """Restore a map from a release."""
    kind = settings.get("kind")
    if kind not in _READERS:
        raise ArgumentError(
            f"A feature map's kind must be one of {', '.join(sorted(_READERS))}; got {kind!r}."
        )
    return _READERS[kind](arrays, settings)


def describe(features: FittedFeatures) -> dict[str, Any]:
    """What a release records about the map, next to its arrays."""
    return {"kind": features.kind, **features.settings()}
