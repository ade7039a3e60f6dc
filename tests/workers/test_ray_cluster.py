import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from dptransfer.errors import ArgumentError, DataError, DPTransferError, MissingDependency
from dptransfer.workers import RayCluster, ray_cluster

from . import jobs
from .jobs import PIECES, ROWS, SUMS

ray_is_slow = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # and warns of itself


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"dptransfer\[ray\]"):
        RayCluster("local").ready()


@pytest.mark.parametrize(
    "address", ["auto", "", "here", "host:", "http://host:80", "host:port", "ray://host", None]
)
def test_a_cluster_is_named_and_none_is_looked_for(address):
    with pytest.raises(ArgumentError, match="none is looked for"):
        RayCluster(address)


def test_there_is_at_least_one_worker():
    with pytest.raises(ArgumentError, match="workers must be"):
        RayCluster("local", 0)


def test_a_ray_that_cannot_turn_strangers_away_is_not_started_here(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._raylet", types.ModuleType("ray._raylet"))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")
    with (
        pytest.raises(DPTransferError, match=r"turn strangers away.* 2\.52 .* Upgrade"),
        ray_cluster._token("a"),
    ):
        pytest.fail("it is started")
    assert os.environ["RAY_AUTH_TOKEN"] == "the user's"
    assert "RAY_AUTH_MODE" not in os.environ


@pytest.mark.parametrize(("failures", "told"), [(1, None), (2, "server. Check the address")])
def test_who_is_to_speak_for_us_in_a_cluster_may_die_at_its_start_once(monkeypatch, failures, told):
    calls = []

    def init(**how):
        calls.append(how["runtime_env"]["env_vars"]["PYTHONPATH"])
        if len(calls) <= failures:
            raise ConnectionAbortedError("Initialization failure from server:\nTraceback (most recent ...")

    monkeypatch.setattr(ray_cluster, "_require_answer", lambda place: None)
    monkeypatch.setattr(ray_cluster, "installed", lambda *_: None)
    expected = nullcontext() if told is None else pytest.raises(DPTransferError, match=told)
    with expected, ray_cluster._one_line("ray://head:10001"):
        ray_cluster._join(types.SimpleNamespace(init=init), "ray://head:10001")
    assert len(calls) == 2


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

    def test_a_cluster_that_was_not_named_is_not_taken(self, ray, two_nodes, monkeypatch):
        monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
        RayCluster("local", 1).ready()
        assert ray.get_runtime_context().gcs_address != two_nodes.address
        assert len(ray.nodes()) == 1
        with pytest.raises(ArgumentError, match="has another than"):
            RayCluster(two_nodes.address).ready()


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

    def test_its_folder_is_its_owners_whatever_ray_does_with_it(self, ray, monkeypatch):
        made, usual = [], tempfile.mkdtemp

        def recorded(*given, **named):
            made.append(Path(usual(*given, **named)))
            return str(made[-1])

        monkeypatch.setattr(tempfile, "mkdtemp", recorded)
        RayCluster("local", 1).ready()
        (folder,) = made
        assert folder.stat().st_mode & 0o077 == 0
        assert any(folder.rglob("plasma_store"))

    def test_who_has_not_its_token_is_turned_away_and_it_is_in_no_file_or_environment(
        self, ray, tmp_path, monkeypatch
    ):
        """Ray listens on the network, and by itself it lets everybody in, or whoever can read a file."""
        monkeypatch.setenv("HOME", str(tmp_path))
        before = dict(os.environ)
        RayCluster("local", 1).ready()
        assert dict(os.environ) == before
        assert not list(tmp_path.iterdir())
        assert dict(RayCluster("local", 1).each(jobs.SumOfRows(ROWS), PIECES, "part")) == SUMS
        join = f"import ray; ray.init(address='{ray.get_runtime_context().gcs_address}')"
        others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        found = subprocess.run([sys.executable, "-c", join], env=others, capture_output=True, text=True)
        assert found.returncode != 0
        assert "Authentication token is missing or incorrect" in found.stderr

    @pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
    def test_no_worker_outlives_a_starter_that_is_killed(self, ray):
        script = """
            from workers import jobs
            from dptransfer.workers import RayCluster, ray_cluster

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
        until = time.monotonic() + 10
        for handle in handles:
            assert select.select([handle], [], [], max(0, until - time.monotonic()))[0]
            os.close(handle)
        starter.wait(10)
        starter.stdout.close()


@contextmanager
def http_server():
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class TestAddresses:
    pytestmark = ray_is_slow

    def test_an_address_that_does_not_answer_is_told_within_seconds(self, ray):
        began = time.monotonic()
        with pytest.raises(DPTransferError, match=r"'127\.0\.0\.1:1' must answer; [Cc]onnection refused"):
            RayCluster("127.0.0.1:1").ready()
        with pytest.raises(DPTransferError, match="must answer"):
            RayCluster("no-such-host.invalid:6379").ready()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            with pytest.raises(DPTransferError, match="must answer; timed out"):
                RayCluster(f"127.0.0.1:{silent.getsockname()[1]}").ready()
        with http_server() as port, pytest.raises(DPTransferError, match="somebody does who is not Ray"):
            RayCluster(f"127.0.0.1:{port}").ready()
        assert time.monotonic() - began < 20
        assert not ray.is_initialized()
