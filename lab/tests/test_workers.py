import io
import os
import signal
import subprocess
import sys

import pytest

from dptransfer.errors import DPTransferError
from dptransfer_lab import worker as worker_process
from dptransfer_lab.cells import cells_of
from dptransfer_lab.measure import failed
from dptransfer_lab.pinning import thread_variables
from dptransfer_lab.sources import shelved
from dptransfer_lab.worker import CORES
from dptransfer_lab.workers import Worker, WorkerDied, run_in_processes, share_of_cores


@pytest.fixture
def ready(toy, small):
    shelf = shelved(small.data, {pool.name: pool.source for pool in small.pool}, [toy])
    return cells_of(small, shelf), {one.fingerprint: one for one in shelf.values()}


@pytest.mark.slow
def test_a_worker_answers_with_records_and_with_problems(ready):
    cells, stored = ready
    worker = Worker(stored, share_of_cores(0, 2))
    try:
        assert worker.measure(cells[0])["record"]["status"] == "done"
        bad = {**cells[0].to_json(), "given": None}  # an error of its own, not a refusal of the library's
        assert "AttributeError" in worker._ask({"cell": bad})["problem"]
        assert worker.measure(cells[1])["record"]["cell"] == cells[1].address
        assert os.sched_getaffinity(worker.process.pid) == set(share_of_cores(0, 2))
    finally:
        worker.end()
    with pytest.raises(WorkerDied):
        worker.measure(cells[0])


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_cell_tried_again(ready, monkeypatch):
    cells, stored = ready
    workers, killed = [], []

    class Watched(Worker):
        def __init__(self, *given):
            super().__init__(*given)
            workers.append(self)

        def measure(self, cell):
            if cell.address == cells[3].address and not killed:
                killed.append(cell)
                os.kill(self.process.pid, signal.SIGKILL)
            return super().measure(cell)

    monkeypatch.setattr("dptransfer_lab.workers.Worker", Watched)
    records = []
    run_in_processes(
        cells,
        stored,
        workers=1,
        started=lambda place, cell: None,
        finished=lambda cell, record: records.append(record),
        failed=failed,
    )
    assert len(workers) == 2
    assert sorted(record["cell"] for record in records) == sorted(cell.address for cell in cells)
    assert {record["status"] for record in records} == {"done"}


@pytest.mark.slow
def test_a_cell_that_kills_every_worker_is_recorded_as_failed(ready, monkeypatch):
    cells, stored = ready

    class Fragile(Worker):
        def measure(self, cell):
            if cell.address == cells[2].address:
                os.kill(self.process.pid, signal.SIGKILL)
            return super().measure(cell)

    monkeypatch.setattr("dptransfer_lab.workers.Worker", Fragile)
    records = {}
    run_in_processes(
        cells[:5],
        stored,
        workers=1,
        started=lambda place, cell: None,
        finished=lambda cell, record: records.__setitem__(record["cell"], record),
        failed=failed,
    )
    assert len(records) == 5
    broken = records.pop(cells[2].address)
    assert broken["status"] == "failed"
    assert "ended with code -9" in broken["message"]
    assert {record["status"] for record in records.values()} == {"done"}


@pytest.mark.slow
def test_an_interruption_ends_the_workers(ready, monkeypatch):
    cells, stored = ready
    workers = []

    class Watched(Worker):
        def __init__(self, *given):
            super().__init__(*given)
            workers.append(self)

    def stop(cell, record):
        raise KeyboardInterrupt

    monkeypatch.setattr("dptransfer_lab.workers.Worker", Watched)
    with pytest.raises(KeyboardInterrupt):
        run_in_processes(cells, stored, workers=2, started=lambda *_: None, finished=stop, failed=failed)
    assert all(worker.process.poll() is not None for worker in workers)


def test_a_worker_that_cannot_start_ends_the_sweep(ready, monkeypatch):
    cells, stored = ready
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(DPTransferError, match="must start"):
        run_in_processes(
            cells, stored, workers=1, started=lambda *_: None, finished=lambda *_: None, failed=failed
        )


def test_cores_are_shared_out(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3, 4})
    assert [share_of_cores(place, 2) for place in range(2)] == [[0, 1], [2, 3]]
    assert share_of_cores(0, 1) == [0, 1, 2, 3, 4]
    assert [share_of_cores(place, 7) for place in (0, 5)] == [[0], [0]]
    with pytest.raises(DPTransferError, match="at least 1"):
        share_of_cores(0, 0)


def test_a_worker_starts_with_its_threads_and_cores_pinned(monkeypatch):
    """As many threads of linear algebra as cores: with more, cells side by side take each other's time."""
    started = []

    class Answering:
        def __init__(self, command, *, env, **_):
            started.append(env)
            self.stdin, self.stdout = io.StringIO(), io.StringIO('{"ready": true}\n')

    monkeypatch.setattr("subprocess.Popen", Answering)
    for cores in ([3], [2, 5]):
        Worker({}, cores)
        env = started.pop()
        assert {env[name] for name in thread_variables(1)} == {str(len(cores))}
        assert env[CORES] == ",".join(map(str, cores))


def test_a_worker_keeps_to_its_cores_before_it_loads_anything(monkeypatch):
    chosen = []
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: chosen.append(cores), raising=False)
    monkeypatch.setattr("os.dup", lambda descriptor: pytest.fail("not pinned yet") if not chosen else 1 / 0)
    monkeypatch.setenv(CORES, "2,5")
    with pytest.raises(ZeroDivisionError):
        worker_process.main()
    assert chosen == [{2, 5}]
    monkeypatch.delenv(CORES)
    worker_process._pin()  # started by hand: on all cores
    assert chosen == [{2, 5}]


def test_the_variables_pin_the_threads_of_linear_algebra():
    """Asked in a process of its own, since they are read when numpy is loaded."""
    code = (
        "import numpy, threadpoolctl\n"
        "print({one['num_threads'] for one in threadpoolctl.threadpool_info() if one['user_api'] == 'blas'})"
    )
    variables = {**os.environ, **thread_variables(1)}
    told = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "{1}"
