"""Pipelines whose steps in front treat each row by itself, so that the guarantee covers the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, Normalizer
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dptransfer.base.types import AnyArray
from dptransfer.errors import ArgumentError
from dptransfer.sklearn.private_classifier import PrivateClassifier, checked_front
from dptransfer.sklearn.validation import noted_rows


class FiniteRows(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Rows as they are, row after row in memory, with zeros for a row that holds a NaN or an infinity.

    Stands first, so that no step of scikit-learn refuses a row by its values, or prints them. (Its steps
    still refuse to have no rows at all, which the estimators do not.) Rows that lie column by column, as
    those of a data frame may, would be summed in another order when there is but one of them.
    """

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Keep the number of features and their names."""
        noted_rows(self, X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> AnyArray:
        """The rows, finite."""
        check_is_fitted(self, "n_features_in_")
        rows = noted_rows(self, X, reset=False)
        return np.ascontiguousarray(np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


ROW_WISE = (FiniteRows, Normalizer, Binarizer)
"""Steps that are known to map each row by itself, bit for bit, whatever is beside it (after the first)."""


class PrivatePipeline(Pipeline):  # type: ignore[misc]  # scikit-learn is untyped
    """A scikit-learn pipeline that ends in a private estimator and has row-wise steps only in front of it."""

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Check the steps, then fit, and charge the ledger once."""
        front = row_wise_front([step for _, step in self.steps])
        if front and type(front[0]) is not FiniteRows:
            raise ArgumentError(
                "The first step of a private pipeline must be FiniteRows, so that no other refuses rows by "
                f"their values; it is {type(front[0]).__name__}. Build it with make_private_pipeline."
            )
        token = checked_front.set(True)
        try:
            with np.errstate(all="ignore"):  # a warning of overflow would tell that a row is there
                fitted: Self = super().fit(X, y, **params)
        finally:
            checked_front.reset(token)
        return fitted


def make_private_pipeline(*steps: BaseEstimator) -> PrivatePipeline:
    """A pipeline of these steps, refused if one in front of the estimator may learn from rows.

    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from dptransfer.sklearn.private_classifier import PrivateClassifier
    >>> [name for name, _ in make_private_pipeline(Normalizer(), PrivateClassifier("mean")).steps]
    ['finiterows', 'normalizer', 'privateclassifier']
    >>> make_private_pipeline(StandardScaler(), PrivateClassifier("mean"))
    Traceback (most recent call last):
    ...
    dptransfer.errors.ArgumentError: A step in front of a private estimator must map each row by itself; \
StandardScaler is not known to. Leave it out, or learn it from public rows with features=PublicMap(...); \
known are FiniteRows, Normalizer, Binarizer.
    """
    row_wise_front(steps)
    return PrivatePipeline(make_pipeline(FiniteRows(), *steps).steps)


def row_wise_front(steps: Sequence[object]) -> list[object]:
    """The steps that do something in front of a private estimator, which must be last; all row-wise.

    Exactly the listed types are let through: a subclass may learn, and so may a function in a
    FunctionTransformer.
    """
    *front, last = steps or (None,)
    if not isinstance(last, PrivateClassifier):
        raise ArgumentError(
            f"A private pipeline must end in PrivateClassifier or PrivateSearch; got {type(last).__name__}."
        )
    active = [step for step in front if step is not None and step != "passthrough"]
    others = [type(step).__name__ for step in active if type(step) not in ROW_WISE]
    if others:
        raise ArgumentError(
            f"A step in front of a private estimator must map each row by itself; {others[0]} is not known "
            "to. Leave it out, or learn it from public rows with features=PublicMap(...); known are "
            f"{', '.join(one.__name__ for one in ROW_WISE)}."
        )
    return active
