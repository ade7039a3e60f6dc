"""The last layer of a released classifier: mapped rows to one score per class.

A head is nothing but released arrays and a public rule. What it makes of its arrays alone it makes once.
Scores are higher for likelier classes; `temperature` is the public number by which they are divided before a
softmax turns them into probabilities.

Scores are written in the operations that NumPy arrays and torch tensors share, so that `scores_on_device`
need only move the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dptransfer.base.types import AnyArray, Floats
from dptransfer.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class CosineHead:
    """Cosine to one prototype per class; only a prototype's direction matters, so it needs no count.

    Attributes:
        prototypes: (classes, dimension).
        temperature: spread of the probabilities.
    """

    prototypes: Floats
    temperature: float = 0.05
    kind: ClassVar[str] = "cosine"

    @cached_property
    def directions(self) -> Floats:
        """(classes, dimension) prototypes of unit length."""
        return unit_rows(self.prototypes)

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) cosines."""
        return unit_rows(rows) @ self.directions.T


@dataclass(frozen=True, eq=False)
class MeanCosineHead:
    """Mean cosine to the K prototypes of each class (equation 10 of the prototypes paper).

    The mean of cosines to unit vectors is the product with their mean, so K costs nothing at prediction.

    Attributes:
        prototypes: (classes, K, dimension).
        temperature: spread of the probabilities.
    """

    prototypes: Floats
    temperature: float = 0.05
    kind: ClassVar[str] = "mean-cosine"

    @cached_property
    def directions(self) -> Floats:
        """(classes, dimension) means of the prototypes of unit length."""
        means: Floats = unit_rows(self.prototypes).mean(axis=1)
        return means

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) mean cosines."""
        return unit_rows(rows) @ self.directions.T


@dataclass(frozen=True, eq=False)
class EuclideanHead:
    """Minus half the squared distance to one centre per class.

    Attributes:
        centres: (classes, dimension).
        temperature: spread of the probabilities.
    """

    centres: Floats
    temperature: float = 0.05
    kind: ClassVar[str] = "euclidean"

    @cached_property
    def _halves(self) -> Floats:
        halves: Floats = 0.5 * (self.centres * self.centres).sum(axis=1)
        return halves

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) scores, without the term that is the same for all classes."""
        return rows @ self.centres.T - self._halves


@dataclass(frozen=True, eq=False)
class LinearHead:
    """offset_c + weights_c · x: what softmax regression, least squares and their kin end in.

    Attributes:
        weights: (classes, dimension).
        offset: (classes,).
        temperature: spread of the probabilities.
    """

    weights: Floats
    offset: Floats
    temperature: float = 1.0
    kind: ClassVar[str] = "linear"

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) logits."""
        return self.offset + rows @ self.weights.T


@dataclass(frozen=True, eq=False)
class QuadraticHead:
    """offset_c + linear_c · x − ½ precision_c · x²: a diagonal Gaussian per class.

    Attributes:
        linear: (classes, dimension).
        offset: (classes,).
        precision: (classes, dimension).
        temperature: spread of the probabilities.
    """

    linear: Floats
    offset: Floats
    precision: Floats
    temperature: float = 1.0
    kind: ClassVar[str] = "quadratic"

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) log scores."""
        return self.offset + rows @ self.linear.T - 0.5 * (rows * rows) @ self.precision.T


@dataclass(frozen=True, eq=False)
class AverageHead:
    """The logarithm of the mean of two softmaxes: that of offset_c + weights_c · x, and that of prior_c · x.

    Attributes:
        weights: (classes, dimension).
        offset: (classes,).
        prior: (classes, dimension) logits of the second head.
        temperature: spread of the probabilities; 1 gives the mean itself.
    """

    weights: Floats
    offset: Floats
    prior: Floats
    temperature: float = 1.0
    kind: ClassVar[str] = "average"

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) log probabilities."""
        own, beside = self.offset + rows @ self.weights.T, rows @ self.prior.T
        mean: Floats = _namespace(rows).logaddexp(_log_softmax(own), _log_softmax(beside)) - math.log(2)
        return mean


Head: TypeAlias = CosineHead | MeanCosineHead | EuclideanHead | LinearHead | QuadraticHead | AverageHead
HEADS: dict[str, type[Head]] = {
    head.kind: head
    for head in (CosineHead, MeanCosineHead, EuclideanHead, LinearHead, QuadraticHead, AverageHead)
}


def quadratic_form(head: Head) -> tuple[Floats, Floats, Floats | None]:
    """(linear, offset, precision) with the head's order of classes on rows of unit norm.

    >>> quadratic_form(CosineHead(np.array([[3.0, 4.0]])))[0]
    array([[0.6, 0.8]])
    """
    if isinstance(head, AverageHead):
        raise ArgumentError("The mean of two softmaxes has no quadratic form; ask for score_arrays.")
    if isinstance(head, QuadraticHead):
        return head.linear, head.offset, head.precision
    if isinstance(head, LinearHead):
        return head.weights, head.offset, None
    if isinstance(head, EuclideanHead):
        return head.centres, -0.5 * np.square(head.centres).sum(axis=1), None
    return head.directions, np.zeros(len(head.directions)), None


def score_arrays(head: Head) -> dict[str, Floats | None]:
    """What queries about a classifier's answers take of a head: its form, and a prior where it has one."""
    if isinstance(head, AverageHead):
        return {"linear": head.weights, "offset": head.offset, "precision": None, "prior": head.prior}
    linear, offset, precision = quadratic_form(head)
    return {"linear": linear, "offset": offset, "precision": precision, "prior": None}


def head_arrays(head: Head) -> dict[str, Floats]:
    """The released arrays by name."""
    values = {field.name: getattr(head, field.name) for field in fields(head)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def describe_head(head: Head) -> dict[str, Any]:
    """What a release records about the head, next to its arrays."""
    return {"kind": head.kind, "temperature": head.temperature}


def scores_on_device(head: Head, device: str = "cuda") -> Callable[[Any], Any]:
    """The head's `scores` for torch tensors there, its arrays moved once."""
    import torch

    moved: dict[str, Any] = {
        name: torch.from_numpy(array).to(device) for name, array in head_arrays(head).items()
    }
    return replace(head, **moved).scores


def read_head(arrays: Mapping[str, AnyArray], settings: Mapping[str, Any]) -> Head:
    """Restore a head from a release."""
    kind = settings.get("kind")
    if kind not in HEADS:
        raise ArgumentError(f"A head's kind must be one of {', '.join(sorted(HEADS))}; got {kind!r}.")
    floats = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    try:
        return HEADS[kind](**floats, temperature=float(settings["temperature"]))
    except (KeyError, TypeError) as problem:
        raise ArgumentError(f"The {kind} head could not be restored: {problem}.") from None


def unit_rows(rows: Floats) -> Floats:
    """Rows scaled to unit length along the last axis; zero rows stay zero."""
    norms = (rows * rows).sum(axis=-1, keepdims=True) ** 0.5
    unit: Floats = rows / (norms + (norms == 0))
    return unit


def _log_softmax(logits: Floats) -> Floats:
    xp = _namespace(logits)
    below = logits - xp.amax(logits, axis=1, keepdims=True)
    found: Floats = below - xp.log(xp.exp(below).sum(axis=1, keepdims=True))
    return found


def _namespace(array: Any) -> Any:
    """NumPy, or torch for its tensors."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch
