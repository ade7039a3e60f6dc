"""Classes, labels and people: labels become positions in the declared list, and ids become numbers.

The numbers of people tell who is the same, and nothing else.
"""

from __future__ import annotations

import itertools
import unicodedata
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Integers, Labels, People, array_or_none
from dptransfer.errors import ArgumentError, DataError

_LONGEST_SPELT = 1000  # composing letters takes time by the square of their number
_MOST_BITS = 2000  # of a number that Python writes in decimals under any of its settings


def person_positions(ids: object, count: int) -> People:
    """The person of each example, as a number from 0 in order of appearance; no error tells an id.

    Spellings of one id are one person: blanks around a word do not count, nor whether an é is one character
    or two, and 7, 7.0 and '7' are the same, for a column with gaps may have all three. A missing id (None,
    NaN, NA, NaT, an empty word) makes a person of its own.

    The numbers carry on who is the same as whom, and forget the ids. That alone decides what is protected as
    a whole: somebody with two ids is two people here, each with a voice, and two people with one id share a
    voice, so that either can change it all.

    >>> person_positions(["ann", "bob", None, " ann", ""], 5).tolist()
    [0, 1, 2, 0, 3]

    Args:
        ids: words or numbers in one column: a list, an array, masked or not, or a column of pandas, pyarrow
            or polars.
        count: the number of examples.
    """
    entries = _entries(ids)
    if entries is None or len(entries) != count:
        rule = "people must have one entry per example; it does not."
        raise DataError(f"{rule} Pass the person of each, in the same order.")
    kinds = set(map(type, entries))
    other = sorted(kind.__name__ for kind in kinds if not _may_be_id(kind))
    if other:
        rule = f"people must be words or whole numbers; got the type {other[0]}."
        raise DataError(f"{rule} Convert them, say to str.")
    if kinds <= {int}:
        return _numbered(entries, count)
    # A word is no whole number, so a row that has none is alone under its own.
    return _numbered((_word(one) or row for row, one in enumerate(entries)), count)


def _entries(ids: Any) -> list[object] | None:
    """The ids as Python's own words and numbers, None where missing; None for what is no single column.

    By the column's own list: as an array, a masked one forgets its mask, and whole numbers with gaps become
    floats, in which long ids run together.
    """
    if getattr(ids, "ndim", 1) != 1 or isinstance(ids, str | bytes):
        return None
    if getattr(getattr(ids, "dtype", None), "kind", "") in ("m", "M"):
        return list(ids)  # whose own list may be of plain numbers
    for listing in ("to_pylist", "to_list", "tolist"):  # pyarrow; polars and pandas; NumPy and torch
        if hasattr(ids, listing):
            return list(getattr(ids, listing)())
    if isinstance(ids, Sequence):
        return list(ids)
    found = array_or_none(ids)
    return found.tolist() if found is not None and found.ndim == 1 else None


def _may_be_id(kind: type) -> bool:
    """Whether an entry of this type is a word, a number or a gap; pandas calls its own gaps NA and NaT."""
    words = issubclass(kind, str | int | float | np.integer | np.floating) and kind is not bool
    return words or kind is type(None) or kind.__name__ in ("NAType", "NaTType")


def _word(one: object) -> str:
    """An id as it is compared; empty for a missing one."""
    if isinstance(one, str):
        word = one.strip()
        return word if word.isascii() or len(word) > _LONGEST_SPELT else normalize("NFC", word)
    if isinstance(one, float | np.floating):
        if one != one:
            return ""
        if not one.is_integer():
            return repr(float(one))
    elif not isinstance(one, int | np.integer):
        return ""
    whole = int(one)
    return str(whole) if whole.bit_length() < _MOST_BITS else hex(whole)


