"""Sharing work among threads that are kept."""

import ast
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dptransfer.exact import chunks
from dptransfer.exact.chunks import one_blas_thread, run_on_thread, side_by_side


@pytest.fixture(autouse=True)
def _libraries_are_looked_for_anew():
    """Other tests of this process may have loaded a BLAS since it was done."""
    chunks._linear_algebra.cache_clear()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_come_in_order_on_any_number_of_threads(count):
    seen = set()

    def work(part):
        seen.add(threading.get_ident())
        return part

    assert list(side_by_side(work, range(100), count)) == list(range(100))
    assert len(seen) <= count
    assert (threading.get_ident() in seen) == (count == 1)


def test_this_thread_does_its_part_if_there_is_one_for_each():
    main = threading.get_ident()
    found = list(side_by_side(lambda part: (part, threading.get_ident()), range(3), 3))
    assert [part for part, _ in found] == [0, 1, 2]
    assert [thread == main for _, thread in found] == [False, False, True]


@pytest.mark.parametrize("broken", [0, 1])
def test_an_error_here_or_there_is_raised_when_both_have_ended(broken):
    started, ended = [], []

    def work(part):
        if part == broken:
            time.sleep(0.01)
            raise ZeroDivisionError
        started.append(part)
        time.sleep(0.03)
        ended.append(part)

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(work, [0, 1], 2))
    assert started == ended  # what had not begun by then never will


def test_the_threads_are_kept():
    def names():
        return set(side_by_side(lambda part: threading.current_thread().name, range(50), 2))

    assert len(names() | names() | names()) <= 2


def test_work_that_shares_work_out_does_not_wait_for_itself():
    """All threads hold outer work; inner work that waited for a thread would wait forever."""

    def outer(part):
        return sum(side_by_side(lambda inner: inner, range(part), 2))

    assert list(side_by_side(outer, [4, 5, 6, 7], 2)) == [6, 10, 15, 21]


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_is_raised_when_nothing_is_running_any_more(count):
    running = []

    def work(part):
        running.append(part)
        try:
            if part == 0:
                raise ZeroDivisionError
            time.sleep(0.01)
        finally:
            running.remove(part)

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(work, range(50), count))
    assert not running


def test_who_stops_listening_stops_the_work():
    done = []
    results = side_by_side(lambda part: (time.sleep(0.005), done.append(part)), range(2000), 2)
    next(results)
    results.close()
    finished = len(done)
    time.sleep(0.03)
    assert len(done) == finished < 2000


def test_what_is_begun_runs_on_another_thread_while_this_one_goes_on():
    here, started, seen = threading.get_ident(), threading.Event(), threading.Event()

    def work():
        started.set()
        assert seen.wait(60)
        return threading.get_ident()

    other = run_on_thread(work)
    assert started.wait(60)  # it runs while this does
    assert not other.done()
    seen.set()
    assert other.result() != here


def test_what_fails_there_is_told_when_its_result_is_asked_for():
    with pytest.raises(ZeroDivisionError):
        run_on_thread(lambda: 1 // 0).result()


def test_what_is_begun_has_the_default_float_settings():
    with np.errstate(all="raise"):
        assert run_on_thread(lambda: float(np.float64(1e308) * 10)).result() == np.inf


def test_a_forked_child_has_threads_of_its_own():
    """The parent's threads are not in the child, and what was handed to them there would never be done."""
    parts = [np.arange(10.0) + part for part in range(8)]
    wanted = [float(part @ part) for part in parts]
    assert list(side_by_side(lambda part: float(part @ part), parts, 2)) == wanted
    child = os.fork()
    if child == 0:
        found = list(side_by_side(lambda part: float(part @ part), parts, 2))
        os._exit(0 if found == wanted else 1)
    for _ in range(1000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child waits for threads that it does not have")
    assert os.waitstatus_to_exitcode(status) == 0
    assert list(side_by_side(lambda part: float(part @ part), parts, 2)) == wanted


def test_the_threads_of_linear_algebra_are_given_back():
    before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    inside = set()

    def work(part):
        inside.update(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")

    with threadpool_limits(2, user_api="blas"):
        for _ in range(2):
            list(side_by_side(work, range(10), 2))
            after = {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
            assert after == {2}
    assert inside == {1}
    assert before == [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_a_block_uses_one_blas_thread_and_gives_the_others_back():
    with threadpool_limits(3, user_api="blas"):
        with one_blas_thread():
            with one_blas_thread(4096):
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {3}
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert blas_threads() == {3}


def test_a_large_matrix_keeps_all_blas_threads():
    with threadpool_limits(3, user_api="blas"), one_blas_thread(4097):
        assert blas_threads() == {3}


def test_overlapping_blocks_may_end_in_any_order():
    with threadpool_limits(3, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {3}


def test_every_decomposition_runs_on_one_blas_thread():
    """Nobody adds one that spins: teachers of `transfer_pate` run inside `side_by_side`, so limited."""
    import dptransfer

    found, source = [], Path(dptransfer.__file__).parent
    for file in source.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        limited = {
            id(inner)
            for block in ast.walk(tree)
            if isinstance(block, ast.With) and "one_blas_thread" in ast.unparse(block.items[0])
            for inner in ast.walk(block)
        }
        for call in ast.walk(tree):
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            if name in {f"np.linalg.{one}" for one in ("svd", "eigh", "qr", "inv", "solve", "lstsq", "pinv")}:
                found.append((file.name, id(call) in limited))
    assert len(found) >= 7
    assert {name for name, inside in found if not inside} == {"transfer_pate.py"}
