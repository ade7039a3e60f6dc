"""Classes of any kind, as the user declares them, and the words they are called by inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.data import PublicEmbeddings
from dptransfer.data.class_names import declared_classes
from dptransfer.errors import ArgumentError


def declared_values(classes: Sequence[Any] | str | int | None, labels: AnyArray) -> AnyArray:
    """The declared list; the classes in `labels` only where that set is declared to be public."""
    if isinstance(classes, str) and classes == "observed":
        return _observed(labels)
    if classes is None or isinstance(classes, str):
        raise ArgumentError(
            "Classes must be declared, because the set of classes that occur is itself private; got "
            f"classes={classes!r}. Pass the full public list, classes=[...], or classes='observed' "
            "if that set is public anyway."
        )
    if isinstance(classes, int | np.integer):
        classes = declared_classes(int(classes))
    declared = np.asarray(classes)
    if declared.ndim != 1 or len(np.unique(declared)) != len(declared):
        raise ArgumentError("classes must be one list of distinct classes; it is not. Pass each class once.")
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
