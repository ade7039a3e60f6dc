"""A home folder with private rows and a pool, and a browser that opened the app's link."""

import re
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from dptransfer.app.choices import Choices
from dptransfer.app.gate import Gate
from dptransfer.app.screens import make_app
from dptransfer.app.session import Session

ORIGIN, TOKEN, ROOM = "http://127.0.0.1:8080", "t" * 20, "room"
OWN = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}


class Browser(TestClient):
    """A browser: it sends what browsers send with forms, and keeps cookies."""

    def __init__(self, session):
        self.session = session
        gate = Gate(make_app(session, ROOM), origins=[ORIGIN], token=TOKEN, room=ROOM)
        super().__init__(gate, base_url=ORIGIN)

    def enter(self):
        assert self.post("/open", data={"token": TOKEN}, headers=OWN).json() == {"room": f"/{ROOM}/"}
        return self

    def see(self, screen, **query):
        return self.get(f"/{ROOM}/{screen}", params=query)

    def fill(self, screen, **fields):
        """Send a form, wait for the work that it begins, and see where that leads."""
        found = self.post(f"/{ROOM}/{screen}", data=fields, headers=OWN)
        if self.session.job is not None and found.url.path.endswith("/progress"):
            self.session.job.wait(60)
            found = self.see("progress")
        return found


def screen_of(page):
    return page.url.path.removeprefix(f"/{ROOM}/")


def words_of(page):
    """The text of a page, without what is not shown."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


@pytest.fixture
def home(tmp_path, monkeypatch, repeatable_noise) -> Path:
    """No test may touch the user's own ledger."""
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    root = tmp_path / "home"
    root.mkdir()
    centres = 3 * np.random.default_rng(0).normal(size=(3, 16))
    for name, count in (("clinic", 300), ("pool", 220)):
        rng = np.random.default_rng(count)
        labels = rng.integers(0, 3, count)
        rows = (centres[labels] + rng.normal(size=(count, 16))).astype(np.float32)
        labelled = {} if name == "pool" else {"y": labels, "patient": np.arange(count) // 2}
        np.savez(root / f"{name}.npz", x=rows, **labelled)
    return root.resolve()


@pytest.fixture
def session(home) -> Session:
    return Session(home, Choices())


@pytest.fixture
def browser(session) -> Browser:
    return Browser(session).enter()
