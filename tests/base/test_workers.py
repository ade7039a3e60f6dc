"""Pieces of work: retries of any pool, worker processes, and this process."""

import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import Future
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from dptransfer.base import workers
from dptransfer.base.progress import reported_to
from dptransfer.base.workers import (
    Processes,
    TaskResult,
    ThisProcess,
    WorkerLost,
    map_with_retries,
    pieces_of,
    run_task,
)
from dptransfer.errors import ArgumentError, DataError, DPTransferError, MissingDependency

from . import jobs
from .jobs import PIECES, ROWS, SUMS


def test_every_piece_is_done_once_and_told_of():
    heard = []
    with reported_to(lambda done, of, what: heard.append((done, of, what))):
        assert dict(ThisProcess().each(abs, [-1, 2, -3], "number")) == {0: 1, 1: 2, 2: 3}
    assert heard == [(1, 3, "number"), (2, 3, "number"), (3, 3, "number")]


def test_pieces_cover_everything_once_and_are_not_too_many():
    for count, each in ((1, 10), (10**6, 256), (10**9, 1536), (5, 2**30)):
        pieces = pieces_of(count, each)
        assert pieces[0].start == 0
        assert pieces[-1].stop == count
        assert all(one.stop == two.start for one, two in pairwise(pieces))
        assert len(pieces) <= 1024


class Scripted:
    """A crew that does what a script says for each attempt at each piece: 'done', 'lost', or nothing."""

    window = 2

    def __init__(self, script):
        self.script, self.attempts, self.gathered, self.ended = script, [], 0, 0
        self.looks_left = None

    def gather(self):
        self.gathered += 1
        return self

    def submit(self, piece):
        what = self.script(piece, self.attempts.count(piece))
        self.attempts.append(piece)
        answer = Future()
        if what == "done":
            answer.set_result(TaskResult(piece * 10, None))
        elif what == "lost":
            answer.set_exception(WorkerLost("it is gone"))
        elif what is not None:
            answer.set_result(TaskResult(None, what))
        return answer

    def outcome(self, answer):
        return answer.result()

    def require_alive(self):
        if self.looks_left is not None:
            self.looks_left -= 1
            if self.looks_left < 0:
                raise DPTransferError("nobody is left")

    def end(self):
        self.ended += 1


def run(script, count=4, patience=0.01, **more):
    crew = Scripted(script)
    return crew, map_with_retries(crew.gather, range(count), "piece", patience=patience, **more)


def test_each_piece_is_given_once_and_told_of_once():
    heard = []
    crew, results = run(lambda piece, attempt: "lost" if attempt < piece % 3 else "done")
    with reported_to(lambda done, of, what: heard.append((done, of, what))):
        assert sorted(results) == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert heard == [(done, 4, "piece") for done in (1, 2, 3, 4)]
    assert (crew.gathered, crew.ended) == (1, 1)


@pytest.mark.parametrize(("what", "pools"), [("lost", 1), (None, 3)])
def test_three_losses_of_a_piece_with_none_finished_in_between_end_it_all(what, pools):
    """Whether its workers die, or hang and are replaced."""
    crew, results = run(lambda piece, attempt: what)
    with pytest.raises(DPTransferError, match="3 times"):
        list(results)
    assert max(crew.attempts.count(piece) for piece in range(4)) == 3
    assert crew.gathered == crew.ended == pools


def test_losses_at_once_and_losses_with_successes_in_between_are_borne():
    """A machine that dies takes all its pieces with it; losses far apart are no sign of work that kills."""
    crew, results = run(lambda piece, attempt: "lost" if attempt == 0 else "done", count=9)
    crew.window = 9
    assert len(list(results)) == 9
    crew, results = run(lambda piece, attempt: "lost" if piece == 0 and attempt < 5 else "done", count=12)
    assert len(list(results)) == 12
    assert crew.attempts.count(0) == 6


def test_a_piece_may_be_given_up_alone_after_two_losses():
    crew, results = run(lambda piece, attempt: "lost" if piece == 1 else "done", give_up="{}: {}".format)
    assert sorted(results) == [(0, 0), (1, "1: it is gone"), (2, 20), (3, 30)]
    assert (crew.attempts.count(1), crew.gathered) == (2, 1)


def test_whoever_hangs_is_replaced_with_all_that_they_had():
    crew, results = run(lambda piece, attempt: None if attempt == 0 and piece in (1, 2) else "done")
    assert sorted(number for number, _ in results) == [0, 1, 2, 3]
    assert crew.gathered == crew.ended == 2


