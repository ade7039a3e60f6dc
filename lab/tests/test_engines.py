import os
import signal
from concurrent.futures import Future
from itertools import pairwise

import pytest
import threadpoolctl

from dptransfer.base.worker_env import thread_variables
from dptransfer.errors import DPTransferError
from dptransfer_lab.cells import cells_of
from dptransfer_lab.engines import Processes, ThisProcess, run_cells
from dptransfer_lab.measure import CellFailed
from dptransfer_lab.pinning import share_of_cores
from dptransfer_lab.sources import stored_arrays

from .test_cells import cells as made_cells


class Told:
    """An engine that does what it is told, two cells at a time, the later one first."""

    places = 2

    def __init__(self, problems=()):
        self.problems = list(problems)
        self.events = []
        self.pending = []

    def submit(self, place, cell):
        future = Future()
        self.events.append(("submitted", place, cell.address))
        self.pending.append((future, cell))
        if len(self.pending) == self.places or self.problems:
            while self.pending:
                self._end(*self.pending.pop())
        return future

    def _end(self, future, cell):
        if self.problems:
            future.set_exception(self.problems.pop(0))
        else:
            cost = {"cell_seconds": 1.0, "overhead_seconds": 0.5}
            future.set_result({"cell": cell.address, "status": "done", "cost": cost})

    def close(self):
        self.events.append(("closed",))


def swept(engine, cells):
    found = {}

    def finished(cell, record):
        assert cell.address == record["cell"]
        assert cell.address not in found
        found[cell.address] = record
        engine.events.append(("finished", cell.address))

    run_cells(cells, engine, started=lambda place, cell: None, finished=finished)
    assert engine.events[-1] == ("closed",)
    return found


def test_every_cell_is_run_once_and_workers_are_busy_again_before_a_record_is_written_down():
    engine, cells = Told(), made_cells()
    found = swept(engine, cells)
    assert list(found) != [cell.address for cell in cells]  # the later one of two first
    assert all(
        one["cost"]["overhead_seconds"] < 0.5 for one in found.values()
    )  # half of a second was its own
    submitted = [event for event in engine.events if event[0] == "submitted"]
    assert sorted(address for _, _, address in submitted) == sorted(cell.address for cell in cells)
    assert {place for _, place, _ in submitted} == {0, 1}
    kinds = [event[0] for event in engine.events]
    assert ("submitted", "finished") in pairwise(kinds)
    assert kinds[:4] == ["submitted"] * 4  # two that ended, and two that run while those are written


def test_a_cell_that_fails_once_is_tried_again():
    engine, cells = Told([CellFailed("ZeroDivisionError: x at y.py:1")]), made_cells()[:4]
    assert {record["status"] for record in swept(engine, cells).values()} == {"done"}
    assert len([event for event in engine.events if event[0] == "submitted"]) == 5


def wrapped(cause):
    """As Ray hands on what a task raised."""
    problem = CellFailed("ray::task() (pid=1)\n  File ...")
    problem.cause = cause
    return problem


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (CellFailed("ZeroDivisionError: x at y.py:1"), "ZeroDivisionError: x at y.py:1"),
        (OSError("gone\nand more"), "OSError: gone"),
        (wrapped(CellFailed("ZeroDivisionError: x at y.py:1")), "ZeroDivisionError: x at y.py:1"),
    ],
)
def test_a_cell_that_fails_twice_is_recorded_as_failed(problem, words):
    (record,) = swept(Told([problem, problem]), made_cells()[:1]).values()
    assert (record["status"], record["message"]) == ("failed", words)


def test_an_interruption_closes_the_engine():
    engine = Told()

    def stop(cell, record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells(made_cells(), engine, started=lambda *_: None, finished=stop)
    assert engine.events[-1] == ("closed",)


@pytest.fixture
def ready(toy, small):
    stored = stored_arrays(small, [toy])
    return cells_of(small, stored), {one.fingerprint: one for one in stored.values()}


def test_in_this_process_an_error_ends_the_sweep(ready, monkeypatch):
    cells, stored = ready
    monkeypatch.setattr("dptransfer_lab.measure._evaluated", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_cells(cells, ThisProcess(stored), started=lambda *_: None, finished=lambda *_: None)


class Killing(Processes):
    """Kills the process that has a certain cell, so many times."""

    def __init__(self, stored, victim, times):
        super().__init__(stored, 1)
        self.victim, self.times, self.pids = victim, times, set()

    def submit(self, place, cell):
        future = super().submit(place, cell)
        pid = next(iter(self._workers[place]._pool._processes))
        self.pids.add(pid)
        if cell.address == self.victim and self.times:
            self.times -= 1
            os.kill(pid, signal.SIGKILL)
        return future


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_dies_is_replaced_and_its_cell_tried_again_once(ready, times):
    cells, stored = ready
    engine, records = Killing(stored, cells[3].address, times), {}

    def finished(cell, record):
        records[cell.address] = record

    run_cells(cells[:6], engine, started=lambda *_: None, finished=finished)
    assert len(engine.pids) == 1 + times
    assert len(records) == 6
    broken = records.pop(cells[3].address)
    assert broken["status"] == ("done" if times == 1 else "failed")
    assert times == 1 or "terminated abruptly" in broken["message"]
    assert {record["status"] for record in records.values()} == {"done"}
    assert not any(os.path.exists(f"/proc/{pid}") for pid in engine.pids)


@pytest.mark.slow
def test_a_worker_keeps_to_its_cores_and_threads(ready):
    _, stored = ready
    engine = Processes(stored, 2)
    try:
        for place, worker in enumerate(engine._workers):
            cores = share_of_cores(place, 2)
            assert worker._ready.result()
            assert worker._pool.submit(os.sched_getaffinity, 0).result() == set(cores)
            for variable in thread_variables(1):
                assert worker._pool.submit(os.getenv, variable).result() == str(len(cores))
            pools = worker._pool.submit(threadpoolctl.threadpool_info).result()
            assert {pool["num_threads"] for pool in pools} == {len(cores)}
    finally:
        engine.close()


def test_a_worker_that_cannot_start_ends_the_sweep(ready, monkeypatch):
    cells, stored = ready
    monkeypatch.setattr("dptransfer_lab.engines.begin_worker", os.abort)
    with pytest.raises(DPTransferError, match="must start"):
        run_cells(cells, Processes(stored, 1), started=lambda *_: None, finished=lambda *_: None)
