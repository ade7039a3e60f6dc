"""How a sweep goes, on a terminal or in a pipe: each cell, the whole, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from dptransfer_lab.cells import Cell
from dptransfer_lab.record_file import Record
from dptransfer_lab.run import Watcher

if TYPE_CHECKING:
    from rich.console import Console


class ProgressView(Watcher):
    """Shows a sweep; a context, so that the terminal is left tidy.

    The time left is that of so many cells at the pace so far: seeds are the slowest axis of a study, so all
    methods have had their turn early on.

    Args:
        console: where to show it.
    """

    def __init__(self, console: Console) -> None:
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
        self._lines: dict[int, TaskID] = {}
        self._total = self._done = self._before = 0
        self._began = time.monotonic()

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
        self._total = total
        self._done = self._before = total - len(wanted)
        self._began = time.monotonic()
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
        pace = (time.monotonic() - self._began) / (self._done - self._before)
        left = in_words(pace * (self._total - self._done))
        self._bar.update(self._whole, completed=self._done, left=left)
        line = f"[{self._done}/{self._total}] {cell.words}: {_result(record)}"
        if not self._console.is_terminal:
            self._console.print(f"{line}; {left}", soft_wrap=True)
        elif record["status"] == "failed":
            self._console.print(line, soft_wrap=True)


def in_words(seconds: float) -> str:
    """A time to wait, as people say it.

    >>> in_words(75), in_words(7380)
    ('1:15 left', '2:03:00 left')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


def _result(record: Record) -> str:
    if record["status"] != "done":
        return f"{record['status']}, {record['message']}"
    accuracy, seconds = record["metrics"]["balanced_accuracy"], record["cost"]["fit_seconds"]
    return f"{100 * accuracy:.1f} % balanced, fitted in {seconds:.2f} s"
