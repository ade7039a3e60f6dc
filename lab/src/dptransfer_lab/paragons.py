"""What could be had without privacy: the references that papers print beside private methods. NOT PRIVATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.privacy import Budget
from dptransfer_lab.unprotected import PREFIX, OpenHead, Unprotected, class_sums, nearest, unit_rows


@dataclass(frozen=True)
class Paragon:
    """Softmax regression on all rows, private ones and shots, without any privacy: the ceiling papers print.

    Attributes:
        strength: pull toward zero; unit rows need little.
    """

    strength: float = 1e-4
    name: ClassVar[str] = PREFIX + "paragon"
    safe: ClassVar[bool] = False
    why: ClassVar[str] = "it has no noise at all; the non-private reference of a table"

    def __call__(
        self,
        private: PrivateEmbeddings,
        public: PublicEmbeddings | None,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Unprotected:
        """Fit; the budget is not looked at."""
        from sklearn.linear_model import LogisticRegression

        rows, labels = unit_rows(private.rows), private.labels
        if public is not None and public.shots is not None:
            shots, their = public.shots_for(private.facts)
            rows, labels = np.concatenate([rows, unit_rows(shots)]), np.concatenate([labels, their])
        classes = len(private.facts.classes)
        weights, offset = np.zeros((classes, rows.shape[1])), np.full(classes, -1e9)
        seen = np.unique(labels)
        if len(seen) == 1:
            offset[seen] = 0.0
            return Unprotected(private.facts.classes, weights, offset, head=OpenHead(1.0))
        fitted = LogisticRegression(C=1 / (self.strength * len(rows)), max_iter=2000, tol=1e-3).fit(
            rows, labels
        )
        both = len(seen) == 2  # scikit-learn keeps one row of weights for two classes
        weights[seen] = np.concatenate([-fitted.coef_, fitted.coef_]) / 2 if both else fitted.coef_
        offset[seen] = (
            np.concatenate([-fitted.intercept_, fitted.intercept_]) / 2 if both else fitted.intercept_
        )
        return Unprotected(private.facts.classes, weights, offset, head=OpenHead(1.0))


@dataclass(frozen=True)
class ClassMeans:
    """The nearest class mean without any noise: the ceiling of noisy class sums."""

    name: ClassVar[str] = PREFIX + "class-means"
    safe: ClassVar[bool] = False
    why: ClassVar[str] = "it has no noise at all; the non-private reference of a table"

    def __call__(
        self,
        private: PrivateEmbeddings,
        public: PublicEmbeddings | None,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Unprotected:
        """Fit; the budget is not looked at."""
        return nearest(private, class_sums(private)[0], "no noise")
