"""Rows and labels as scikit-learn's users pass them, checked without telling anything about them.

scikit-learn's own checks print lengths, and at times values, of what they refuse, and warn by the number of
distinct labels. Dimensions and types are public here; the number of rows and whatever they hold are not, so
these messages contain neither. The wording keeps the key words that scikit-learn's common checks look for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from dptransfer.base.types import AnyArray, array_or_none
from dptransfer.data import PublicEmbeddings
from dptransfer.data.labels import declared_classes
from dptransfer.errors import ArgumentError, DataError


def declared_values(classes: Sequence[Any] | str | int | None, labels: AnyArray) -> AnyArray:
    """The declared list; the classes in `labels` only where that set is declared to be public."""
    if isinstance(classes, str) and classes == "observed":
        return _observed(labels)
    if classes is None or isinstance(classes, str):
        raise DataError(
            f"Classes must be declared, since the set that occurs is private itself; got {classes!r}. "
            "Pass the full public list, classes=[...], or classes='observed' if that set is public anyway."
        )
    if isinstance(classes, int | np.integer):
        classes = declared_classes(int(classes))
    declared = np.asarray(classes)
    if declared.ndim != 1 or len(np.unique(declared)) != len(declared):
        raise DataError("classes must be one list of distinct classes; it is not. Pass each class once.")
    return declared


def _observed(labels: AnyArray) -> AnyArray:
    """What occurs in the labels; whether that can be a list of classes depends on this public set alone."""
    for kind in ((int, np.integer, np.bool_), str, bytes):
        if all(isinstance(label, kind) for label in labels.tolist()):
            return np.unique(labels)
    raise ArgumentError(
        "Unknown label type: observed classes must be all words or all whole numbers; these are not. "
        "Convert them, for example with y.astype(int) or y.astype(str), or declare classes=[...]."
    )


def class_words(values: AnyArray) -> list[str]:
    """The classes as words, for a release of the model; positions where two of them read the same."""
    words = [str(value) for value in values.tolist()]
    return words if len(set(words)) == len(words) else [str(place) for place in range(len(words))]


def with_class_words(public: PublicEmbeddings | None, values: AnyArray) -> PublicEmbeddings | None:
    """The public rows, with their labels called as the classes are called inside."""
    shots = None if public is None else public.shots
    if public is None or shots is None or shots.classes is None or shots.labels is None:
        return public
    inside = dict(zip(values.tolist(), class_words(values), strict=True))
    renamed = tuple(inside.get(name, str(name)) for name in shots.classes)
    if renamed == shots.classes:
        return public
    own = {name: getattr(shots, name) for name in ("name", "encoder", "columns", "source_digests")}
    return public.with_shots(PublicEmbeddings(shots.rows, shots.labels, classes=renamed, **own))


class NotNumbers(DataError, TypeError):
    """An array of Python objects that are not all numbers."""


def noted_rows(of: object, X: ArrayLike, *, reset: bool) -> AnyArray:
    """The rows; `of` keeps, or compares with, their width and column names, both of which are public."""
    rows = rows_of(X)
    validate_data(of, X if hasattr(X, "columns") else rows, skip_check_array=True, reset=reset)
    return rows


def rows_of(X: ArrayLike) -> AnyArray:
    """The rows as an array of real numbers with two dimensions."""
    if issparse(X):
        raise DataError("X must be a dense array; it is sparse. Convert it with X.toarray().")
    rows = array_or_none(X)
    if rows is None or rows.ndim != 2:
        found = "lists of unequal length" if rows is None else f"the number of dimensions {rows.ndim}"
        remedy = "Reshape your data: X.reshape(1, -1) is one example, X.reshape(-1, 1) has one feature."
        raise DataError(f"X must have two dimensions, (examples, features); got {found}. {remedy}")
    if rows.shape[1] == 0:
        raise DataError("X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required. Pass some.")
    if rows.dtype.kind == "c":
        raise DataError("Complex data not supported: X must hold real numbers. Pass X.real, say.")
    if rows.dtype.kind not in "fiubO":
        kind = rows.dtype.type.__name__  # not the type itself, which tells how long the longest text is
        raise DataError(f"X must hold real numbers; got the type {kind}. Encode texts first.")
    if rows.dtype.kind != "O":
        return rows
    with suppress(TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
        return rows.astype(np.float64)
    # Raised outside, so that NumPy's own error, which shows the entry, does not come along.
    raise NotNumbers(
        "Every argument must be a number, or a string that reads as a number; at least one entry of X is "
        "neither. Convert X to an array of numbers."
    )


def labels_of(y: ArrayLike | None, *, of: object) -> AnyArray:
    """One label per example, as an array with one dimension."""
    if y is None:
        raise DataError(f"This {type(of).__name__} requires y to be passed, but the target y is None.")
    labels = None if issparse(y) else array_or_none(y)
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        text = "A column-vector y was passed when a 1d array was expected. Change its shape with y.ravel()."
        warnings.warn(text, DataConversionWarning, stacklevel=3)
        return labels.ravel()
    if labels is None or labels.ndim != 1:
        raise DataError("y should be a 1d array, one class per example; it is something else. Pass a list.")
    return labels
