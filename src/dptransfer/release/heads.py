"""The last layer of a released classifier: mapped rows to one score per class.

A head is nothing but released arrays and a public rule. What it makes of its arrays alone it makes once.
Scores are higher for likelier classes; `temperature` is the public number by which they are divided before a
softmax turns them into probabilities.

Scores are written in the operations that NumPy arrays and torch tensors share, so that `scores_on_device`
need only move the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Floats, JsonObject
from dptransfer.errors import ArgumentError
from dptransfer.exact.cuda import namespace

if TYPE_CHECKING:
    from dptransfer.exact.feature_map import RowMap

Form: TypeAlias = tuple[Floats, Floats | None, Floats | None]
"""(linear, offset, precision) of offset_c + linear_c · x − ½ precision_c · x²; None for what is 0."""


@dataclass(frozen=True, eq=False)
class Head:
    """Released arrays, and the form of the scores that they give.

    Attributes:
        temperature: spread of the probabilities.
    """

    temperature: float = field(default=0.05, kw_only=True)
    kind: ClassVar[str]

    @cached_property
    def form(self) -> Form:
        """What scores are computed with; made once."""
        raise ArgumentError(f"A head of kind '{self.kind}' has no quadratic form; ask for score_arrays.")

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) scores."""
        linear, offset, precision = self.form
        scores: Floats = rows @ linear.T
        if offset is not None:
            scores = offset + scores
        return scores if precision is None else scores - 0.5 * (rows * rows) @ precision.T


@dataclass(frozen=True, eq=False)
class CosineHead(Head):
    """Cosine to one prototype per class; only a prototype's direction matters, so it needs no count.

    Attributes:
        prototypes: (classes, dimension).
    """

    prototypes: Floats
    kind: ClassVar[str] = "cosine"

    @cached_property
    def form(self) -> Form:
        """Prototypes of unit length."""
        return unit_rows(self.prototypes), None, None

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) cosines; their mean, where a class has several prototypes."""
        return super().scores(unit_rows(rows))


@dataclass(frozen=True, eq=False)
class MeanCosineHead(CosineHead):
    """Mean cosine to the K prototypes of each class (equation 10 of the prototypes paper).

    The mean of cosines to unit vectors is the product with their mean, so K costs nothing at prediction.

    Attributes:
        prototypes: (classes, K, dimension).
    """

    kind: ClassVar[str] = "mean-cosine"

    @cached_property
    def form(self) -> Form:
        """Means of the prototypes of unit length."""
        return unit_rows(self.prototypes).mean(axis=1), None, None


@dataclass(frozen=True, eq=False)
class EuclideanHead(Head):
    """Minus half the squared distance to one centre per class, without the term that all classes share.

    Attributes:
        centres: (classes, dimension).
    """

    centres: Floats
    kind: ClassVar[str] = "euclidean"

    @cached_property
    def form(self) -> Form:
        """The centres, and minus half their squared lengths."""
        return self.centres, -0.5 * (self.centres * self.centres).sum(axis=1), None


@dataclass(frozen=True, eq=False)
class LinearHead(Head):
    """offset_c + weights_c · x: what softmax regression, least squares and their kin end in.

    Attributes:
        weights: (classes, dimension).
        offset: (classes,).
    """

    weights: Floats
    offset: Floats
    temperature: float = field(default=1.0, kw_only=True)
    kind: ClassVar[str] = "linear"

    @cached_property
    def form(self) -> Form:
        """Weights and offset."""
        return self.weights, self.offset, None


@dataclass(frozen=True, eq=False)
class QuadraticHead(Head):
    """offset_c + linear_c · x − ½ precision_c · x²: a diagonal Gaussian per class.

    Attributes:
        linear: (classes, dimension).
        offset: (classes,).
        precision: (classes, dimension).
    """

    linear: Floats
    offset: Floats
    precision: Floats
    temperature: float = field(default=1.0, kw_only=True)
    kind: ClassVar[str] = "quadratic"

    @cached_property
    def form(self) -> Form:
        """All three arrays."""
        return self.linear, self.offset, self.precision


@dataclass(frozen=True, eq=False)
class AverageHead(Head):
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
    temperature: float = field(default=1.0, kw_only=True)
    kind: ClassVar[str] = "average"

    def scores(self, rows: Floats) -> Floats:
        """(rows, classes) log probabilities."""
        own, beside = self.offset + rows @ self.weights.T, rows @ self.prior.T
        mean: Floats = namespace(rows).logaddexp(_log_softmax(own), _log_softmax(beside)) - math.log(2)
        return mean


_ALL = (CosineHead, MeanCosineHead, EuclideanHead, LinearHead, QuadraticHead, AverageHead)
HEADS: dict[str, type[Head]] = {head.kind: head for head in _ALL}


def score_arrays(head: Head) -> dict[str, Floats | None]:
    """What queries about a classifier's answers take of a head: its form, and a prior where it has one."""
    if isinstance(head, AverageHead):
        return {"linear": head.weights, "offset": head.offset, "precision": None, "prior": head.prior}
    linear, offset, precision = head.form
    offset = np.zeros(len(linear)) if offset is None else offset
    return {"linear": linear, "offset": offset, "precision": precision, "prior": None}


def head_arrays(head: Head) -> dict[str, Floats]:
    """The released arrays by name."""
    values = {field.name: getattr(head, field.name) for field in fields(head)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def describe_head(head: Head) -> JsonObject:
    """What a release records about the head, next to its arrays."""
    return {"kind": head.kind, "temperature": head.temperature}


def scores_on_device(head: Head, device: str = "cuda") -> RowMap:
    """The head's `scores` for torch tensors there, its arrays moved once."""
    moved: dict[str, Any] = {
        name: torch.from_numpy(array).to(device) for name, array in head_arrays(head).items()
    }
    on_device: Any = replace(head, **moved)
    scores: RowMap = on_device.scores
    return scores


def read_head(arrays: Mapping[str, AnyArray], settings: JsonObject) -> Head:
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
    xp = namespace(logits)
    below = logits - xp.amax(logits, axis=1, keepdims=True)
    found: Floats = below - xp.log(xp.exp(below).sum(axis=1, keepdims=True))
    return found
