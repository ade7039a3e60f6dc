"""A sweep: a study's cells that have no result yet, run by an engine, and written down one by one.

Whatever ends a sweep early, running it again goes on where it stopped: what is on disk is finished, and what
is not is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dptransfer import __version__, _check
from dptransfer.accounting import heed
from dptransfer_lab.cells import FORMAT, Cell, cells_of
from dptransfer_lab.measure import OWN, failed, measure
from dptransfer_lab.record_file import Record, RecordFile
from dptransfer_lab.results import export_table, read_results, write_study
from dptransfer_lab.shelf import Stored
from dptransfer_lab.sources import shelved
from dptransfer_lab.study import Study
from dptransfer_lab.tasks import TaskBench

ENGINES = ("processes", "ray")


class Watcher(Protocol):
    """Whoever is told how a sweep goes."""

    def loading(self, what: str) -> None:
        """Rows are being read or decoded."""

    def missing(self, what: str) -> None:
        """A data set is left out."""

    def begin(self, total: int, wanted: Sequence[Cell]) -> None:
        """There are `total` cells; `wanted` have no result yet."""

    def started(self, worker: int, cell: Cell) -> None:
        """A worker begins a cell."""

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell has its record, which is on disk."""


class Nobody:
    """A watcher that does not look."""

    def loading(self, what: str) -> None:
        """Rows are being read."""

    def missing(self, what: str) -> None:
        """A data set is left out."""

    def begin(self, total: int, wanted: Sequence[Cell]) -> None:
        """It begins."""

    def started(self, worker: int, cell: Cell) -> None:
        """A cell begins."""

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell ends."""


@dataclass
class Tally:
    """What a sweep did and cost.

    Attributes:
        total: cells of the study.
        reused: those that had results before.
        counts: those that ran now, by status.
        seconds: wall time of the sweep, without reading the data.
        workers: how many cells ran side by side.
        starting: wall time until the first cell began.
        own_seconds: time spent in fits, predictions, attacks and losses.
        overhead: time that cells took beyond that, from being handed out to being on disk.
    """

    total: int
    reused: int
    workers: int
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    starting: float = 0.0
    own_seconds: float = 0.0
    overhead: float = 0.0

    @property
    def ran(self) -> int:
        """Cells that ran now."""
        return sum(self.counts.values())

    def add(self, record: Record, writing: float) -> None:
        """Count one record, and the seconds it took to write it down."""
        self.counts[record["status"]] = self.counts.get(record["status"], 0) + 1
        overhead = record["cost"]["overhead_seconds"]
        if overhead is not None:
            self.own_seconds += sum(record["extra"][name] for name in OWN) + record["cost"]["fit_seconds"]
            self.overhead += overhead + writing


def run_study(
    study: Study,
    out: str | Path,
    *,
    folders: Sequence[Path] = (Path(),),
    workers: int = 1,
    engine: str = "processes",
    address: str | None = None,
    retry_failed: bool = False,
    skip_missing: bool = False,
    watcher: Watcher | None = None,
) -> Tally:
    """Run every cell of a study that has no result in `out` yet.

    Args:
        study: what to run.
        out: the results folder; several studies may share one.
        folders: where the study's relative paths are looked for.
        workers: processes on this machine, or cells side by side on a cluster; 0 runs in this process.
        engine: 'processes' or 'ray'.
        address: of a Ray cluster; default one that is started here.
        retry_failed: run cells again that failed.
        skip_missing: leave out data sets that are not there, and tell the watcher, instead of refusing.
        watcher: told how it goes.
    """
    _check.one_of("engine", engine, ENGINES)
    _check.whole("workers", workers, at_least=0)
    for grid in study.budget:
        for budget in grid.budgets():
            heed(budget, stacklevel=2)  # once for the study; cells keep quiet about it
    watcher = Nobody() if watcher is None else watcher
    pools = {pool.name: pool.source for pool in study.pool}
    missing = watcher.missing if skip_missing else None
    shelf = shelved(study.data, pools, folders, reading=watcher.loading, missing=missing)
    cells = cells_of(study, shelf)
    stored = {one.fingerprint: one for one in shelf.values()}
    with RecordFile(out) as results:
        write_study(results.folder, study.name, _resolved(study, cells, shelf))
        wanted = [
            cell for cell in cells if not _is_finished(results.finished.get(cell.address), retry_failed)
        ]
        tally = Tally(len(cells), len(cells) - len(wanted), max(1, workers))
        watcher.begin(tally.total, wanted)
        told = watcher

        began = time.perf_counter()

        def started(worker: int, cell: Cell) -> None:
            tally.starting = tally.starting or time.perf_counter() - began
            told.started(worker, cell)

        def finished(cell: Cell, record: Record) -> None:
            writing = time.perf_counter()
            results.append(record)
            tally.add(record, time.perf_counter() - writing)
            told.finished(cell, record)

        try:
            if wanted:
                _engine(engine, workers, address)(wanted, stored, started, finished)
        finally:
            tally.seconds = time.perf_counter() - began
    _export(Path(out))
    return tally


Engine = Callable[
    [Sequence[Cell], Mapping[str, Stored], Callable[[int, Cell], None], Callable[[Cell, Record], None]], None
]


def _engine(engine: str, workers: int, address: str | None) -> Engine:
    if engine == "ray":
        from dptransfer_lab.ray_engine import run_on_ray

        return lambda cells, stored, started, finished: run_on_ray(
            cells, stored, workers=workers, address=address, started=started, finished=finished, failed=failed
        )
    if workers == 0:
        return _run_here
    from dptransfer_lab.workers import run_in_processes

    return lambda cells, stored, started, finished: run_in_processes(
        cells, stored, workers=workers, started=started, finished=finished, failed=failed
    )


def _run_here(
    cells: Sequence[Cell],
    stored: Mapping[str, Stored],
    started: Callable[[int, Cell], None],
    finished: Callable[[Cell, Record], None],
) -> None:
    bench = TaskBench(stored)
    for cell in cells:
        started(0, cell)
        finished(cell, measure(cell, bench))


def _is_finished(status: str | None, retry_failed: bool) -> bool:
    return status is not None and not (retry_failed and status == "failed")


def _resolved(study: Study, cells: Sequence[Cell], shelf: Mapping[Any, Stored]) -> dict[str, Any]:
    """What was asked for, in full: enough to know which records belong to it, and on which data."""
    return {
        "format": FORMAT,
        "version": __version__,
        "digest": study.digest,
        "study": study.resolved(),
        "fingerprints": {
            f"{role} {name} ({encoder})": one.fingerprint for (role, name, encoder), one in shelf.items()
        },
        "cells": {cell.address: {"label": cell.label, "oracle_tuned": cell.oracle_tuned} for cell in cells},
    }


def _export(folder: Path) -> None:
    """The same results as tables for other tools."""
    frame = read_results(folder)
    for kind in ("csv", "parquet"):
        export_table(frame, folder / f"results.{kind}")
