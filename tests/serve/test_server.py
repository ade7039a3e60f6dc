"""Start and end of a server."""

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.client import HTTPException

import pytest
import uvicorn

import dptransfer as dpt
from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.serve import run_server
from dptransfer.serve.server import listen_on
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


def test_the_socket_of_a_killed_server_is_taken_over_but_not_one_that_is_used(tmp_path):
    place = tmp_path / "s"
    listen_on("", 0, place).close()
    assert place.exists()
    with listen_on("", 0, place), pytest.raises(OSError, match="in use"):
        listen_on("", 0, place)


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


@contextmanager
def started(release):
    """A server of its own, and its address."""
    words = [sys.executable, "-m", "dptransfer", "serve", str(release), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        found = re.search(r"http://([\d.]+):(\d+)", server.stderr.readline())
        try:
            yield server, (found[1], int(found[2]))
        finally:
            server.kill()


def ask(address):
    body = json.dumps({"inputs": [[1.0, 0.0]]}).encode()
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/invocations", body, 30) as answer:
        return json.load(answer)["predictions"]


@pytest.mark.slow
def test_a_request_in_progress_is_answered_before_the_server_ends(release):
    with started(release) as (server, address), socket.create_connection(address, 20) as client:
        assert ask(address) in (["a"], ["b"])
        body = b'{"inputs": [[1.0, 0.0]]}'
        head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        client.sendall(head + body[:9])
        ask(address)  # by now the server has read what was sent before
        server.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        client.sendall(body[9:])
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.wait(20) == 0


@pytest.mark.slow
def test_a_server_that_was_killed_under_load_starts_again_from_the_same_files(release):
    before = {file.name: file.read_bytes() for file in release.iterdir()}
    ended = []

    def client(address):
        while True:
            try:
                assert ask(address) in (["a"], ["b"])
            except (OSError, HTTPException) as problem:
                ended.append(problem)
                return

    with started(release) as (server, address):
        clients = [threading.Thread(target=client, args=(address,)) for _ in range(8)]
        for one in clients:
            one.start()
        time.sleep(1)
        server.kill()
        for one in clients:
            one.join(30)
    assert len(ended) == 8
    with started(release) as (_, address):
        assert ask(address) in (["a"], ["b"])
    assert {file.name: file.read_bytes() for file in release.iterdir()} == before
