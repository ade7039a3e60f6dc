"""The declared list of classes: words or whole numbers, and what they may be called."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dptransfer.arrays import array_or_none
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
