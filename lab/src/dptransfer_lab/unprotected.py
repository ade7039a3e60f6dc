"""Models without a guarantee, and references without any noise. NOT PRIVATE: they cannot be saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.accounting.calibrate import LARGEST_EPSILON
from dptransfer.methods import PrivateMethod
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

if TYPE_CHECKING:
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


_WHY = "it has no noise at all; the non-private reference of a table"
_NEVER = -1e9  # the score of a class that no row has


@dataclass(frozen=True)
class Paragon:
    """Softmax regression on all rows, private ones and shots, without any privacy: the ceiling papers print.

    Attributes:
        strength: pull toward zero; unit rows need little.
    """

    strength: float = 1e-4
    name: ClassVar[str] = PREFIX + "paragon"
    why: ClassVar[str] = _WHY

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit; the budget is not looked at."""
        from sklearn.linear_model import LogisticRegression

        rows, labels = unit_rows(task.rows), task.labels
        if task.shots is not None:
            rows = np.concatenate([rows, unit_rows(task.shots[0])])
            labels = np.concatenate([labels, task.shots[1]])
        classes = len(task.classes)
        weights, offset = np.zeros((classes, rows.shape[1])), np.full(classes, _NEVER)
        seen = np.unique(labels)
        if len(seen) == 1:
            offset[seen] = 0.0
        else:
            model = LogisticRegression(C=1 / (self.strength * len(rows)), max_iter=2000, tol=1e-3)
            fitted = model.fit(rows, labels)
            for ours, theirs in ((weights, fitted.coef_), (offset, fitted.intercept_)):
                two = len(seen) == 2  # of which scikit-learn keeps one row of weights
                ours[seen] = np.concatenate([-theirs, theirs]) / 2 if two else theirs
        return Unprotected(weights, offset, temperature=1.0)


@dataclass(frozen=True)
class ClassMeans:
    """The nearest class mean without any noise: the ceiling of noisy class sums."""

    name: ClassVar[str] = PREFIX + "class-means"
    why: ClassVar[str] = _WHY

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit; the budget is not looked at."""
        return nearest(class_sums(task)[0], "no noise")


WITHOUT_NOISE = "-without-noise"


@dataclass(frozen=True)
class WithoutNoise:
    """A method of the library with its noise left out: the column ε = ∞ of a table.

    It is planned at the largest ε there is, where choices are those of the best candidates.

    Attributes:
        method: what runs.
    """

    method: PrivateMethod

    def budget(self, asked: Budget) -> Budget:
        """The largest of the relation that was asked for."""
        return Budget(epsilon=LARGEST_EPSILON, delta=1e-5, relation=asked.relation)


class NoNoise(SeededNoise):
    """Zeros in place of noise; samples are drawn all the same."""

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Zeros."""
        return np.zeros(shape, dtype=np.int64)

    discrete_laplace = discrete_gaussian
