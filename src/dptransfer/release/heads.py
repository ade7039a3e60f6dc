"""The last layer of a released classifier: mapped rows to one score per class.

A head is nothing but released arrays and a public rule. Scores are higher for likelier classes; `temperature`
is the public number by which they are divided before a softmax turns them into probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.errors import ArgumentError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CosineHead:
    """Cosine to one prototype per class; only a prototype's direction matters, so it needs no count.

    Attributes:
        prototypes: (classes, dimension).
        temperature: spread of the probabilities.
    """

    prototypes: FloatArray
    temperature: float = 0.05
    kind: ClassVar[str] = "cosine"

    def scores(self, rows: FloatArray) -> FloatArray:
        """(rows, classes) cosines."""
        return unit_rows(rows) @ unit_rows(self.prototypes).T


@dataclass(frozen=True, eq=False)
class MeanCosineHead:
    """Mean cosine to the K prototypes of each class (equation 10 of the prototypes paper).

    The mean of cosines to unit vectors is the product with their mean, so K costs nothing at prediction.

    Attributes:
        prototypes: (classes, K, dimension).
        temperature: spread of the probabilities.
    """

    prototypes: FloatArray
    temperature: float = 0.05
    kind: ClassVar[str] = "mean-cosine"

    def scores(self, rows: FloatArray) -> FloatArray:
        """(rows, classes) mean cosines."""
        means: FloatArray = unit_rows(self.prototypes).mean(axis=1)
        return unit_rows(rows) @ means.T


@dataclass(frozen=True, eq=False)
class EuclideanHead:
    """Minus half the squared distance to one centre per class.

    Attributes:
        centres: (classes, dimension).
        temperature: spread of the probabilities.
    """

    centres: FloatArray
    temperature: float = 0.05
    kind: ClassVar[str] = "euclidean"

    def scores(self, rows: FloatArray) -> FloatArray:
        """(rows, classes) scores, without the term that is the same for all classes."""
        halves: FloatArray = 0.5 * np.square(self.centres).sum(axis=1)
        return rows @ self.centres.T - halves


@dataclass(frozen=True, eq=False)
class QuadraticHead:
    """offset_c + linear_c · x − ½ precision_c · x²: a diagonal Gaussian per class, or a linear head.

    Attributes:
        linear: (classes, dimension).
        offset: (classes,).
        precision: (classes, dimension), zeros for a linear head.
        temperature: spread of the probabilities.
    """

    linear: FloatArray
    offset: FloatArray
    precision: FloatArray
    temperature: float = 1.0
    kind: ClassVar[str] = "quadratic"

    def scores(self, rows: FloatArray) -> FloatArray:
        """(rows, classes) log scores."""
        return self.offset + rows @ self.linear.T - 0.5 * (rows * rows) @ self.precision.T


Head: TypeAlias = CosineHead | MeanCosineHead | EuclideanHead | QuadraticHead
HEADS: dict[str, type[Head]] = {
    head.kind: head for head in (CosineHead, MeanCosineHead, EuclideanHead, QuadraticHead)
}


def head_arrays(head: Head) -> dict[str, FloatArray]:
    """The released arrays by name."""
    values = {field.name: getattr(head, field.name) for field in fields(head)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def describe_head(head: Head) -> dict[str, Any]:
    """What a release records about the head, next to its arrays."""
    return {"kind": head.kind, "temperature": head.temperature}


def read_head(arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Head:
    """Restore a head from a release."""
    kind = settings.get("kind")
    if kind not in HEADS:
        raise ArgumentError(f"A head's kind must be one of {', '.join(sorted(HEADS))}; got {kind!r}.")
    floats = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    try:
        return HEADS[kind](**floats, temperature=float(settings["temperature"]))
    except (KeyError, TypeError) as problem:
        raise ArgumentError(f"The {kind} head could not be restored: {problem}.") from None


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows scaled to unit length along the last axis; zero rows stay zero."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: FloatArray = rows / np.maximum(norms, np.finfo(np.float64).tiny)
    return unit
