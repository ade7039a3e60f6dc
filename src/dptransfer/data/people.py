"""Whose each example is: ids become numbers, and an example without one is a person of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.arrays import AnyArray, Integers, People, array_or_none
from dptransfer.errors import DataError


def person_positions(ids: ArrayLike, count: int) -> People:
    """A number from 0 for each example, equal where the ids are; ids are private, and no error tells one.

    A missing id (None, NaN, an empty word) makes a person of its own. Words are stripped, and 7, 7.0 and '7'
    are one person: to take two for one protects both.

    >>> person_positions(["ann", "bob", None, " ann", ""], 5).tolist()
    [0, 1, 2, 0, 3]
    """
    found = array_or_none(ids)
    if found is None or found.ndim != 1 or len(found) != count:
        raise DataError(
            "people must have one entry per example; it does not. Pass the person of each, in the same order."
        )
    if found.dtype.kind in "iu":
        return _numbered(found)
    if found.dtype.kind not in "OUf":
        raise DataError(
            f"people must be words or whole numbers; got the type {found.dtype}. Convert them, say to str."
        )
    words = np.array([_word(one) for one in found.tolist()], dtype=object)
    named = np.array([word is not None for word in words], dtype=bool)
    people = np.empty(count, dtype=np.int64)
    people[named] = _numbered(words[named].astype(str))
    people[~named] = len(np.unique(people[named])) + np.arange(int((~named).sum()))
    return people


def _word(one: Any) -> str | None:
    """An id as a word; None where there is none."""
    if one is None or one != one:
        return None
    if isinstance(one, float) and one.is_integer():
        one = int(one)
    if isinstance(one, bool) or not isinstance(one, str | int | float):
        raise DataError("people must be words or whole numbers; one is neither. Convert them, say to str.")
    return str(one).strip() or None


def _numbered(ids: AnyArray) -> Integers:
    """Positions of the ids among those that there are."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)
