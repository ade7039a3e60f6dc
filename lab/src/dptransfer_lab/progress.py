"""How a sweep goes, on a terminal or in a pipe: each cell, the whole, and the time that is left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from dptransfer_lab.cells import Cell
from dptransfer_lab.results import Record

if TYPE_CHECKING:
    from rich.console import Console


class TimeLeft:
    """Guesses the time left from what like cells took.

    Args:
        workers: how many run side by side.
    """

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)
        self._spent: dict[str, tuple[float, int]] = {}
        self._began = time.monotonic()
        self._wall = 0.0

    def learn(self, record: Record) -> None:
        """Take note of one finished cell."""
        seconds = record["cost"]["cell_seconds"] or 0.0
        total, count = self._spent.get(record["label"], (0.0, 0))
        self._spent[record["label"]] = (total + seconds, count + 1)
        self._wall = time.monotonic() - self._began

    def seconds(self, left: Mapping[str, int]) -> float | None:
        """Seconds for the cells that are left, by label; None before the first one is done.

        What cells took is scaled by how much longer the sweep took than its cells did.
        """
        spent = sum(total for total, _ in self._spent.values())
        count = sum(count for _, count in self._spent.values())
        if not count or not spent:
            return None
        mean = spent / count
        ahead = 0.0
        for label, number in left.items():
            total, seen = self._spent.get(label, (mean, 1))
            ahead += number * total / seen
        return ahead * max(self._wall / spent, 1 / self._workers)


class ProgressView:
    """Shows a sweep; a context, so that the terminal is left tidy.

    Args:
        console: where to show it.
        workers: how many cells run side by side.
    """

    def __init__(self, console: Console, workers: int) -> None:
        self._console = console
        self._live = console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not self._live,
        )
        self._left: Counter[str] = Counter()
        self._workers = workers
        self._clock = TimeLeft(workers)
        self._whole: TaskID | None = None
        self._lines: dict[int, TaskID] = {}
        self._total = self._done = 0

    def __enter__(self) -> ProgressView:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def loading(self, what: str) -> None:
        """Rows are being read."""
        self._console.print(f"Reading {what}")

    def missing(self, what: str) -> None:
        """A data set is left out."""
        self._console.print(what, soft_wrap=True)

    def begin(self, total: int, wanted: Sequence[Cell]) -> None:
        """The sweep begins."""
        finished = total - len(wanted)
        self._total, self._done, self._left = total, finished, Counter(cell.label for cell in wanted)
        self._clock = TimeLeft(self._workers)
        self._whole = self._bar.add_task("All cells", total=total, completed=finished, left="")
        if not self._live:
            self._console.print(f"{total} cells, {finished} of them finished before")

    def started(self, worker: int, cell: Cell) -> None:
        """A worker begins a cell."""
        words = f"  worker {worker + 1}: {cell.words}"
        if worker in self._lines:
            self._bar.update(self._lines[worker], description=words)
        else:
            self._lines[worker] = self._bar.add_task(words, total=None, left="")

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell has its record."""
        self._done += 1
        self._left[cell.label] -= 1
        self._clock.learn(record)
        left = in_words(self._clock.seconds(self._left))
        if self._whole is not None:
            self._bar.update(self._whole, completed=self._done, left=left)
        line = f"[{self._done}/{self._total}] {cell.words}: {_result(record)}"
        if not self._live:
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
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d} left" if hours else f"{minutes}:{whole % 60:02d} left"


def _result(record: Record) -> str:
    if record["status"] != "done":
        return f"{record['status']}, {record['message']}"
    accuracy, seconds = record["metrics"]["balanced_accuracy"], record["cost"]["fit_seconds"]
    return f"{100 * accuracy:.1f} % balanced, fitted in {seconds:.2f} s"
