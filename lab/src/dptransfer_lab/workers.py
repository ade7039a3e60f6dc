"""Worker processes on this machine, with pinned threads; one that dies is replaced, its cell tried again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import dptransfer
from dptransfer.errors import DPTransferError
from dptransfer_lab.cells import Cell, TaskKey
from dptransfer_lab.pinning import thread_variables
from dptransfer_lab.queue import CellQueue
from dptransfer_lab.results import Record
from dptransfer_lab.shelf import Stored
from dptransfer_lab.worker import CORES

Started = Callable[[int, Cell], None]
Finished = Callable[[Cell, Record], None]


class WorkerDied(Exception):
    """The process ended while it had a cell."""


class Worker:
    """One process that takes cells.

    Args:
        stored: data sets and pools by fingerprint.
        cores: the cores it may use.
    """

    def __init__(self, stored: Mapping[str, Stored], cores: Sequence[int]) -> None:
        source = str(Path(dptransfer.__file__).parents[1])
        paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
        threads = thread_variables(len(cores))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dptransfer_lab.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, **threads, CORES: ",".join(map(str, cores)), "PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C is for the sweep to hear, which then ends its workers
        )
        try:
            self._ask({"stored": {name: one.to_json() for name, one in stored.items()}})
        except WorkerDied as death:
            self.end()
            raise DPTransferError(f"A worker process must start; {death}. Its own words are above.") from None

    def measure(self, cell: Cell) -> dict[str, Any]:
        """The answer to one cell: its record, or a problem in words."""
        return self._ask({"cell": cell.to_json()})

    def end(self) -> None:
        """End the process, in the middle of a cell if need be."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            answer: dict[str, Any] = json.loads(line)
        except (OSError, ValueError):
            raise WorkerDied(f"the worker process ended with code {self.process.wait()}") from None
        return answer


def run_in_processes(
    cells: Sequence[Cell],
    stored: Mapping[str, Stored],
    *,
    workers: int,
    started: Started,
    finished: Finished,
    failed: Callable[[Cell, str], Record],
) -> None:
    """Run every cell once; `started` and `finished` are called in this thread.

    Args:
        cells: what to run.
        stored: data sets and pools by fingerprint.
        workers: how many processes.
        started: called with a worker's number and the cell it begins.
        finished: called with a cell and its record.
        failed: makes the record of a cell that failed twice.
    """
    queue = CellQueue(cells)
    events: SimpleQueue[tuple[str, int, Any]] = SimpleQueue()
    crew = [_Tender(place, workers, queue, stored, events, failed) for place in range(workers)]
    for tender in crew:
        tender.start()
    try:
        left = workers
        while left:
            kind, place, what = events.get()
            if kind == "started":
                started(place, what)
            elif kind == "finished":
                finished(*what)
            elif kind == "ended":
                left -= 1
            else:
                raise what
    finally:
        queue.close()
        for tender in crew:
            tender.stop()
        for tender in crew:
            tender.join()


class _Tender(threading.Thread):
    """Feeds one worker, replaces it when it dies, and passes on what it says."""

    def __init__(
        self,
        place: int,
        workers: int,
        queue: CellQueue,
        stored: Mapping[str, Stored],
        events: SimpleQueue[tuple[str, int, Any]],
        failed: Callable[[Cell, str], Record],
    ) -> None:
        super().__init__(daemon=True)
        self._place, self._queue, self._stored, self._events = place, queue, stored, events
        self._failed = failed
        self._cores = share_of_cores(place, workers)
        self._worker: Worker | None = None
        self._stopped = False

    def run(self) -> None:
        last: TaskKey | None = None
        try:
            while not self._stopped and (cell := self._queue.take(last)) is not None:
                last = cell.task
                self._settle(cell)
        except BaseException as problem:
            if not self._stopped:
                self._events.put(("broken", self._place, problem))
        finally:
            self.stop()
            self._events.put(("ended", self._place, None))

    def stop(self) -> None:
        """End the worker; called from the sweep's thread when it is interrupted."""
        self._stopped = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def _settle(self, cell: Cell) -> None:
        if self._worker is None:
            self._worker = Worker(self._stored, self._cores)
            if self._stopped:  # the sweep was interrupted in the meantime
                return self._worker.end()
        self._events.put(("started", self._place, cell))
        asked = time.perf_counter()
        try:
            answer = self._worker.measure(cell)
        except WorkerDied as death:
            if self._stopped:
                return
            answer = {"problem": f"{death}"}
            self._worker.end()
            self._worker = None
        if "record" in answer:
            cost = answer["record"]["cost"]
            # The way to the worker and back is overhead too; what the method took is not.
            own = cost["cell_seconds"] - cost["overhead_seconds"]
            cost["overhead_seconds"] = time.perf_counter() - asked - own
            self._events.put(("finished", self._place, (cell, answer["record"])))
        elif self._queue.again(cell):
            return
        else:
            self._events.put(("finished", self._place, (cell, self._failed(cell, answer["problem"]))))
        self._queue.done(cell)


def share_of_cores(place: int, workers: int) -> list[int]:
    """The cores of one worker: an equal share, or one core that several share where there are too few."""
    known = (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    cores = list(known)
    if workers < 1:
        raise DPTransferError(f"workers must be at least 1; got {workers}.")
    each = len(cores) // workers
    return cores[place * each : (place + 1) * each] if each else [cores[place % len(cores)]]
