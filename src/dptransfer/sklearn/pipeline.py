"""Pipelines whose steps in front treat each row by itself, so that the guarantee covers the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, Normalizer
from sklearn.utils.validation import check_is_fitted, validate_data

from dptransfer.arrays import AnyArray
from dptransfer.errors import ArgumentError
from dptransfer.sklearn.classifier import PrivateClassifier
from dptransfer.sklearn.inputs import rows_of
from dptransfer.sklearn.notices import checked_front


class FiniteRows(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Rows as they are, row after row in memory, with zeros for a row that holds a NaN or an infinity.

    Stands first, so that no step of scikit-learn refuses a row by its values, or prints them. (Its steps
    still refuse to have no rows at all, which the estimators do not.) Rows that lie column by column, as
    those of a data frame may, would be summed in another order when there is but one of them.
    """

    def fit(self, X: Any, y: object = None) -> Self:
        """Keep the number of features and their names."""
        validate_data(self, X if hasattr(X, "columns") else rows_of(X), skip_check_array=True)
        return self

    def transform(self, X: Any) -> AnyArray:
        """The rows, finite."""
        check_is_fitted(self, "n_features_in_")
        rows = rows_of(X)
        validate_data(self, X if hasattr(X, "columns") else rows, skip_check_array=True, reset=False)
        return np.ascontiguousarray(np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


ROW_WISE = (FiniteRows, Normalizer, Binarizer)
"""Steps that are known to map each row by itself, bit for bit, whatever is beside it (after the first)."""


class PrivatePipeline(Pipeline):  # type: ignore[misc]  # scikit-learn is untyped
    """A scikit-learn pipeline that ends in a private estimator and has row-wise steps only in front of it."""

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Check the steps, then fit, and charge the ledger once."""
        steps = [step for _, step in self.steps]
        require_row_wise(steps)
        _require_finite_rows_first(steps[:-1])
        token = checked_front.set(True)
        try:
            with np.errstate(all="ignore"):  # a warning of overflow would tell that a row is there
                fitted: Self = super().fit(X, y, **params)
        finally:
            checked_front.reset(token)
        return fitted


def make_private_pipeline(*steps: Any) -> PrivatePipeline:
    """A pipeline of these steps, refused if one in front of the estimator may learn from rows.

    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from dptransfer.sklearn import PrivateClassifier
    >>> [name for name, _ in make_private_pipeline(Normalizer(), PrivateClassifier("mean")).steps]
    ['finiterows', 'normalizer', 'privateclassifier']
    >>> make_private_pipeline(StandardScaler(), PrivateClassifier("mean"))
    Traceback (most recent call last):
    ...
    dptransfer.errors.ArgumentError: A step in front of a private estimator must map each row by itself; \
StandardScaler is not known to. Leave it out, or learn it from public rows with features=PublicMap(...); \
known are FiniteRows, Normalizer, Binarizer.
    """
    require_row_wise(steps)
    return PrivatePipeline(make_pipeline(FiniteRows(), *steps).steps)


def require_row_wise(steps: Any) -> None:
    """Raise unless the last step is a private estimator and the others are known to be row-wise.

    Exactly the listed types are let through: a subclass may learn, and so may a function in a
    FunctionTransformer.
    """
    *front, last = steps or (None,)
    if not isinstance(last, PrivateClassifier):
        raise ArgumentError(
            "A private pipeline must end in a private estimator; this one ends in "
            f"{type(last).__name__}. End it with PrivateClassifier(...) or PrivateSearch(...)."
        )
    for step in _active(front):
        if type(step) not in ROW_WISE:
            known = ", ".join(one.__name__ for one in ROW_WISE)
            raise ArgumentError(
                "A step in front of a private estimator must map each row by itself; "
                f"{type(step).__name__} is not known to. Leave it out, or learn it from public rows with "
                f"features=PublicMap(...); known are {known}."
            )


def _require_finite_rows_first(front: Sequence[Any]) -> None:
    """Raise unless `FiniteRows` stands before all other steps that do something."""
    first = next(iter(_active(front)), None)
    if first is not None and type(first) is not FiniteRows:
        raise ArgumentError(
            "The first step of a private pipeline must be FiniteRows, so that no other refuses rows by their "
            f"values; this one begins with {type(first).__name__}. Build it with make_private_pipeline."
        )


def _active(steps: Sequence[Any]) -> list[Any]:
    """The steps that do something."""
    return [step for step in steps if step is not None and step != "passthrough"]
