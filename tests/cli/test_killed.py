"""`dptransfer fit --workspace` killed by SIGKILL, and run again: it goes on under one charge.

`python -m cli.test_killed PLACE COUNT fit ...` is the command itself, which kills itself before the COUNT-th
call of the function at PLACE, 'module:name' in this library.
"""

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dptransfer.cli.commands import app
from dptransfer.ledger import Ledger
from dptransfer.release import read_release

from .test_pictures import photographed

TESTS = Path(__file__).parents[1]
VOTES = "--set teachers=4 --set queries=6 --set student=linear".split()
METHODS = {
    "film": ("--image-size 8 --set steps=5 --set sampling_rate=0.5 --encoder small-cnn".split(), 5),
    "transfer-pate": ("--set teachers=4 --set queries=6".split(), 2),
    "prom-pate": ([*VOTES, "--encoder", "methods.deep.tiny:tiny_classifier", "--set", "epochs=2"], 2),
}
"""Settings, and how many answers a fit draws: noisy gradients; or who is whose teacher, and votes."""


@pytest.fixture
def files(tmp_path):
    """Pictures, and rows."""
    photographed(tmp_path / "photos", 30, 0)
    photographed(tmp_path / "pool", 9, 1)
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    np.savez(tmp_path / "photos.npz", x=(rng.normal(size=(60, 8)) + 3 * np.eye(3, 8)[y]).astype("f4"), y=y)
    np.savez(tmp_path / "pool.npz", x=rng.normal(size=(20, 8)).astype("f4"))
    return tmp_path


def fit(method):
    end = ".npz" if method == "transfer-pate" else ""
    words = ["fit", f"photos{end}", "-m", method, *METHODS[method][0], "-e", "4", "-d", "1e-5"]
    words += ["--classes", "blue,green,red", "--name", "photos", "--workspace", "run", "-o", "model"]
    return words if method == "film" else [*words, "--public", f"pool{end}"]


def killed(folder, place, count, method):
    """Whether the command, in a process of its own, was killed at that place."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    command = [sys.executable, "-W", "ignore", "-m", "cli.test_killed", place, str(count), *fit(method)]
    done = subprocess.run(
        command, capture_output=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": path}
    )
    assert not (folder / "model").exists()
    return done.returncode == -signal.SIGKILL


def answers(folder):
    with sqlite3.connect(folder / "run" / "run.sqlite") as file:
        return file.execute("SELECT number, what, array FROM answers ORDER BY number").fetchall()


def charges(path):
    return [entry for entry in Ledger(path).history() if hasattr(entry, "events")]


KILLS = {
    "film, between two answers": ("film", "methods.checkpoint:Workspace.draw_once", 4, 3),
    "film, in the middle of a step": ("film", "methods.deep.network_gradient:NetworkGradient.of_rows", 4, 3),
    "film, all but saved": ("film", "cli.charges:write_or_rescue", 1, 5),
    "transfer-pate, teachers": ("transfer-pate", "methods.votes.pate:linear_ballots", 1, 1),
    "transfer-pate, votes": ("transfer-pate", "methods.votes.voting:Voting.release_answers", 1, 1),
    "transfer-pate, student": ("transfer-pate", "methods.votes.pate:linear_student", 1, 2),
    "prom-pate, teachers": ("prom-pate", "methods.deep.teachers:_favourites", 2, 1),
    "prom-pate, votes": ("prom-pate", "methods.votes.voting:Voting.release_answers", 1, 1),
    "prom-pate, student": ("prom-pate", "methods.votes.pate:linear_student", 1, 2),
}
"""Method, before which call of which function it is killed, and how many answers are there then."""
IN_THE_DEFAULT_SUITE = "transfer-pate, votes"


@pytest.mark.parametrize(
    "kill", [pytest.param(name, marks=[pytest.mark.slow] * (name != IN_THE_DEFAULT_SUITE)) for name in KILLS]
)
def test_a_killed_fit_goes_on_under_one_charge_and_asks_nothing_twice(cli, files, ledger, kill):
    method, place, count, drawn = KILLS[kill]
    if method != "transfer-pate":
        pytest.importorskip("torch")
    assert killed(files, place, count, method)
    (charge,) = charges(ledger)
    left = answers(files)
    assert len(left) == drawn
    cli(*fit(method))
    (again,) = charges(ledger)
    assert (again.number, again.outcome) == (charge.number, "released")
    whole = answers(files)
    assert whole[:drawn] == left
    assert len(whole) == METHODS[method][1]
    model = read_release("model")
    assert model.events == charge.events
    assert model.provenance.ledger_head == charge.hash
    # What is over stays as it is: the same command gives the same release, and draws nothing.
    cli(*fit(method), "--overwrite")
    assert answers(files) == whole
    other = read_release("model").weights
    assert all((other[name] == array).all() for name, array in model.weights.items())


if __name__ == "__main__":
    place, count = sys.argv[1], int(sys.argv[2])
    module, _, name = place.partition(":")
    holder = importlib.import_module(f"dptransfer.{module}")
    *outer, last = name.split(".")
    for one in outer:
        holder = getattr(holder, one)
    usual, calls = getattr(holder, last), []

    def dying(*given, **named):
        calls.append(1)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(*given, **named)

    setattr(holder, last, dying)
    app(sys.argv[3:])
