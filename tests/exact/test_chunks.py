"""Work in chunks and on threads that are kept, with the float settings that every thread has by default."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from contracts.floating_point import ROUNDING, flushing, needs_flags, rounding
from dptransfer.exact import chunks
from dptransfer.exact.chunks import (
    one_blas_thread,
    over_chunks,
    plain_floats,
    run_on_thread,
    side_by_side,
)


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.mark.parametrize("elements", [1, 7, 2**18])
@pytest.mark.parametrize(("count", "dimension"), [(0, 5), (1, 5), (41, 6), (41, 0), (3, 10**6)])
def test_the_chunks_are_all_rows_once_and_in_order(monkeypatch, elements, count, dimension):
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    parts = list(over_chunks(lambda chunk: chunk, count, dimension))
    assert [row for part in parts for row in range(count)[part]] == list(range(count))
    assert all(part.stop > part.start for part in parts)


@pytest.mark.parametrize(
    ("elements", "count", "chunks_made", "sizes"),
    [(5, 6, 2, {3}), (5, 24, 6, {4}), (5, 11, 4, {3, 2}), (32, 7, 1, {7}), (32, 8, 2, {4})],
)
def test_every_core_gets_its_share_if_that_is_worth_it(monkeypatch, elements, count, chunks_made, sizes):
    """On two cores: three full chunks would keep one waiting; less than an eighth is not worth a thread."""
    monkeypatch.setattr(chunks, "usable_cores", lambda: 2)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    parts = list(over_chunks(lambda chunk: chunk, count, 1))
    assert [row for part in parts for row in range(count)[part]] == list(range(count))
    assert len(parts) == chunks_made
    assert {part.stop - part.start for part in parts} == sizes


@pytest.fixture(autouse=True)
def _libraries_are_looked_for_anew():
    """Other tests of this process may have loaded a BLAS since it was done."""
    chunks._linear_algebra.cache_clear()


def test_this_thread_does_its_part_if_there_is_one_for_each():
    main = threading.get_ident()
    found = list(side_by_side(lambda part: (part, threading.get_ident()), range(3), 3))
    assert [part for part, _ in found] == [0, 1, 2]
    assert [thread == main for _, thread in found] == [False, False, True]


def test_work_that_shares_work_out_does_not_wait_for_itself():
    """All threads hold outer work; inner work that waited for a thread would wait forever."""

    def outer(part):
        return sum(side_by_side(lambda inner: inner, range(part), 2))

    assert list(side_by_side(outer, [4, 5, 6, 7], 2)) == [6, 10, 15, 21]


@pytest.mark.parametrize(("parts", "count", "broken"), [(50, 1, 0), (50, 3, 0), (2, 2, 0), (2, 2, 1)])
def test_an_error_here_or_there_is_raised_when_nothing_is_running_any_more(parts, count, broken):
    running = []

    def work(part):
        running.append(part)
        try:
            time.sleep(0.01)
            if part == broken:
                raise ZeroDivisionError
            time.sleep(0.02)
        finally:
            running.remove(part)

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(work, range(parts), count))
    assert not running


def test_who_stops_listening_stops_the_work():
    done = []
    results = side_by_side(lambda part: (time.sleep(0.005), done.append(part)), range(2000), 2)
    next(results)
    results.close()
    finished = len(done)
    time.sleep(0.03)
    assert len(done) == finished < 2000


def test_an_error_on_another_thread_is_raised_where_its_result_is_asked_for_and_floats_are_plain_there():
    assert run_on_thread(threading.get_ident).result() != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        run_on_thread(lambda: 1 // 0).result()
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


def test_shared_work_uses_one_blas_thread_each_and_gives_the_others_back():
    with threadpool_limits(2, user_api="blas"):
        for _ in range(2):
            assert set().union(*side_by_side(lambda part: blas_threads(), range(10), 2)) == {1}
            assert blas_threads() == {2}


def test_a_block_uses_one_blas_thread_and_gives_the_others_back():
    with threadpool_limits(3, user_api="blas"):
        with one_blas_thread():
            with one_blas_thread(4096):
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {3}
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        with one_blas_thread(4097):  # a large matrix keeps all
            assert blas_threads() == {3}
        first, second = one_blas_thread(), one_blas_thread()  # which may end in any order
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {3}


TINY = np.array([1e-310, 4e-308])


def flushes():
    return not (TINY * 0.5).all()


def quotients():
    """Quotients of which rounding to nearest lengthens some and shortens others."""
    return (np.array([1.0, -1.0]) / np.array([[3.0], [10.0]])).tolist()


@needs_flags
@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_that_is_shared_out_has_plain_floats_on_every_thread(count):
    with flushing(), np.errstate(all="raise"):
        found = list(side_by_side(lambda _: (flushes(), np.geterr()["over"]), range(3), count))
    assert found == [(False, "ignore")] * 3


@needs_flags
@pytest.mark.parametrize("mode", ROUNDING)
def test_each_level_has_the_default_settings_and_puts_back_what_it_found(mode):
    nearest = quotients()
    with flushing():
        with plain_floats():
            assert not flushes()
            with rounding(mode):
                changed = quotients()
                with plain_floats():
                    assert quotients() == nearest
                assert quotients() == changed != nearest
        assert flushes()
        with pytest.raises(KeyError), plain_floats():
            raise KeyError
        assert flushes()
    assert not flushes()
    assert quotients() == nearest


_TRAPPED = """
import ctypes, sys, numpy as np
from dptransfer.exact.feature_map import UnitNorm
rows = np.array([[np.nan, 1.0], [np.inf, 0.0], [1e308, 1e-308], [5e-324, 0.0]])
fitted = UnitNorm().fit(2, None)
fitted.lattice(np.ones((1, 2)), 100)
assert ctypes.CDLL("libm.so.6").feenableexcept(1 | 4 | 8 | 16) == 0
print(fitted.lattice(rows, 100).tolist()) if sys.argv[1] == "map" else np.multiply(rows, 1e308)
"""


@needs_flags
@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "feenableexcept"), reason="glibc"
)
def test_a_process_that_is_stopped_by_float_exceptions_is_not_stopped_by_rows():
    def ends(what):
        return subprocess.run([sys.executable, "-c", _TRAPPED, what], capture_output=True, text=True)

    found = ends("map")
    assert (found.returncode, found.stdout) == (0, "[[0, 0], [0, 0], [99, 0], [99, 0]]\n")
    assert ends("multiply").returncode < 0  # the half that can fail: by a signal
