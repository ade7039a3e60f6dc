"""Run cells in worker processes, on a Ray cluster, or in this process; retry a cell once.

An engine takes a cell and gives a future of its record. Everything else is the same for all of them: who is
free gets the next cell, and a cell that ends in an error, or whose worker dies, is tried once more. Records
are written by the process that started the sweep, as they arrive, so that none is lost or doubled.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

from dptransfer.base.ray_workers import connect
from dptransfer.base.worker_env import environment_of_task, own_core
from dptransfer.errors import DPTransferError, MissingDependency
from dptransfer_lab.cells import Cell
from dptransfer_lab.measure import CellFailed, failed_record, measure, run_cell
from dptransfer_lab.pinning import begin_worker, share_of_cores
from dptransfer_lab.results import Record
from dptransfer_lab.stored import Arrays, Stored

ATTEMPTS = 2
"""A cell that fails is tried once more."""


class Engine(Protocol):
    """Somewhere cells run."""

    @property
    def places(self) -> int:
        """How many run side by side."""

    def submit(self, place: int, cell: Cell) -> Future[Record]:
        """Begin a cell at a free place."""

    def close(self) -> None:
        """End everything, in the middle of a cell if need be."""


def run_cells(
    cells: Sequence[Cell],
    engine: Engine,
    *,
    started: Callable[[int, Cell], None],
    finished: Callable[[Cell, Record], None],
) -> None:
    """Run every cell once, then close the engine.

    Args:
        cells: what to run.
        engine: where.
        started: called with a place and the cell that begins there.
        finished: called with a cell and its record.
    """
    waiting, tries = deque(cells), Counter[str]()
    free = list(range(engine.places))
    running: dict[Future[Record], tuple[int, Cell, float]] = {}
    ended: list[tuple[Cell, Record]] = []
    try:
        while waiting or running or ended:
            while waiting and free:
                cell, place = waiting.popleft(), free.pop(0)
                future = engine.submit(place, cell)
                started(place, cell)
                running[future] = place, cell, time.perf_counter()
            while ended:  # written down while the workers are busy again
                finished(*ended.pop())
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                place, cell, began = running.pop(future)
                free.append(place)
                tries[cell.address] += 1
                problem = future.exception()
                if problem is None:
                    ended.append((cell, _with_the_way(future.result(), time.perf_counter() - began)))
                elif tries[cell.address] < ATTEMPTS:
                    waiting.appendleft(cell)
                else:
                    ended.append((cell, failed_record(cell, _in_words(problem))))
    finally:
        engine.close()


def _with_the_way(record: Record, seconds: float) -> Record:
    """The way to the worker and back is overhead too; what the method took is not."""
    cost = record["cost"]
    own = cost["cell_seconds"] - cost["overhead_seconds"]
    return {**record, "cost": {**cost, "overhead_seconds": seconds - own}}


def _in_words(problem: BaseException) -> str:
    problem = getattr(problem, "cause", problem)  # Ray wraps what a cell raised in the story of its journey
    first = str(problem).split("\n")[0]
    return first if isinstance(problem, CellFailed) else f"{type(problem).__name__}: {first}"


def sources_of(cell: Cell, stored: Mapping[str, Stored]) -> tuple[Stored, Stored | None]:
    """The arrays a cell needs: of its data set, and of its pool."""
    pool = cell.task.pool_fingerprint
    return stored[cell.task.data_fingerprint], None if pool is None else stored[pool]


class ThisProcess:
    """Cells one after the other, here; an error ends the sweep, which is what one wants while looking for it.

    Args:
        stored: data sets and pools by fingerprint.
    """

    places = 1

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self._stored = stored

    def submit(self, place: int, cell: Cell) -> Future[Record]:
        """Run the cell."""
        done: Future[Record] = Future()
        done.set_result(measure(cell, *sources_of(cell, self._stored)))
        return done

    def close(self) -> None:
        """Nothing is left to end."""


class Processes:
    """Worker processes with pinned threads; one that dies takes no other with it and is replaced.

    Args:
        stored: data sets and pools by fingerprint.
        workers: how many processes.
    """

    def __init__(self, stored: Mapping[str, Stored], workers: int) -> None:
        self.places = workers
        self._stored = stored
        self._workers = [_Worker(share_of_cores(place, workers)) for place in range(workers)]

    def submit(self, place: int, cell: Cell) -> Future[Record]:
        """Hand the cell to the process at this place."""
        sources = sources_of(cell, self._stored)
        try:
            return self._workers[place].submit(cell, *sources)
        except BrokenProcessPool:  # it died in its last cell
            self._workers[place].end()
            self._workers[place] = _Worker(share_of_cores(place, self.places))
            return self._workers[place].submit(cell, *sources)

    def close(self) -> None:
        """End every process at once."""
        for worker in self._workers:
            worker.end()


class _Worker:
    """One process: an executor of its own, so that its death is the end of its own cell only."""

    def __init__(self, cores: Sequence[int]) -> None:
        context = multiprocessing.get_context("spawn")
        self._kept, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=begin_worker, initargs=(cores, self._kept)
        )
        self._ready = self._pool.submit(callable, run_cell)  # loads what cells need

    def submit(self, cell: Cell, data: Stored, pool: Stored | None) -> Future[Record]:
        try:
            self._ready.result()
        except BrokenProcessPool:
            raise DPTransferError(
                "A worker process must start; it ended before its first cell; its own words are above. "
                'In a script, start sweeps under `if __name__ == "__main__":`.'
            ) from None
        return self._pool.submit(run_cell, cell, data, pool)

    def end(self) -> None:
        self._lifeline.close()
        self._pool.shutdown()
        self._kept.close()


class RayCluster:
    """Cells as Ray tasks.

    Args:
        stored: data sets and pools by fingerprint.
        workers: cells side by side; each is one Ray task on one core.
        address: of a running cluster; default a local one, started and ended here.
    """

    def __init__(self, stored: Mapping[str, Stored], workers: int, address: str | None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingDependency("ray", "ray", "A sweep on a cluster") from None
        self.places, self._ray = workers, ray
        self._mine = not ray.is_initialized()
        if self._mine:
            connect(address or "local", workers)
        self._stored = {name: _InObjectStore.put(ray, one) for name, one in stored.items()}
        environment = {"env_vars": environment_of_task(Path(__file__).parents[1])}
        self._task = ray.remote(num_cpus=1, max_retries=0, runtime_env=environment)(_on_own_core)

    def submit(self, place: int, cell: Cell) -> Future[Record]:
        """Hand the cell to whichever machine is free."""
        future: Future[Record] = self._task.remote(cell, *sources_of(cell, self._stored)).future()
        return future

    def close(self) -> None:
        """Leave the cluster, or end it where it was started here."""
        if self._mine:
            self._ray.shutdown()


class _InObjectStore(Stored):
    """Arrays that Ray holds: a task reads them from shared memory without a copy."""

    @classmethod
    def put(cls, ray: Any, stored: Stored) -> _InObjectStore:
        own = {field.name: getattr(stored, field.name) for field in fields(stored)}
        return cls(**{**own, "files": {part: ray.put(array) for part, array in stored.open().items()}})

    def open(self) -> Arrays:
        import ray

        return {part: ray.get(reference) for part, reference in self.files.items()}


def _on_own_core(cell: Cell, data: Stored, pool: Stored | None) -> Record:
    with own_core():
        return run_cell(cell, data, pool)
