import os
import subprocess
import sys

import pytest

from dptransfer_lab.pinning import own_core, share_of_cores, thread_variables

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")


@pytest.fixture(autouse=True)
def claims(tmp_path, monkeypatch):
    """Claims of this test's own: others may be running cells on this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def chosen(monkeypatch):
    """Four cores, whatever the machine has; every choice of cores is written down."""
    made = []
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: made.append(cores))
    return made


def test_cells_side_by_side_have_different_cores(chosen):
    with own_core(), own_core(), own_core():
        assert chosen == [{0}, {1}, {2}]
    assert chosen[3:] == [{0, 1, 2, 3}] * 3  # and afterwards all of them again


def test_a_core_is_given_back(chosen):
    with own_core():
        pass
    with own_core():
        pass
    assert chosen[::2] == [{0}, {0}]


def test_a_core_is_given_back_after_an_error(chosen):
    with pytest.raises(ZeroDivisionError), own_core():
        raise ZeroDivisionError
    with own_core():
        assert chosen[-1] == {0}


def test_where_all_are_taken_one_is_shared(chosen):
    with own_core(), own_core(), own_core(), own_core(), own_core():
        assert len(chosen) == 5
        assert chosen[4] in ({0}, {1}, {2}, {3})


def test_a_process_that_is_killed_holds_no_core(chosen, tmp_path):
    code = (
        f"import os, tempfile\ntempfile.tempdir = {str(tmp_path)!r}\n"
        "os.sched_getaffinity = lambda pid: {0, 1}\nos.sched_setaffinity = lambda pid, cores: None\n"
        "from dptransfer_lab.pinning import own_core\n"
        "with own_core():\n    print('claimed', flush=True)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "claimed\n"
        with own_core():
            assert chosen[-1] == {1}
        other.kill()
        other.wait()
        with own_core():
            assert chosen[-1] == {0}


def test_threads_are_at_least_one():
    libraries = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
    assert thread_variables(3) == {f"{library}_NUM_THREADS": "3" for library in libraries}
    assert set(thread_variables(0).values()) == {"1"}


def test_cores_are_shared_out(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3, 4})
    assert [share_of_cores(place, 2) for place in range(2)] == [[0, 1], [2, 3]]
    assert share_of_cores(0, 1) == [0, 1, 2, 3, 4]
    assert [share_of_cores(place, 7) for place in (0, 5)] == [[0], [0]]


WORKER = """
import os, sys, multiprocessing
chosen = []
os.sched_setaffinity = lambda pid, cores: chosen.append(cores)
from dptransfer_lab.pinning import begin_worker
kept, lifeline = multiprocessing.Pipe(duplex=False)
begin_worker([2], kept)
assert "numpy" not in sys.modules, "pinned too late"
assert chosen == [[2]]
import numpy, threadpoolctl
pools = threadpoolctl.threadpool_info()
print({one["num_threads"] for one in pools if one["user_api"] == "blas"}, flush=True)
lifeline.close()
import time
time.sleep(30)
"""


def test_a_worker_pins_itself_before_numpy_is_loaded_and_ends_with_its_lifeline():
    """Asked in a process of its own: with more threads than cores, cells take each other's time."""
    told = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, timeout=120)
    assert (told.stdout.strip(), told.returncode) == ("{1}", 1), told.stderr
