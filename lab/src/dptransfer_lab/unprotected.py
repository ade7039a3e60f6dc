"""A classifier without a guarantee: it predicts, so that it can be compared with, and cannot be saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.data import PrivateEmbeddings

FloatArray = NDArray[np.float64]
PREFIX = "as-published-"
"""How the names of what is not private begin, wherever they are shown."""


@dataclass(frozen=True)
class OpenHead:
    """How scores become probabilities, as evaluations ask for it."""

    temperature: float = 0.05


@dataclass(frozen=True, eq=False)
class Unprotected:
    """What a mechanism without a guarantee gives: it predicts and nothing else; it cannot be saved.

    Attributes:
        classes: the declared classes.
        weights: one row per class.
        offset: added to each class's score.
        unit: whether rows are scaled to unit norm first.
        head: how scores become probabilities.
        notes: what it did, in words.
        prototypes: rows of the pool it chose, by class, where it chose some.
    """

    classes: tuple[str | int, ...]
    weights: FloatArray
    offset: FloatArray
    unit: bool = True
    head: OpenHead = OpenHead()
    notes: tuple[str, ...] = ()
    prototypes: dict[str, list[int]] = field(default_factory=dict)

    def scores(self, x: ArrayLike, *, device: str = "cpu") -> FloatArray:
        """One score per class, higher for likelier ones; computed on the CPU, whatever `device` says."""
        rows = np.asarray(x, dtype=np.float64)
        scored: FloatArray = (unit_rows(rows) if self.unit else rows) @ self.weights.T + self.offset
        return scored

    def predict(self, x: ArrayLike) -> NDArray[Any]:
        """The likeliest class of each row."""
        chosen: NDArray[Any] = np.asarray(self.classes)[self.scores(x).argmax(axis=1)]
        return chosen


def unit_rows(rows: ArrayLike) -> FloatArray:
    """Rows of unit norm; a row of zeros stays one."""
    wide = np.asarray(rows, dtype=np.float64)
    unit: FloatArray = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-300)
    return unit


def class_sums(private: PrivateEmbeddings) -> tuple[FloatArray, NDArray[np.int64]]:
    """Sums of unit rows, and sizes, by class."""
    classes = len(private.facts.classes)
    sums = np.zeros((classes, private.facts.dimension))
    np.add.at(sums, private.labels, unit_rows(private.rows))
    return sums, np.bincount(private.labels, minlength=classes)


def nearest(private: PrivateEmbeddings, prototypes: FloatArray, note: str) -> Unprotected:
    """The class whose prototype has the largest cosine."""
    return Unprotected(private.facts.classes, unit_rows(prototypes), np.zeros(len(prototypes)), notes=(note,))


def softmax(scores: FloatArray) -> FloatArray:
    """Softmax of each row."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: FloatArray = raised / raised.sum(axis=1, keepdims=True)
    return shares
