"""A model without a guarantee: it scores rows, so that it can be compared with, and cannot be saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from dptransfer.privacy import Budget
    from dptransfer_lab.tasks import Task

FloatArray = NDArray[np.float64]
PREFIX = "as-published-"
"""How the names of what is not private begin, wherever they are shown."""


@dataclass(frozen=True, eq=False)
class Unprotected:
    """What a mechanism without a guarantee gives.

    Attributes:
        weights: one row per class; a row's score is its product with the row at unit norm.
        offset: added to each class's score.
        temperature: of the softmax that makes probabilities of scores.
        note: what it did, in words.
        prototypes: rows of the pool it chose, by class, where it chose some.
    """

    weights: FloatArray
    offset: FloatArray
    temperature: float = 0.05
    note: str = ""
    prototypes: Mapping[str, list[int]] = field(default_factory=dict)

    def scores(self, x: ArrayLike) -> FloatArray:
        """One score per class, higher for likelier ones."""
        scored: FloatArray = unit_rows(x) @ self.weights.T + self.offset
        return scored


class NotPrivate(Protocol):
    """A mechanism that runs in the laboratory alone: a frozen dataclass whose fields are its settings."""

    @property
    def name(self) -> str:
        """Its name in studies; it begins with 'as-published-'."""

    @property
    def why(self) -> str:
        """What is wrong with it, in words."""

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit on the task's rows."""


def unit_rows(rows: ArrayLike) -> FloatArray:
    """Rows of unit norm; a row of zeros stays one."""
    wide = np.asarray(rows, dtype=np.float64)
    unit: FloatArray = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-300)
    return unit


def class_sums(task: Task) -> tuple[FloatArray, NDArray[np.int64]]:
    """Sums of unit rows, and sizes, by class."""
    rows = unit_rows(task.rows)
    sums = np.zeros((len(task.classes), rows.shape[1]))
    np.add.at(sums, task.labels, rows)
    return sums, np.bincount(task.labels, minlength=len(task.classes))


def nearest(prototypes: FloatArray, note: str) -> Unprotected:
    """The class whose prototype has the largest cosine."""
    return Unprotected(unit_rows(prototypes), np.zeros(len(prototypes)), note=note)
