import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from dptransfer.base import ray_connection
from dptransfer.base.ray_workers import RayCluster
from dptransfer.errors import ArgumentError, DPTransferError, MissingDependency

from . import jobs
from .jobs import PIECES, ROWS, SUMS


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"dptransfer\[ray\]"):
        RayCluster("local").ready()


def test_a_ray_that_cannot_turn_strangers_away_is_not_started_here(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._raylet", types.ModuleType("ray._raylet"))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")
    with (
        pytest.raises(DPTransferError, match=r"turn strangers away.* 2\.52 .* Upgrade"),
        ray_connection._token("a"),
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

    monkeypatch.setattr(ray_connection, "_require_answer", lambda place: None)
    monkeypatch.setattr(ray_connection, "installed", lambda *_: None)
    expected = nullcontext() if told is None else pytest.raises(DPTransferError, match=told)
    with expected, ray_connection._one_line("ray://head:10001"):
        ray_connection._join(types.SimpleNamespace(init=init), "ray://head:10001")
    assert len(calls) == 2


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
        with pytest.raises(ArgumentError, match="has another than"):
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
        assert "Authentication token is missing or incorrect" in found.stderr

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
