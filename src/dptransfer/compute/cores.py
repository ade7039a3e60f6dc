"""How many cores this process may use: more threads than that are not worth starting."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores this process may use; not every system can tell, and then it is all there are.

    >>> usable_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
