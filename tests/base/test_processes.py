import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dptransfer.base import worker_pool
from dptransfer.base.progress import reported_to
from dptransfer.base.worker_pool import Processes
from dptransfer.base.workers import Here
from dptransfer.errors import ArgumentError, DPTransferError

from . import jobs
from .jobs import PIECES, ROWS, SUMS


def workers_alive():
    return [one.pid for one in multiprocessing.active_children()]


@pytest.fixture(autouse=True)
def _none_is_left():
    yield
    assert workers_alive() == []


def test_no_more_cores_work_than_there_are(monkeypatch):
    monkeypatch.setattr(worker_pool, "cores_here", lambda: [0, 1, 2])
    assert [Processes(workers).cores for workers in (None, 2, 9)] == [3, 2, 3]


def test_every_piece_is_done_once_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    heard, found = [], []
    with reported_to(lambda *told: heard.append(told)):
        for one in Processes(2).each(jobs.SumOfRows(ROWS), PIECES, "part"):
            found.append(one)
            assert not list(tmp_path.rglob("*"))
    assert dict(found) == dict(Here().each(jobs.SumOfRows(ROWS), PIECES, "part")) == SUMS
    assert len(found) == len(PIECES)
    assert heard == [(done + 1, 8, "part") for done in range(8)]
    assert not list(tmp_path.rglob("*"))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen here")
