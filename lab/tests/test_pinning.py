import os
import subprocess
import sys

import pytest

from dptransfer_lab.pinning import share_of_cores

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")


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
