"""Cells on a Ray cluster: arrays go into its object store once, records come back to this process.

Ray tries a cell again when the worker process or the machine under it dies; a cell that raises is tried again
here. Records are written by this process alone, as they arrive, so that none is lost or doubled. A cell has
one core and one thread for its arithmetic, as its task asks Ray for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dptransfer
from dptransfer.errors import MissingDependency
from dptransfer_lab.cells import Cell
from dptransfer_lab.measure import measure
from dptransfer_lab.pinning import own_core, thread_variables
from dptransfer_lab.queue import ATTEMPTS
from dptransfer_lab.results import Record
from dptransfer_lab.shelf import Stored
from dptransfer_lab.tasks import TaskBench
from dptransfer_lab.worker import explained

_BENCHES: dict[tuple[str, ...], TaskBench] = {}


def run_on_ray(
    cells: Sequence[Cell],
    stored: Mapping[str, Stored],
    *,
    workers: int,
    address: str | None,
    started: Callable[[int, Cell], None],
    finished: Callable[[Cell, Record], None],
    failed: Callable[[Cell, str], Record],
) -> None:
    """Run every cell once on a Ray cluster.

    Args:
        cells: what to run.
        stored: data sets and pools by fingerprint.
        workers: cells side by side; each is one Ray task on one core.
        address: of a running cluster; default a local one, started and ended here.
        started: called with a place and the cell handed out there.
        finished: called with a cell and its record.
        failed: makes the record of a cell that failed twice.
    """
    ray = _ray()
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address, max(1, workers))
    try:
        _sweep(ray, cells, stored, max(1, workers), started, finished, failed)
    finally:
        if mine:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingDependency("ray", "ray", "A sweep on a cluster") from None
    return ray


def _connect(ray: Any, address: str | None, workers: int) -> None:
    if address is not None:
        ray.init(address=address, log_to_driver=False)
    else:
        ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)


def _environment() -> dict[str, str]:
    """What a task's process is started with: this library, and one thread before numpy is loaded."""
    source = str(Path(dptransfer.__file__).parents[1])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    return {"PYTHONPATH": paths, **thread_variables(1)}


def _sweep(
    ray: Any,
    cells: Sequence[Cell],
    stored: Mapping[str, Stored],
    workers: int,
    started: Callable[[int, Cell], None],
    finished: Callable[[Cell, Record], None],
    failed: Callable[[Cell, str], Record],
) -> None:
    environment = {"env_vars": _environment()}
    remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1, runtime_env=environment)(_measured)
    notes = {name: one.to_json() for name, one in stored.items()}
    arrays = {
        name: {part: ray.put(array) for part, array in one.open().items()} for name, one in stored.items()
    }
    tries: dict[str, int] = {}
    waiting = list(reversed(cells))
    running: dict[Any, tuple[int, Cell]] = {}
    places = list(range(workers))
    while waiting or running:
        while waiting and places:
            cell, place = waiting.pop(), places.pop(0)
            needed = {
                name: arrays[name]
                for name in (cell.task.data_fingerprint, cell.task.pool_fingerprint)
                if name is not None
            }
            started(place, cell)
            running[remote.remote(cell.to_json(), {name: notes[name] for name in needed}, needed)] = (
                place,
                cell,
            )
        (ready,), _ = ray.wait(list(running), num_returns=1)
        place, cell = running.pop(ready)
        places.append(place)
        tries[cell.address] = tries.get(cell.address, 0) + 1
        try:
            answer = ray.get(ready)
        except ray.exceptions.RayError as problem:  # Ray has tried again already
            answer = {"problem": f"{type(problem).__name__}: {str(problem).splitlines()[0]}"}
            tries[cell.address] = ATTEMPTS
        if "record" in answer:
            finished(cell, answer["record"])
        elif tries[cell.address] < ATTEMPTS:
            waiting.append(cell)
        else:
            finished(cell, failed(cell, answer["problem"]))


def _measured(
    cell: Mapping[str, Any], notes: Mapping[str, Any], arrays: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Runs in a Ray worker: arrays are references, read from shared memory without a copy."""
    import ray

    def opened(one: Stored) -> Mapping[str, Any]:
        return {part: ray.get(reference) for part, reference in arrays[one.fingerprint].items()}

    key = tuple(sorted(notes))
    if key not in _BENCHES:
        shelf = {name: Stored.from_json(fields) for name, fields in notes.items()}
        _BENCHES[key] = TaskBench(shelf, opened)
    try:
        with own_core():
            return {"record": measure(Cell.from_json(cell), _BENCHES[key])}
    except Exception as problem:
        return {"problem": explained(problem)}
