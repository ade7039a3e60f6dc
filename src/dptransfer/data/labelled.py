"""Labels as positions in a declared list of classes: found once, where labels come in, and never again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.arrays import AnyArray, Labels, People, array_or_none
from dptransfer.data.class_names import Classes, declared_classes
from dptransfer.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class Labelled:
    """One class per example, with the list that the positions refer to; printing it shows no label.

    Whatever takes labels takes these too, and looks nothing up.

    >>> animals = Labelled.of(["dog", "cat", "dog"], ["cat", "dog"])
    >>> animals.positions.tolist(), animals.names.tolist()
    ([1, 0, 1], ['dog', 'cat', 'dog'])
    >>> animals.among(("bird", "dog", "cat")).positions.tolist()
    [1, 2, 1]

    Attributes:
        positions: each example's class, as its position in `classes`.
        classes: the declared list.
    """

    positions: Labels
    classes: tuple[str | int, ...]

    def __post_init__(self) -> None:
        """Check that each position is one."""
        found = self.positions
        if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iu":
            raise DataError(
                "Labelled takes an array of positions; this is none. Use Labelled.of(labels, classes=[...])."
            )
        object.__setattr__(self, "positions", found.astype(np.int64, copy=False))  # bytes mask in torch
        if len(found) and not 0 <= found.min() <= found.max() < len(self.classes):
            raise DataError(  # not which label, nor where: those are private values
                f"Every label must be one of the {len(self.classes)} declared classes; at least one is not. "
                "Declare the full public list of classes, or drop the other examples."
            )

    @classmethod
    def of(cls, y: ArrayLike | Labelled, classes: Classes | None = None) -> Labelled:
        """Labels as a user gives them, or labels found before, as positions in the declared list."""
        if classes is None and isinstance(y, Labelled):
            return y
        if classes is None:
            raise DataError(
                "Classes must be declared, for they are never inferred from labels; there is no list. "
                "Pass classes=[...], the full public list that the labels refer to."
            )
        declared = declared_classes(classes)
        return cls(class_positions(y, declared), declared)

    def among(self, classes: tuple[str | int, ...]) -> Labelled:
        """The same labels as positions in another list, which must have every class that occurs here."""
        if classes == self.classes:
            return self
        return Labelled(places(self.classes, classes)[self.positions], classes)

    def of_rows(self, chosen: AnyArray) -> Labelled:
        """The labels of some examples: a mask, or their numbers."""
        return Labelled(self.positions[chosen], self.classes)

    @property
    def names(self) -> AnyArray:
        """The class of each example by name."""
        return np.asarray(self.classes)[self.positions]

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        return f"Labelled({len(self.classes)} declared classes)"


class LabelledList(ABC):
    """What public data and lists of images or texts share: perhaps labels, and none of them when printed."""

    labelled: Labelled | None
    people: People | None = None

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        for what, own in (("label", self.labelled), ("person", self.people)):
            if own is not None and len(own) != len(self):
                raise DataError(
                    f"A list with {what}s needs one {what} per image or text; there are more or fewer."
                )

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def labels(self) -> Labels | None:
        """Each item's position in `classes`, or None."""
        return None if self.labelled is None else self.labelled.positions

    @property
    def classes(self) -> tuple[str | int, ...] | None:
        """The declared class list, or None."""
        return None if self.labelled is None else self.labelled.classes

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.classes is None else f"{len(self.classes)} declared classes"
        return f"{type(self).__name__}({labelled})"


def class_positions(y: ArrayLike | Labelled, classes: tuple[str | int, ...]) -> Labels:
    """Each label's position in the declared list."""
    if isinstance(y, Labelled):
        return y.among(classes).positions
    labels = array_or_none(y)
    if labels is None or labels.ndim != 1:
        raise DataError("y must have one dimension, one class per example; it has not. Pass one label a row.")
    are_words = len(classes) > 0 and isinstance(classes[0], str)
    if labels.dtype.kind in "iu" and are_words:
        found = labels.astype(np.int64)
    elif labels.dtype.kind == "f" and are_words:
        found = places(labels.tolist(), range(len(classes)))  # 1.0 is the position 1, and 1.5 is none
    elif labels.dtype.kind == "U" and not are_words:
        found = places(map(whole_word, labels.tolist()), map(str, classes))
    else:
        found = places(labels.tolist(), classes)
    return Labelled(found, classes).positions


def whole_word(word: str) -> str:
    """A word for a whole number as Python writes it; any other as it is, without blanks around it.

    >>> whole_word("1.0"), whole_word(" 12"), whole_word("1.5"), whole_word("cat ")
    ('1', '12', '1.5', 'cat')
    """
    word = word.strip()
    try:
        value = float(word)
    except ValueError:
        return word
    return str(int(value)) if value.is_integer() else word


def places(labels: Iterable[Any], classes: Iterable[Any]) -> Labels:
    """Where each label stands in the list; −1 for one that is not in it."""
    listed = {name: place for place, name in enumerate(classes)}

    def place(label: Any) -> int:
        try:
            return listed.get(label, -1)
        except TypeError:  # a list, say, is no class
            return -1

    return np.array([place(label) for label in labels], dtype=np.int64)
