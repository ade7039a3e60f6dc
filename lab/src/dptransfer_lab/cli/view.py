"""Show how a sweep goes, what it did, and how two sweeps differ."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dptransfer.cli.screen import say, show_facts, show_table
from dptransfer_lab.cells import Cell
from dptransfer_lab.results import Record
from dptransfer_lab.run import Watcher

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from dptransfer.base.types import JsonObject
    from dptransfer_lab.compare import Change, Comparison
    from dptransfer_lab.run import Tally


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


_SHOWN = 40
_WITHIN = 3


def show_tally(tally: Tally, folder: Path) -> None:
    """What a sweep did and cost."""
    whole = tally_json(tally, folder)
    counts = ", ".join(f"{whole[name]} {name}" for name in ("done", "refused", "failed"))
    side = f" by {tally.workers} workers" if tally.workers > 1 else ""
    show_facts(
        {
            "Results": folder,
            "Cells": f"{tally.total}: {tally.reused} finished before, {counts}",
            "Time": f"{tally.seconds:.1f} s{side}, of which {tally.starting:.1f} s to start",
            "Per cell": f"{whole['own_ms_per_cell']:.1f} ms in fit, prediction and attack, "
            f"{whole['overhead_ms_per_cell']:.1f} ms of overhead",
            "Marks": "every cell is seeded: none of these models may be released",
        }
    )


def tally_json(tally: Tally, folder: Path) -> JsonObject:
    """JSON-ready form."""
    ran = max(1, tally.ran)
    return {
        "results": str(folder),
        "cells": tally.total,
        "finished_before": tally.reused,
        **{name: tally.counts.get(name, 0) for name in ("done", "refused", "failed")},
        "workers": tally.workers,
        "seconds": tally.seconds,
        "starting_seconds": tally.starting,
        "own_ms_per_cell": 1000 * tally.own_seconds / ran,
        "overhead_ms_per_cell": 1000 * tally.overhead / ran,
    }


def show_comparison(found: Comparison, first: str, second: str) -> None:
    """What changed, what cannot be told, and what is in one run only."""
    from dptransfer_lab.cells import in_words

    moved = [change for change in found.shared if change.before != change.after]
    say(
        f"{found.metric}: {len(found.changed)} of {len(found.shared)} groups of cells changed beyond their "
        f"noise (t tests, Holm's correction, chance of one false alarm {found.level:g})."
    )
    if found.changed:
        _show(found.changed[:_SHOWN])
    elif within := [change for change in moved if change.p is not None]:
        say("The largest differences, all within what seeds make of them:")
        _show(within[:_WITHIN])
    if len(found.changed) > _SHOWN:
        say(f"... and {len(found.changed) - _SHOWN} more; --json gives all of them.")
    if unknown := [change for change in moved if change.p is None]:
        say(f"{len(unknown)} differ but have one seed, which tells nothing about noise:")
        _show(unknown[:_SHOWN])
    if not all(change.same_data for change in found.shared):
        say("Some groups were run on other data than before: their fingerprints differ.")
    if others := [change for change in found.shared if change.other_settings]:
        names = sorted({name for change in others for name in change.other_settings})
        say(
            f"Settings differ ({', '.join(names)}) in {len(others)} of {len(found.shared)} groups, such as "
            f"{in_words(others[0].where)}."
        )
    for where, before, after in found.other_status:
        say(f"{in_words(where)}: {before} in '{first}', {after} in '{second}'.")
    for name, places in ((first, found.only_first), (second, found.only_second)):
        if places:
            say(f"{len(places)} groups are in '{name}' only, such as {in_words(places[0])}.")


def _show(changes: Sequence[Change]) -> None:
    from dptransfer_lab.cells import in_words

    rows = [
        (
            in_words(one.where),
            f"{one.before:.4g}",
            f"{one.after:.4g}",
            f"{one.after - one.before:+.4g}",
            "" if one.p is None else f"{one.p:.2g}",
            one.test,
        )
        for one in changes
    ]
    show_table(("Cells", "Before", "After", "Change", "p", "Test"), rows, numbers=(1, 2, 3, 4))
