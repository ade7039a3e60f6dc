"""Which cell next: cells that share rows go to one worker, and nobody waits while there is work."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from dptransfer_lab.cells import Cell, TaskKey

ATTEMPTS = 2
"""A cell that fails is tried once more."""


class CellQueue:
    """Cells to run, handed out one by one; safe across threads.

    >>> CellQueue([]).take(None) is None
    True
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._lock = threading.Condition()
        self._groups: OrderedDict[TaskKey, deque[Cell]] = OrderedDict()
        self._held: set[TaskKey | None] = set()
        self._out = 0
        self._closed = False
        self._tries: dict[str, int] = {}
        for cell in cells:
            self._groups.setdefault(cell.task, deque()).append(cell)

    def take(self, last: TaskKey | None) -> Cell | None:
        """The next cell for a worker whose last one had the task `last`; waits while one may come back.

        Returns None when everything is done, or the queue is closed.
        """
        with self._lock:
            while True:
                group = None if self._closed else self._choose(last)
                if group is not None:
                    cell = self._groups[group].popleft()
                    if not self._groups[group]:
                        del self._groups[group]
                    self._held = self._held - {last} | {group}
                    self._out += 1
                    return cell
                if self._closed or self._out == 0:
                    self._lock.notify_all()
                    return None
                self._lock.wait()

    def close(self) -> None:
        """Hand out nothing more, and let nobody wait."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def done(self, cell: Cell) -> None:
        """The cell has its record."""
        with self._lock:
            self._out -= 1
            self._lock.notify_all()

    def again(self, cell: Cell) -> bool:
        """Put back a cell that failed; False if it has had its tries, and then it is `done`."""
        with self._lock:
            self._tries[cell.address] = self._tries.get(cell.address, 1) + 1
            if self._tries[cell.address] > ATTEMPTS:
                return False
            self._groups.setdefault(cell.task, deque()).appendleft(cell)
            self._out -= 1
            self._lock.notify_all()
            return True

    def _choose(self, last: TaskKey | None) -> TaskKey | None:
        if last in self._groups:
            return last
        free = next((group for group in self._groups if group not in self._held), None)
        if free is not None or not self._groups:
            return free
        return max(self._groups, key=lambda group: len(self._groups[group]))  # help where most is left
