"""The declared list of classes, and labels as positions in it."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base.types import AnyArray, Labels, People, array_or_none
from dptransfer.errors import DataError

Classes: TypeAlias = "Sequence[str | int] | int"
"""A declared list: names, or a number n for the classes 0 to n − 1."""

_MOST = 10**6


def declared_classes(classes: Classes) -> tuple[str | int, ...]:
    """Classes as plain Python words or whole numbers, so that they can be written to JSON and read back.

    >>> declared_classes(["cat", "dog"]), declared_classes(3)
    (('cat', 'dog'), (0, 1, 2))
    """
    if isinstance(classes, int | np.integer):
        if not 2 <= classes <= _MOST:  # True is 1
            raise DataError(
                f"A number of classes must be 2 to a million; got {classes}. For others give their names: "
                "classes=['a', 'b']."
            )
        return tuple(range(int(classes)))
    if isinstance(classes, str):
        raise DataError("classes must be a list of names, not one string; write classes=['a', 'b'].")
    listed = array_or_none(classes)
    floats = listed is not None and listed.ndim == 1 and listed.dtype.kind == "f"
    if listed is not None and floats and all(float(name).is_integer() for name in listed):
        listed = listed.astype(np.int64)  # 1.0 is 1, as pandas writes it in a column with gaps
    if listed is None or listed.ndim != 1 or (listed.size and listed.dtype.kind not in "iuU"):
        raise DataError(
            "classes must be one list of words or of whole numbers; these are something else. "
            "Example: classes=['a', 'b']."
        )
    if listed.dtype.kind == "U" and not all(isinstance(name, str) for name in classes):
        raise DataError("classes must be all words or all whole numbers; these are a mix. Write 1 as '1'.")
    # From the list itself: NumPy takes NULs off the end of a word.
    names = tuple(str(name) if isinstance(name, str) else int(name) for name in classes)
    words = [name for name in names if isinstance(name, str)]
    if any("\ud800" <= letter <= "\udfff" for name in words for letter in name):
        raise DataError("classes must be text that can be written to a file; one holds half a character.")
    # These are asked when classes are declared. A release that has such names is read all the same.
    if not all(name.strip() for name in words):
        raise DataError("A class must have a name; one is empty or blank. Give it a name, or leave it out.")
    if any(unicodedata.category(letter) == "Cc" for name in words for letter in name):
        raise DataError(
            "Class names must be one line of printed characters; one holds a control character, such as a "
            "line break, a tab or a NUL. Remove it."
        )
    if len({_spelt(name) for name in names}) < len(names):
        raise DataError(
            "Class names must be distinct, by more than the blanks around them and the way an accent is "
            "stored; two are not. Rename one of them, or leave it out."
        )
    return names


def _spelt(name: str | int) -> str:
    """A name as it is told from others: 'cat ' is 'cat', and an é is one character or two. Case counts."""
    return unicodedata.normalize("NFC", str(name).strip())


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
