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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from dptransfer.base import ray_workers
from dptransfer.base.ray_workers import Pulse, RayCluster
from dptransfer.errors import ArgumentError, DataError, DPTransferError

from . import jobs
from .jobs import PIECES, ROWS, SUMS

ray_is_slow = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # and warns of itself


@pytest.mark.parametrize("address", ["auto", "host:", "http://host:80", "host:port", None])
def test_a_cluster_is_named_and_none_is_looked_for(address):
    with pytest.raises(ArgumentError, match="Name a Ray cluster"):
        RayCluster(address)
    with pytest.raises(ArgumentError, match="workers must"):
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
        with pytest.raises(DataError, match="every machine"):
            list(hands.each(open, ["/no/shard.npy"], "file"))
        with pytest.raises(DPTransferError, match="WorkerCrashedError"):
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
        with pytest.raises(DPTransferError, match="WorkerCrashedError"):
            list(hands.each(jobs.die, PIECES, "part"))
        with pytest.raises(DataError, match="must be even"):
            list(hands.each(jobs.refuse, ["ours"], "word"))
        with pytest.raises(DataError, match="every machine"):
            list(hands.each(open, ["/no/shard.npy"], "file"))
        with pytest.raises(DPTransferError, match="must travel"):
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
            [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        handles = [os.pidfd_open(int(starter.stdout.readline())) for _ in range(2)]
        starter.send_signal(signal.SIGKILL)
        until = time.monotonic() + 60
        for handle in handles:
            assert select.select([handle], [], [], max(0, until - time.monotonic()))[0]
            os.close(handle)
        starter.wait(10)
        starter.stdout.close()


def test_a_ray_that_cannot_turn_strangers_away_is_not_started_here(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._raylet", types.ModuleType("ray._raylet"))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")
    with pytest.raises(DPTransferError, match="Upgrade"), ray_workers._token("a"):
        pytest.fail("it is started")
    assert os.environ["RAY_AUTH_TOKEN"] == "the user's"
    assert "RAY_AUTH_MODE" not in os.environ


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
class TestWithRay:
    def test_a_cluster_that_was_not_named_is_not_taken(self, ray, two_nodes, monkeypatch):
        monkeypatch.setenv("RAY_ADDRESS", two_nodes.address)
        RayCluster("local", 1).ready()
        assert ray.get_runtime_context().gcs_address != two_nodes.address
        assert len(ray.nodes()) == 1
        with pytest.raises(ArgumentError, match="has another"):
            RayCluster(two_nodes.address).ready()

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
        assert "Authentication token is" in found.stderr

    def test_an_address_that_does_not_answer_is_told_within_seconds(self, ray):
        began = time.monotonic()
        with pytest.raises(DPTransferError, match="onnection refused"):
            RayCluster("127.0.0.1:1").ready()
        with pytest.raises(DPTransferError, match="must answer"):
            RayCluster("no-such-host.invalid:6379").ready()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            with pytest.raises(DPTransferError, match="timed out"):
                RayCluster(f"127.0.0.1:{silent.getsockname()[1]}").ready()
        with http_server() as port, pytest.raises(DPTransferError, match="not Ray"):
            RayCluster(f"127.0.0.1:{port}").ready()
        assert time.monotonic() - began < 20
        assert not ray.is_initialized()


def ray(**places):
    """What of Ray is asked where it lives."""
    node = SimpleNamespace(**places) if places else None
    return SimpleNamespace(_private=SimpleNamespace(worker=SimpleNamespace(_global_node=node)))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(ray_workers, "_BETWEEN", 0.0)
    monkeypatch.setattr(ray_workers, "_PATIENCE", 0.2)


def test_a_node_that_has_ended_is_noticed_at_once(tmp_path):
    place = str(tmp_path / "store")
    with socket.socket(socket.AF_UNIX) as store:
        store.bind(place)
        store.listen()
        pulse = Pulse(ray(plasma_store_socket_name=place, gcs_address=None))
        pulse.require()
        assert not pulse.gone
    with pytest.raises(DPTransferError, match="has ended"):
        pulse.require()
    assert pulse.gone


@pytest.mark.usefixtures("quick")
def test_a_head_that_does_not_answer_for_a_while_is_given_up_and_not_before():
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        pulse = Pulse(ray(gcs_address=address))
        time.sleep(0.3)
        pulse.require()
    pulse.require()  # it may come back
    time.sleep(0.3)
    with pytest.raises(DPTransferError, match="does not answer"):
        pulse.require()
    assert pulse.gone
