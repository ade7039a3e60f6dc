"""How many cores this process may use: more threads than that are not worth starting."""

from __future__ import annotations

from dptransfer.workers.surroundings import cores_here


def usable_cores() -> int:
    """Cores this process may use.

    >>> usable_cores() >= 1
    True
    """
    return len(cores_here())