@pytest.mark.parametrize(
    ("piece", "kind", "words"),
    [
        ("ours", DataError, "must be even"),
        ("missing", MissingDependency, "dptransfer[images]"),
        ("odd", DPTransferError, "cannot be sent"),  # Python sends it and cannot receive it
    ],
)
def test_errors_survive_the_way_home(piece, kind, words):
    result, problem = pickle.loads(pickle.dumps(run_task(jobs.refuse, piece)))
    assert result is None
    assert type(problem) is kind
    assert words in str(problem)
    assert "in refuse" in problem.__notes__[0]


@pytest.mark.parametrize(("what", "looks"), [(None, 3), ("lost", 0)])
def test_a_pool_that_is_gone_as_a_whole_ends_it_all_at_once(monkeypatch, what, looks):
    """It is noticed while nothing comes back, and nothing that it lost is tried again."""
    monkeypatch.setattr(workers, "_LOOK", 0.01)
    crew, results = run(lambda piece, attempt: what, patience=1)
    crew.looks_left = looks
    with pytest.raises(DPTransferError, match="nobody is left"):
        list(results)
    assert (crew.gathered, crew.ended) == (1, 1)
    assert max(crew.attempts.count(piece) for piece in range(4)) == 1


def workers_alive():
    return [one.pid for one in multiprocessing.active_children()]


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    assert workers_alive() == []


def test_every_piece_is_done_once_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    heard, found = [], []
    with reported_to(lambda *told: heard.append(told)):
        for one in Processes(2).each(jobs.SumOfRows(ROWS), PIECES, "part"):
            found.append(one)
            assert not list(tmp_path.rglob("*"))
    assert dict(found) == dict(ThisProcess().each(jobs.SumOfRows(ROWS), PIECES, "part")) == SUMS
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
    monkeypatch.setattr(workers, "cores_here", lambda: [2, 3, 5, 7, 11])
    assert workers._shares(count) == shares
    assert [Processes(one).cores for one in (None, 2, 9)] == [5, 2, 5]


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    work = jobs.SumThatKills(ROWS, tmp_path)
    assert dict(Processes(2).each(work, PIECES, "part")) == SUMS
    assert (tmp_path / "death-0").exists()


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


def test_work_that_cannot_be_sent_is_refused_at_once_and_what_is_not_there_in_words(monkeypatch):
    with pytest.raises(ArgumentError):
        Processes(2).each(lambda piece: piece, [1, 2], "piece")

    def only_here(piece):
        return piece

    only_here.__qualname__, only_here.__module__ = "only_here", jobs.__name__
    monkeypatch.setattr(jobs, "only_here", only_here, raising=False)
    with pytest.raises(ArgumentError):
        list(Processes(1).each(only_here, [1], "piece"))


def test_who_wants_no_more_ends_the_processes():
    results = Processes(2).each(jobs.name_then_sleep, [0, 1, 1, 1], "nap")
    next(results)
    assert workers_alive()
    results.close()
    assert workers_alive() == []


def test_loading_this_module_loads_no_pools():
    code = "import sys, dptransfer.base.workers; print(*sys.modules)"
    found = subprocess.check_output([sys.executable, "-c", code], text=True).split()
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


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
@pytest.mark.parametrize(
    "how", ["SIGKILL", *(pytest.param(one, marks=pytest.mark.slow) for one in ("SIGTERM", "SIGINT"))]
)
def test_however_the_starter_ends_no_worker_outlives_it(how):
    script = """
        from base import jobs
        from dptransfer.base.workers import Processes

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


def test_a_process_is_tried_once_and_one_that_cannot_live_is_told(monkeypatch):
    started = []
    workers._require_start.cache_clear()
    monkeypatch.setattr(workers._Worker, "ask", lambda *_: started.append(1))
    for _ in range(2):
        Processes(3).ready()
    assert started == [1]

    def lost(*_):
        raise workers.WorkerLost("its process ended with SIGKILL")

    workers._require_start.cache_clear()
    monkeypatch.setattr(workers._Worker, "ask", lost)
    with pytest.raises(DPTransferError, match="SIGKILL"):
        Processes(3).ready()


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_of_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from dptransfer.base.workers import Processes\nprint(list(Processes(1).each(abs, [1], 'number')))\n"
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].endswith('begin under `if __name__ == "__main__":`.')
