import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from dptransfer.errors import MissingDependency
from dptransfer_lab.results import read_results
from dptransfer_lab.run import Watcher, run_study
from dptransfer_lab.study import parse_study

from .samples import SMALL
from .test_run import results_of

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def test_without_ray_the_extra_is_named(toy, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"dptransfer\[ray\]"):
        run_study(small, toy / "out", folders=[toy], engine="ray")


def cores_of(folder):
    """How many cores each cell could use."""
    return set(read_results(folder)["host_cores"])


def workers_at_work():
    """Processes in which our Ray, which has this test's cache folder, runs a cell just now."""
    ours = f"DPTRANSFER_CACHE={os.environ['DPTRANSFER_CACHE']}".encode()
    found = []
    for process in Path("/proc").iterdir():
        try:
            busy = process.name.isdigit() and b"ray::_run_on_own_core" in (process / "cmdline").read_bytes()
            if busy and ours in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_cluster_of_two_nodes_loses_a_worker_and_no_cell(toy, monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    text = SMALL.replace("seeds = 2", "seeds = 30").replace('name = "public"', 'name = "public-prior"')
    study = parse_study(text.replace('settings = { features = "unit-norm" }', ""))
    run_study(study, toy / "whole", folders=[toy], workers=0)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    killed = []

    def kill():
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            if at_work := workers_at_work():
                os.kill(at_work[0], signal.SIGKILL)
                killed.append(at_work[0])
            time.sleep(0.005)

    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        killer = threading.Thread(target=kill)

        class Starting(Watcher):
            ended = 0

            def finished(self, cell, record):
                self.ended += 1
                if self.ended == 10:
                    killer.start()

        how = {"engine": "ray", "address": cluster.address, "watcher": Starting()}
        tally = run_study(study, toy / "cluster", folders=[toy], workers=2, **how)
        killer.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed, "a worker must have been killed in the middle of a cell"
    assert tally.counts == {"done": tally.total}
    assert results_of(toy / "cluster") == results_of(toy / "whole")
    assert cores_of(toy / "cluster") == {1}
