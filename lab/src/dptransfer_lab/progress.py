"""How a sweep goes, on a terminal or in a pipe: each cell, the whole, and the time that is left."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from dptransfer_lab.cells import Cell
from dptransfer_lab.record_file import Record
from dptransfer_lab.run import Watcher

if TYPE_CHECKING:
    from rich.console import Console


class TimeLeft:
    """Guesses the time left from what like cells took.

    Args:
        workers: how many run side by side.
    """

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._seen: Counter[str] = Counter()
        self._began = time.monotonic()
        self._wall = 0.0

    def learn(self, record: Record) -> None:
        """Take note of one finished cell."""
        self._spent[record["label"]] += record["cost"]["cell_seconds"] or 0.0
        self._seen[record["label"]] += 1
        self._wall = time.monotonic() - self._began

    def seconds(self, left: Mapping[str, int]) -> float | None:
        """Seconds for the cells that are left, by label; None before the first one is done.

        What cells took is scaled by how much longer the sweep took than its cells did.
        """
        spent = sum(self._spent.values())
        if not spent:
            return None
        mean = spent / self._seen.total()
        ahead = sum(
            number * (self._spent[label] / self._seen[label] if self._seen[label] else mean)
            for label, number in left.items()
        )
        return ahead * max(self._wall / spent, 1 / self._workers)


class ProgressView(Watcher):
    """Shows a sweep; a context, so that the terminal is left tidy.

    Args:
        console: where to show it.
        workers: how many cells run side by side.
    """

    def __init__(self, console: Console, workers: int) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._whole = self._bar.add_task("All cells", total=None, left="")
        self._left: Counter[str] = Counter()
        self._clock = TimeLeft(workers)
        self._workers = workers
        self._lines: dict[int, TaskID] = {}
        self._total = self._done = 0

    def __enter__(self) -> ProgressView:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def loading(self, what: str) -> None:
        """Rows are being read."""
        self._console.print(f"Reading {what}")

    def missing(self, what: str) -> None:
        """A data set is left out."""
        self._console.print(what, soft_wrap=True)

    def begin(self, total: int, wanted: Sequence[Cell]) -> None:
        """The sweep begins."""
        self._total, self._done = total, total - len(wanted)
        self._left, self._clock = Counter(cell.label for cell in wanted), TimeLeft(self._workers)
        self._bar.update(self._whole, total=total, completed=self._done)
        if not self._console.is_terminal:
            self._console.print(f"{total} cells, {self._done} of them finished before")

    def started(self, worker: int, cell: Cell) -> None:
        """A worker begins a cell."""
        if worker not in self._lines:
            self._lines[worker] = self._bar.add_task("", total=None, left="")
        self._bar.update(self._lines[worker], description=f"  worker {worker + 1}: {cell.words}")

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell has its record."""
        self._done += 1
        self._left[cell.label] -= 1
        self._clock.learn(record)
        left = in_words(self._clock.seconds(self._left))
        self._bar.update(self._whole, completed=self._done, left=left)
        line = f"[{self._done}/{self._total}] {cell.words}: {_result(record)}"
        if not self._console.is_terminal:
            self._console.print(f"{line}; {left}", soft_wrap=True)
        elif record["status"] == "failed":
            self._console.print(line, soft_wrap=True)


def in_words(seconds: float | None) -> str:
    """A time to wait, as people say it.

    >>> in_words(75), in_words(7380), in_words(None)
    ('1:15 left', '2:03:00 left', 'time left unknown')
    """
    if seconds is None:
        return "time left unknown"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


def _result(record: Record) -> str:
    if record["status"] != "done":
        return f"{record['status']}, {record['message']}"
    accuracy, seconds = record["metrics"]["balanced_accuracy"], record["cost"]["fit_seconds"]
    return f"{100 * accuracy:.1f} % balanced, fitted in {seconds:.2f} s"
