"""Start and end of the app."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import url2pathname

import pytest
import uvicorn

from dptransfer.app import run_app, server
from dptransfer.app.screens import make_app
from dptransfer.errors import ArgumentError


def start(home, **how):
    """Run the app on a thread; gives its link, and what it returns once it has ended."""
    links, ended = [], []
    run = lambda: ended.append(run_app(home, announce=links.append, open_browser=False, **how))  # noqa: E731
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for _ in range(100):
        if links:
            return links[0], thread, ended
        time.sleep(0.05)
    raise AssertionError("the app did not start")


def ask(link, method, path, form=None, **headers):
    """One request, by hand."""
    own = {"Origin": f"http://{urlsplit(link).netloc}", "Sec-Fetch-Site": "same-origin"}
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
    with closing(HTTPConnection(urlsplit(link).netloc, timeout=10)) as to:
        to.request(method, path, urlencode(form or {}), {**own, **kind, **headers})
        found = to.getresponse()
        return found.status, found.read(), found.headers


def test_the_link_opens_the_app_once_and_it_ends_when_nobody_uses_it(home, monkeypatch):
    monkeypatch.setattr(server, "_LOOK", 0.1)
    link, thread, ended = start(home, idle_minutes=0.02)
    parts = urlsplit(link)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.fragment) >= 40
    status, content, headers = ask(link, "POST", "/open", {"token": parts.fragment})
    room = json.loads(content)["room"]
    assert status == 200
    assert ask(link, "POST", "/open", {"token": parts.fragment})[0] == 403
    assert ask(link, "GET", room + "data", Cookie=headers["set-cookie"].partition(";")[0])[0] == 200
    with socket.create_connection((parts.hostname, parts.port)) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nHost: evil.example\r\n\r\n".encode())
        assert raw.recv(100).split()[1] in (b"400", b"421")
    with socket.create_connection((parts.hostname, parts.port)) as raw:
        raw.sendall(f"GET http://evil.example{room}data HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        assert raw.recv(100).split()[1] in (b"403", b"404")
    thread.join(20)
    assert ended == [""]


def test_who_opens_all_connections_does_not_keep_the_user_out(home, monkeypatch):
    monkeypatch.setattr(server, "_LOOK", 0.1)
    monkeypatch.setattr(server, "_PATIENCE", 0.3)
    link, thread, _ = start(home, idle_minutes=0.02)
    parts = urlsplit(link)
    idle = [socket.create_connection((parts.hostname, parts.port)) for _ in range(70)]
    found = []
    while (not found or found[-1] == 503) and len(found) < 50:
        found.append(ask(link, "GET", "/")[0])
        time.sleep(0.1)
    assert (found[0], found[-1]) == (503, 200)
    for one in idle:
        one.close()
    thread.join(20)


@pytest.mark.parametrize(
    "how",
    [
        {"host": "0.0.0.0"},
        {"host": "0.0.0.0", "token": "t" * 20},
        {"host": "0.0.0.0", "origin": "https://box.example"},
        {"host": "0.0.0.0", "token": "t" * 20, "origin": "http://box.example"},
        {"host": "0.0.0.0", "token": "t" * 20, "origin": "https://box.example/app"},
        {"origin": "box.example"},
    ],
)
def test_other_machines_need_a_token_and_tls(home, how):
    with pytest.raises(ArgumentError):
        run_app(home, **how)


def test_the_browser_is_shown_a_file_of_the_users_own(home, monkeypatch):
    seen = []

    def look(link):
        file = Path(url2pathname(urlsplit(link).path))
        seen.extend([file, file.parent.stat().st_mode & 0o777, file.read_text()])

    monkeypatch.setattr(webbrowser, "open", look)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: seen[0].exists() or pytest.fail("gone"))
    links = []
    assert run_app(home, announce=links.append) == ""
    file, mode, content = seen
    assert mode == 0o700
    assert links[0] in content
    assert not file.exists()


def test_work_is_ended_with_the_app_and_what_became_of_it_is_told(home, monkeypatch):
    from dptransfer.base.progress import steps

    def begin(session, room):
        session._check = lambda: [time.sleep(0.01) for _ in steps(10**6, "step")]
        session.start("Checking", "check", "data", "data")
        return make_app(session, room)

    monkeypatch.setattr(server, "make_app", begin)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    assert "Interrupted" in run_app(home, announce=lambda _: None, open_browser=False)


@pytest.mark.slow
def test_an_app_that_nobody_uses_waits_for_its_work(home, monkeypatch):
    def begin(session, room):
        session._check = lambda: time.sleep(2.5)
        session.start("Checking", "check", "data", "data")
        return make_app(session, room)

    monkeypatch.setattr(server, "_LOOK", 0.1)
    monkeypatch.setattr(server, "make_app", begin)
    _, thread, ended = start(home, idle_minutes=0.001)
    thread.join(20)
    assert ended == [""]  # nothing was going on when it ended


@pytest.mark.slow
def test_the_command_ends_after_sigterm(home):
    words = [sys.executable, "-m", "dptransfer", "app", "--root", str(home), "--no-browser"]
    app = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ)
    link = app.stderr.readline().split()[-1]
    assert ask(link, "GET", "/")[0] == 200
    app.send_signal(signal.SIGTERM)
    assert "Traceback" not in app.communicate(timeout=30)[1]
    assert app.returncode == 0


KILLED = """
import os, signal, sys
from dptransfer.methods import METHODS
METHODS["mean"].run = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
from dptransfer.cli.main import run
sys.argv[:] = ["dptransfer", *sys.argv[1:]]
run()
"""


@pytest.mark.slow
def test_an_app_that_was_killed_has_spent_and_the_next_one_says_so(home, browser):
    words = [sys.executable, "-c", KILLED, "app", "--root", str(home), "--no-browser"]
    app = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    link = app.stderr.readline().split()[-1]
    _, content, headers = ask(link, "POST", "/open", {"token": urlsplit(link).fragment})
    room, own = json.loads(content)["room"], {"Cookie": headers["set-cookie"].partition(";")[0]}
    forms = {
        "data": {"data": "clinic.npz", "classes": "cat,dog,eel", "go": "1"},
        "who": {"unit": "example"},
        "accuracy": {"epsilon": "own", "own": "1", "delta": "1e-5", "holdout": "", "method": "mean"},
        "charge": {"out": "model", "confirm": "clinic"},
    }
    for screen, form in forms.items():
        assert ask(link, "POST", room + screen, form, **own)[0] == 303
        while screen != "charge" and json.loads(ask(link, "GET", room + "status", **own)[1])["running"]:
            time.sleep(0.1)
    app.communicate(timeout=60)
    assert app.returncode == -signal.SIGKILL
    page = browser.see("data").text
    assert "Charge 1 of" in page
    assert "clinic" in page
    assert not (home / "model").exists()
