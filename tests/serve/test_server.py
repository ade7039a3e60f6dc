"""Start and end of a server."""

import json
import signal
import socket
import stat
import subprocess
import sys
import urllib.request

import pytest
import uvicorn

import dptransfer as dpt
from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.serve import run_server
from release.models import rewrite


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model"
    x = [[1.0, 0.0], [0.0, 1.0]] * 20
    private = dpt.PrivateEmbeddings(x, [0, 1] * 20, classes=["a", "b"], name="clinic")
    made = dpt.methods.MeanPrototypes().fit(
        private, budget=dpt.Budget(epsilon=8.0, delta=1e-5), ledger=dpt.Ledger.in_memory()
    )
    made.save(path)
    return path


def test_a_server_listens_where_it_says(release, monkeypatch):
    told = []

    def run(self, sockets):
        (listener,) = sockets
        assert told == [f"http://127.0.0.1:{listener.getsockname()[1]}"]
        with socket.create_connection(listener.getsockname()):
            raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", run)
    run_server(release, port=0, announce=told.append)
    assert len(told) == 1


def test_a_socket_is_the_owners_and_goes_with_the_server(release, monkeypatch, tmp_path):
    place, modes = tmp_path / "s", []
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: modes.append(place.stat().st_mode))
    run_server(release, unix_socket=place, announce=lambda _: None)
    assert [stat.S_IMODE(one) for one in modes] == [0o700]
    assert not place.exists()


def test_other_machines_need_a_token(release):
    with pytest.raises(ArgumentError):
        run_server(release, host="0.0.0.0")


def test_a_release_that_does_not_verify_is_not_served(release, tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for file in release.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    rewrite(copy, lambda told: told["guarantee"].update(epsilon=0.1))
    with pytest.raises(ReleaseError):
        run_server(copy)


@pytest.mark.slow
def test_a_server_answers_and_ends_gracefully(release):
    words = [sys.executable, "-m", "dptransfer", "serve", str(release), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        address = next(word for word in server.stderr.readline().split() if word.startswith("http")).rstrip(
            ";"
        )
        body = json.dumps({"inputs": [[1.0, 0.0]]}).encode()
        with urllib.request.urlopen(f"{address}/invocations", body) as answer:
            assert json.load(answer)["predictions"] in (["a"], ["b"])
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
