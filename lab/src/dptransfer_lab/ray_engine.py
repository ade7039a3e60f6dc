"""Cells on a Ray cluster: arrays go into its object store once, records come back to this process.

Whoever dies, a worker process or a whole machine, its cells are tried again; see `dptransfer_lab.engines`.
Records are written by the process that started the sweep, as they arrive, so that none is lost or doubled. A
cell has one core and one thread for its arithmetic, as its task asks Ray for.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import fields
from pathlib import Path
from typing import Any

from dptransfer.base.ray_connection import connected
from dptransfer.base.worker_env import environment_of_task, own_core
from dptransfer.errors import MissingDependency
from dptransfer_lab.cells import Cell
from dptransfer_lab.engines import sources_of
from dptransfer_lab.measure import measured
from dptransfer_lab.record_file import Record
from dptransfer_lab.stored import Arrays, Stored


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
            connected(address or "local", workers)
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
        return measured(cell, data, pool)
