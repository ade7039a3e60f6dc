import importlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

import pytest

from dptransfer.base.ray_workers import RayCluster
from dptransfer.errors import ArgumentError, DataError, DPTransferError

from . import jobs
from .jobs import PIECES, ROWS, SUMS

ray_is_slow = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # and warns of itself


@pytest.mark.parametrize(
    "address", ["auto", "", "here", "host:", "http://host:80", "host:port", "ray://host", None]
)
def test_a_cluster_is_named_and_none_is_looked_for(address):
    with pytest.raises(ArgumentError, match="none is looked for"):
        RayCluster(address)


def test_there_is_at_least_one_worker():
    with pytest.raises(ArgumentError, match="workers must be"):
        RayCluster("local", 0)


@dataclass(frozen=True)
class SumAndNode(jobs.SlowSum):
    def __call__(self, piece):
        import ray

        return super().__call__(piece), ray.get_runtime_context().get_node_id()


class TestTwoNodes:
    pytestmark = ray_is_slow

    def test_a_node_that_is_killed_changes_nothing(self, two_nodes):
        results, nodes = {}, set()
        hands = RayCluster(two_nodes.address)
        for number, (found, node) in hands.each(SumAndNode(ROWS, 0.5), PIECES * 3, "part"):
            assert number not in results
            results[number] = found
            nodes.add(node)
            if len(nodes) == 2 and two_nodes.second is not None:
                two_nodes.remove_node(two_nodes.second, allow_graceful=False)
                two_nodes.second = None
        assert two_nodes.second is None
        assert results == {number: SUMS[number % 8] for number in range(24)}

    def test_when_all_nodes_die_it_is_an_error_and_not_the_end_of_this_process(self, two_nodes):
        before = signal.getsignal(signal.SIGTERM)
        results = RayCluster(two_nodes.address).each(jobs.SlowSum(ROWS, 0.5), PIECES * 9, "part")
        next(results)
        assert signal.getsignal(signal.SIGTERM) is before  # and not Ray's own
        two_nodes.remove_node(two_nodes.second, allow_graceful=False)
        two_nodes.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
        with pytest.raises(DPTransferError, match="must live until"):
            list(results)

    def test_from_outside_work_goes_through_a_process_that_imports_what_we_do(
        self, two_nodes, tmp_path, monkeypatch
    ):
        """And fares like any other: what cannot be read is told, and whoever is killed is replaced."""
        (tmp_path / "only_here.py").write_text(
            "class Sum:\n    def __call__(self, piece): return sum(piece)\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        hands = RayCluster(two_nodes.from_outside)
        assert hands.cores == 2
        work = importlib.import_module("only_here").Sum()
        assert dict(hands.each(work, [(1, 2), (3, 4)], "sum")) == {0: 3, 1: 7}
        with pytest.raises(DataError, match=r"'/no/shard\.npy' must be readable on every machine"):
            list(hands.each(open, ["/no/shard.npy"], "file"))
        with pytest.raises(DPTransferError, match=r"finish a part; 3 times .* WorkerCrashedError"):
            list(hands.each(jobs.die, PIECES, "part"))


class TestLocal:
    pytestmark = ray_is_slow

    def test_workers_that_die_hang_or_refuse(self, ray, tmp_path, capfd):
        """One cluster for all of it, since it takes seconds to start."""
        hands = RayCluster("local", 2)
        killed, hung = tmp_path / "killed", tmp_path / "hung"
        killed.mkdir()
        hung.mkdir()
        assert dict(hands.each(jobs.SumOfRows(ROWS), PIECES, "part")) == SUMS
        assert dict(hands.each(jobs.SumThatKills(ROWS, killed, deaths=2), PIECES, "part")) == SUMS
        assert len(list(killed.iterdir())) == 2
        patient = RayCluster("local", 2, patience=10)
        assert dict(patient.each(jobs.SumThatHangs(ROWS, hung), PIECES, "part")) == SUMS
        assert {found[1:] for _, found in hands.each(jobs.surroundings, range(4), "look")} <= {
            (frozenset({core}), "1") for core in os.sched_getaffinity(0)
        }
        with pytest.raises(DPTransferError, match=r"finish a part; 3 times .* WorkerCrashedError"):
            list(hands.each(jobs.die, PIECES, "part"))
        with pytest.raises(DataError, match="It must be even; it is odd"):
            list(hands.each(jobs.refuse, ["ours"], "word"))
        with pytest.raises(DataError, match=r"'/no/shard\.npy' must be readable on every machine"):
            list(hands.each(open, ["/no/shard.npy"], "file"))
        with pytest.raises(DPTransferError, match=r"must travel .* TypeError"):
            list(hands.each(jobs.give_a_lock, [1], "lock"))
        assert capfd.readouterr().out == ""

    @pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
    def test_no_worker_outlives_a_starter_that_is_killed(self, ray):
        script = """
            from base import jobs
            from dptransfer.base.ray_workers import RayCluster

            for _, found in RayCluster("local", 2).each(jobs.name_then_sleep, [0, 0, 1, 1], "nap"):
                print(found, flush=True)
        """
        starter = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        handles = [os.pidfd_open(int(starter.stdout.readline())) for _ in range(2)]
        starter.send_signal(signal.SIGKILL)
        until = time.monotonic() + 60
        for handle in handles:
            assert select.select([handle], [], [], max(0, until - time.monotonic()))[0]
            os.close(handle)
        starter.wait(10)
        starter.stdout.close()
