"""The order of names in which numbers count as numbers."""

from __future__ import annotations

import re


def natural_order(name: str) -> tuple[object, ...]:
    """What to sort names by: letters as letters, digits as numbers of any length; no two names are equal.

    >>> sorted(["rows_10.npy", "rows_9.npy", "rows_09.npy"], key=natural_order)
    ['rows_09.npy', 'rows_9.npy', 'rows_10.npy']
    """
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") for part in parts]
    return (*((len(numbers[place]) * (place % 2), numbers[place]) for place in range(len(parts))), (0, name))