def test_workers_share_the_cores_among_themselves(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    mine = os.sched_getaffinity(0)
    answers = [found for _, found in Processes(len(mine)).each(jobs.surroundings, range(20), "look")]
    of_process = {process: cores for process, cores, _ in answers}
    assert os.getpid() not in of_process
    assert all(len(cores) == 1 for cores in of_process.values())
    assert len(set(of_process.values())) == len(of_process)
    assert set().union(*of_process.values()) <= mine
    assert {threads for *_, threads in answers} == {"1"}


@pytest.mark.parametrize(
    ("count", "shares"),
    [
        (1, [[2, 3, 5, 7, 11]]),
        (2, [[2, 3], [5, 7, 11]]),
        (5, [[2], [3], [5], [7], [11]]),
        (6, [[2], [3], [5], [7], [11], [2]]),
    ],
)
def test_no_core_is_left_out_and_none_is_shared_while_there_are_enough(count, shares, monkeypatch):
    monkeypatch.setattr(worker_pool, "cores_here", lambda: [2, 3, 5, 7, 11])
    assert worker_pool._shares(count) == shares


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    work = jobs.SumThatKills(ROWS, tmp_path)
    assert dict(Processes(2).each(work, PIECES, "part")) == SUMS
    assert (tmp_path / "death-0").exists()


@pytest.mark.slow
def test_work_that_kills_whoever_does_it_ends_in_words():
    with pytest.raises(DPTransferError, match="SIGKILL"):
        list(Processes(1).each(jobs.die, PIECES, "part"))


def test_what_work_raises_comes_home_as_it_is_and_is_printed_nowhere(capfd):
    with pytest.raises(KeyError) as told:
        list(Processes(1).each(jobs.refuse, ["secret"], "word"))
    assert told.value.args == ("secret",)
    assert "refuse" in told.value.__notes__[0]
    assert "secret" not in told.value.__notes__[0]
    assert capfd.readouterr() == ("", "")


def test_a_result_that_cannot_be_sent_is_an_error_and_no_dead_worker():
    with pytest.raises(TypeError, match="pickle"):
        list(Processes(1).each(jobs.give_a_lock, [1], "lock"))


def test_work_that_cannot_be_sent_is_refused_at_once():
    with pytest.raises(ArgumentError):
        Processes(2).each(lambda piece: piece, [1, 2], "piece")


def test_work_that_is_not_there_in_a_worker_is_refused_in_words(monkeypatch):
    def only_here(piece):
        return piece

    only_here.__qualname__ = "only_here"
    monkeypatch.setattr(jobs, "only_here", only_here, raising=False)
    only_here.__module__ = jobs.__name__
    with pytest.raises(ArgumentError):
        list(Processes(1).each(only_here, [1], "piece"))


def test_who_wants_no_more_ends_the_workers():
    results = Processes(2).each(jobs.name_then_sleep, [0, 1, 1, 1], "nap")
    next(results)
    assert workers_alive()
    results.close()
    assert workers_alive() == []


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_there_is_at_least_one_worker(bad):
    with pytest.raises(ArgumentError, match="workers"):
        Processes(bad)
    with pytest.raises(ArgumentError, match="patience"):
        Processes(1, patience=-1)


def test_loading_the_package_loads_no_pools():
    found = subprocess.run(
        [sys.executable, "-c", "import sys, dptransfer.base; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"multiprocessing", "concurrent.futures", "ray", "numpy"} & set(found)


@pytest.mark.slow
def test_workers_killed_from_outside_twenty_times_change_nothing():
    pieces, found, killed = PIECES * 20, [], set()
    for one in Processes(2).each(jobs.SlowSum(ROWS, 0.02), pieces, "part"):
        found.append(one)
        if len(found) % 7 == 0 and len(killed) < 20:
            victim = next(pid for pid in workers_alive() if pid not in killed)
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
    assert sorted(found) == [(number, SUMS[number % 8]) for number in range(len(pieces))]
    assert len(killed) == 20


@pytest.mark.slow
def test_a_worker_that_dies_again_and_again_is_replaced_each_time(tmp_path):
    work = jobs.SumThatKills(ROWS, tmp_path, deaths=2)
    assert dict(Processes(1).each(work, PIECES, "part")) == SUMS
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(tmp_path):
    work = jobs.SumThatHangs(ROWS, tmp_path)
    assert dict(Processes(2, patience=8).each(work, PIECES, "part")) == SUMS


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
@pytest.mark.parametrize(
    "how", ["SIGKILL", *(pytest.param(one, marks=pytest.mark.slow) for one in ("SIGTERM", "SIGINT"))]
)
def test_however_the_starter_ends_no_worker_outlives_it(how):
    script = """
        from base import jobs
        from dptransfer.base.worker_pool import Processes

        if __name__ == "__main__":
            for _, found in Processes(2).each(jobs.name_then_sleep, [0, 0, 1, 1], "nap"):
                print(found, flush=True)
    """
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    handles = [os.pidfd_open(int(starter.stdout.readline())) for _ in range(2)]
    if how == "SIGINT":
        os.killpg(starter.pid, signal.SIGINT)  # as a terminal sends it, to all of them
    else:
        starter.send_signal(getattr(signal, how))
    until = time.monotonic() + 60  # at once, but on a machine that is busy
    try:
        assert all(select.select([one], [], [], max(0, until - time.monotonic()))[0] for one in handles)
    finally:
        for handle in handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        starter.wait(10)
        starter.stdout.close()


def test_processes_are_tried_once_to_see_that_they_can_start(monkeypatch):
    started = []
    worker_pool._require_start.cache_clear()
    monkeypatch.setattr(worker_pool._Worker, "ask", lambda *_: started.append(1))
    for _ in range(2):
        Processes(3).ready()
    assert started == [1]


def test_a_process_that_cannot_live_is_told_when_it_is_tried(monkeypatch):
    def lost(*_):
        raise worker_pool.WorkerLost("its process ended with SIGKILL")

    worker_pool._require_start.cache_clear()
    monkeypatch.setattr(worker_pool._Worker, "ask", lost)
    with pytest.raises(DPTransferError, match="SIGKILL"):
        Processes(3).ready()


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_of_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from dptransfer.base.worker_pool import Processes\n"
        "print(list(Processes(1).each(abs, [1], 'number')))\n"
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].endswith('begin under `if __name__ == "__main__":`.')
