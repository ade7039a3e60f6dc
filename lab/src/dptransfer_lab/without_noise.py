"""What could be had without privacy: the references that papers print beside private methods. NOT PRIVATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dptransfer_lab.unprotected import PREFIX, Unprotected, class_sums, nearest, unit_rows

if TYPE_CHECKING:
    from dptransfer.privacy import Budget
    from dptransfer_lab.tasks import Task

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
