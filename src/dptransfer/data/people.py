"""Whose each example is: ids become numbers, which tell who is the same and nothing else."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any
from unicodedata import normalize

import numpy as np

from dptransfer.base.types import People, array_or_none
from dptransfer.errors import DataError

_LONGEST_SPELT = 1000  # composing letters takes time by the square of their number
_MOST_BITS = 2000  # of a number that Python writes in decimals under any of its settings


def person_positions(ids: Any, count: int) -> People:
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
        raise DataError(
            "people must have one entry per example; it does not. Pass the person of each, in the same order."
        )
    kinds = set(map(type, entries))
    other = sorted(kind.__name__ for kind in kinds if not _may_be_id(kind))
    if other:
        raise DataError(
            f"people must be words or whole numbers; got the type {other[0]}. Convert them, say to str."
        )
    if kinds <= {int}:
        return _numbered(entries, count)
    # A word is no whole number, so a row that has none is alone under its own.
    return _numbered((_word(one) or row for row, one in enumerate(entries)), count)


def _entries(ids: Any) -> list[Any] | None:
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


def _word(one: Any) -> str:
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