def _numbered(keys: Iterable[Hashable], count: int) -> People:
    """Equal keys by one number, in order of appearance."""
    numbers: dict[Hashable, int] = defaultdict(itertools.count().__next__)
    return np.fromiter(map(numbers.__getitem__, keys), np.int64, count)


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
            rule = f"The number of classes must be 2 to a million; got {classes}."
            raise DataError(f"{rule} Give the names of the classes instead: classes=['a', 'b'].")
        return tuple(range(int(classes)))
    if isinstance(classes, str):
        raise DataError("classes must be a list of names, not one string; write classes=['a', 'b'].")
    listed = array_or_none(classes)
    floats = listed is not None and listed.ndim == 1 and listed.dtype.kind == "f"
    if listed is not None and floats and all(float(name).is_integer() for name in listed):
        listed = listed.astype(np.int64)  # 1.0 is 1, as pandas writes it in a column with gaps
    if listed is None or listed.ndim != 1 or (listed.size and listed.dtype.kind not in "iuU"):
        raise DataError("classes must be one list of words or of whole numbers, as in classes=['a', 'b'].")
    if listed.dtype.kind == "U" and not all(isinstance(name, str) for name in classes):
        raise DataError("classes must be all words or all whole numbers; these are a mix. Write 1 as '1'.")
    # From the list itself: NumPy takes NULs off the end of a word.
    names = tuple(str(name) if isinstance(name, str) else int(name) for name in classes)
    words = [name for name in names if isinstance(name, str)]
    # These are asked when classes are declared. A release that has such names is read all the same.
    if not all(name.strip() for name in words):
        raise DataError("A class must have a name; one is empty or blank. Give it a name, or leave it out.")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for name in words for letter in name):
        raise DataError("classes must be text; one holds a control character or half a character. Rename it.")
    # 'cat ' is 'cat', and an é is one character or two. Case counts.
    if len({normalize("NFC", str(name).strip()) for name in names}) < len(names):
        rule = "Class names must be distinct, apart from outer blanks and encodings of accents; two are not."
        raise DataError(f"{rule} Rename one of them, or leave it out.")
    return names


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
            rule = "Labelled takes an array of positions; this is none."
            raise DataError(f"{rule} Use Labelled.of(labels, classes=[...]).")
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
            rule = "Classes must be declared, for they are never inferred from labels; there is no list."
            raise DataError(f"{rule} Pass classes=[...], the full public list that the labels refer to.")
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
    return Labelled(label_positions(labels, classes), classes).positions


def label_positions(labels: AnyArray, classes: tuple[str | int, ...]) -> Labels:
    """Where each label of an array stands in the declared list; −1 for one that is not in it.

    Numbers beside a list of words are positions in it: 1.0 is the position 1, and 1.5 is none.
    """
    are_words = len(classes) > 0 and isinstance(classes[0], str)
    if labels.dtype.kind in "iuf" and are_words:
        with np.errstate(invalid="ignore"):
            known = (labels >= 0) & (labels < len(classes)) & (labels % 1 == 0)
        return np.where(known, labels, -1).astype(np.int64)
    if labels.dtype.kind == "U" and not are_words:
        return word_positions(labels.tolist(), classes)
    return places(labels.tolist(), classes)


def word_positions(words: Iterable[str], classes: tuple[str | int, ...]) -> Labels:
    """Where words of a file stand in the declared list, whole numbers as written or as 1.0; −1 for others."""
    known = {str(name) for name in classes}
    spelt = map(str.strip, words)
    return places([one if one in known else whole_word(one) for one in spelt], map(str, classes))


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


def places(labels: Iterable[object], classes: Iterable[object]) -> Labels:
    """Where each label stands in the list; −1 for one that is not in it."""
    listed = {name: place for place, name in enumerate(classes)}

    def place(label: object) -> int:
        try:
            return listed.get(label, -1)
        except TypeError:  # a list, say, is no class
            return -1

    return np.fromiter(map(place, labels), np.int64)


def long_tail_counts(largest: int, ratio: float, classes: int) -> Integers:
    """Class sizes n_c = N·IR^(−c/(C−1)), rounded, at least one: from `largest` (N) down to `largest`/`ratio`.

    The exponent runs from 0 to exactly −1, so the last class is IR times smaller than the first. (The
    published code raises to t/C with t = linspace(0, C, C), which is the same: t_c/C = c/(C−1).)

    >>> long_tail_counts(100, 10, 3).tolist()
    [100, 32, 10]

    Args:
        largest: size of the first class, N.
        ratio: imbalance ratio IR, at least 1.
        classes: number of classes, C.
    """
    checks.whole("largest", largest)
    checks.whole("classes", classes)
    if not checks.positive("ratio", ratio) >= 1:
        raise ArgumentError(
            f"ratio must be at least 1, the size of the largest class over the smallest; got {ratio}."
        )
    exponents = np.arange(classes) / max(classes - 1, 1)
    return np.maximum(np.rint(largest * ratio**-exponents), 1).astype(np.int64)
