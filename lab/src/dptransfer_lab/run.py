"""A sweep: run the cells of a study that have no result yet, and write down each record as it comes.

Cells run on a pool of the library's workers: processes, a Ray cluster, or this process. A cell that ends in
an error, or whose worker dies, is tried once more and then recorded as failed. Records are written by the
process that started the sweep, so that none is lost or doubled. Whatever ends a sweep early, running it again
goes on where it stopped: what is on disk is finished, and what is not is run.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dptransfer import __version__
from dptransfer.accounting import warn_if_weak
from dptransfer.base.ray_workers import RayCluster
from dptransfer.base.types import JsonObject
from dptransfer.base.workers import Processes, ThisProcess
from dptransfer.errors import ArgumentError
from dptransfer_lab.cells import FORMAT, Cell, cells_of
from dptransfer_lab.measure import OWN, failed_record, measure
from dptransfer_lab.results import Record, RecordFile, export_tables, read_results, write_study
from dptransfer_lab.sources import stored_arrays
from dptransfer_lab.stored import Stored
from dptransfer_lab.study import Study

ENGINES = ("processes", "ray")


class Watcher:
    """Whoever is told how a sweep goes; this one does not look."""

    def loading(self, what: str) -> None:
        """Rows are being read or decoded."""

    def missing(self, what: str) -> None:
        """A data set is left out."""

    def begin(self, total: int, wanted: Sequence[Cell]) -> None:
        """There are `total` cells; `wanted` have no result yet."""

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell has its record, which is on disk."""


@dataclass
class Tally:
    """What a sweep did and cost.

    Attributes:
        total: cells of the study.
        reused: those that had results before.
        workers: how many cells ran side by side.
        counts: those that ran now, by status.
        seconds: wall time of the sweep, without reading the data.
        starting: wall time until the first cell began.
        own_seconds: time spent in fits, predictions, attacks and losses.
        overhead: time that cells took beyond that, and to be written down.
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
        cost, extra = record["cost"], record["extra"]
        if cost["overhead_seconds"] is not None:
            self.own_seconds += cost["fit_seconds"] + sum(extra[f"{what}_seconds"] for what in OWN)
            self.overhead += cost["overhead_seconds"] + writing


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
        workers: processes on this machine, or cells side by side on a cluster; 0 runs in this process. A
            script that starts processes does so under `if __name__ == "__main__":`.
        engine: 'processes' or 'ray'.
        address: of a Ray cluster; default one that is started here.
        retry_failed: run cells again that failed.
        skip_missing: leave out data sets that are not there, and tell the watcher, instead of refusing.
        watcher: told how it goes.
    """
    if engine not in ENGINES:
        raise ArgumentError(f"engine must be one of {', '.join(ENGINES)}; got '{engine}'.")
    if workers < 0:
        raise ArgumentError(f"workers must be at least 0; got {workers}.")
    for grid in study.budget:
        for budget in grid.budgets():
            warn_if_weak(budget, stacklevel=2)  # once for the study; cells keep quiet about it
    told = watcher or Watcher()
    missing = told.missing if skip_missing else None
    stored = stored_arrays(study, folders, reading=told.loading, missing=missing)
    cells = cells_of(study, stored)
    with RecordFile(out) as results:
        write_study(results.folder, study.name, _resolved(study, cells, stored))
        wanted = [
            cell for cell in cells if not _is_finished(results.finished.get(cell.address), retry_failed)
        ]
        tally = Tally(len(cells), len(cells) - len(wanted), max(1, workers))
        told.begin(len(cells), wanted)
        began = time.perf_counter()
        arrays = {one.fingerprint: one for one in stored.values()}
        try:
            with closing(_records(wanted, arrays, engine, workers, address)) as records:
                for number, record in records:
                    came = time.perf_counter()
                    tally.starting = tally.starting or came - began - (record["cost"]["cell_seconds"] or 0.0)
                    results.append(record)
                    tally.add(record, time.perf_counter() - came)
                    told.finished(wanted[number], record)
        finally:
            tally.seconds = time.perf_counter() - began
    export_tables(read_results(out), out)
    return tally


def _records(
    cells: Sequence[Cell], stored: Mapping[str, Stored], engine: str, workers: int, address: str | None
) -> Generator[tuple[int, Record]]:
    """The number of each cell and its record, as they come."""
    if engine == "ray":
        cluster = RayCluster(address or "local", max(1, workers), _PATIENCE, give_up=failed_record)
        arrays = {fingerprint: one.in_memory() for fingerprint, one in stored.items()}
        yield from cluster.each(MeasureTwice(arrays), cells, "cell")
    elif workers:
        yield from Processes(workers, _PATIENCE, failed_record).each(MeasureTwice(stored), cells, "cell")
    else:  # an error ends the sweep, which is what one wants while looking for it
        yield from ThisProcess().each(partial(measure, stored=stored), cells, "cell")


_PATIENCE = 1e9  # seconds: cells of one study take seconds or hours, so that none is taken to hang


@dataclass(frozen=True)
class MeasureTwice:
    """What a worker does with a cell: measure it, once more if that fails, and else say what went wrong.

    Attributes:
        stored: data sets and pools by fingerprint.
    """

    stored: Mapping[str, Stored]

    def __call__(self, cell: Cell) -> Record:
        """The record of the cell."""
        for _ in range(2):
            try:
                return measure(cell, self.stored)
            except Exception as problem:
                frame = traceback.extract_tb(problem.__traceback__)[-1]
                place = f"{Path(frame.filename).name}:{frame.lineno}"
                message = f"{type(problem).__name__}: {problem} at {place}"
        return failed_record(cell, message)


def _is_finished(status: str | None, retry_failed: bool) -> bool:
    return status is not None and not (retry_failed and status == "failed")


def _resolved(
    study: Study, cells: Sequence[Cell], stored: Mapping[tuple[str, str, str], Stored]
) -> JsonObject:
    """What was asked for, in full: enough to know which records belong to it, and on which data."""
    return {
        "format": FORMAT,
        "version": __version__,
        "digest": study.digest,
        "study": study.resolved(),
        "fingerprints": {
            f"{role} {name} ({encoder})": one.fingerprint for (role, name, encoder), one in stored.items()
        },
        "cells": {cell.address: {"label": cell.label, "oracle_tuned": cell.oracle_tuned} for cell in cells},
    }
