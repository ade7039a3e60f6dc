"""`dptransfer federate share` killed by SIGKILL, and run again: equal bytes, one charge, no second draw."""

import os
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from dptransfer.ledger import Charge, Ledger

from .test_killed import TESTS

OWNERS = ("a", "b")
STEPS = 3

KILLS = {
    "before the charge": ("federation.owner_run:_require_only_run", 1, 0, 0),
    "after the charge": ("federation.owner_run:_require_only_run", 2, 1, 0),
    "before the first draw": ("noise.noise_source:SecureNoise.discrete_gaussian", 1, 1, 0),
    "after a draw that nobody saw": ("methods.checkpoint:_bytes", 1, 1, 0),
    "stored, and not recorded as the last": ("methods.checkpoint:Workspace._put", 2, 1, 1),
    "stored, and not sent": ("federation.owner_key:OwnerKey.sign", 1, 1, 1),
    "while it is sent": ("federation.share_files:ShareFolder.put", 1, 1, 1),
    "sent": ("federation.share_files:ShareFolder.collect", 1, 1, 1),
}
"""Before which call of which function it is killed, and how many charges and answers there are then."""


@pytest.fixture
def study(cli, tmp_path):
    keys = []
    for place, name in enumerate(OWNERS):
        rng, y = np.random.default_rng(place), np.arange(30) % 3
        np.savez(f"{name}.npz", x=rng.normal(size=(30, 8)) + 3 * np.eye(3, 8)[y], y=y)
        keys.append(cli("federate", "key", f"{name}.key").stdout)
    terms = "name = 'demo'\nclasses = [0, 1, 2]\nmethod = 'noisy-gd'\nepsilon = 2.0\ndelta = 1e-5\n"
    terms += f"dimension = 8\ntrust = 'secure-sum'\nsettings = {{steps = {STEPS}}}\n[owners]\n{''.join(keys)}"
    (tmp_path / "study.toml").write_text(terms)
    cli("federate", "plan", "study.toml", "--out", "demo.study")
    return tmp_path


def words(name):
    options = ("--key", f"{name}.key", "--to", "shares", "--ledger", f"{name}.sqlite", "--workspace", name)
    return ("federate", "share", "demo.study", f"{name}.npz", *options)


def charged(name):
    path = f"{name}.sqlite"
    return [one for one in Ledger(path).history() if isinstance(one, Charge)] if os.path.exists(path) else []


def answers(name):
    if not os.path.exists(f"{name}/run.sqlite"):
        return []
    with sqlite3.connect(f"{name}/run.sqlite") as file:
        return file.execute("SELECT number, what, array FROM answers ORDER BY number").fetchall()


def shares(folder):
    return {path.name: path.read_bytes() for path in (folder / "shares").glob("a.*.share")}


@pytest.mark.slow
@pytest.mark.parametrize("kill", list(KILLS))
@pytest.mark.parametrize("rounds", [0, 1])
def test_an_owner_that_is_killed_goes_on_with_equal_bytes_and_one_charge(cli, study, kill, rounds):
    place, count, charges, drawn = KILLS[kill]
    for _ in range(rounds):
        for name in OWNERS:
            cli(*words(name))
    before = shares(study)
    if rounds and kill == "before the charge":
        charges = 1
    again = place.rpartition(".")[2] in ("collect", "put", "sign")  # asked for rounds that are over, too
    calls = count + rounds if again else count - (rounds if "_put" in place else 0)
    path = os.pathsep.join([str(TESTS), *sys.path])
    command = [sys.executable, "-W", "ignore", "-m", "cli.test_killed", place, str(calls), *words("a")]
    done = subprocess.run(command, check=False, capture_output=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(charged("a")) == charges
    left, sent = answers("a"), shares(study)
    assert before.items() <= sent.items()
    if not rounds:
        assert len(left) == drawn
    for _ in range(STEPS + 1):
        for name in OWNERS:
            cli(*words(name))
    assert len(charged("a")) == 1
    whole = answers("a")
    assert whole[: len(left)] == left
    assert len(whole) == STEPS
    assert sent.items() <= shares(study).items()
    cli("federate", "join", "demo.study", "shares", "--out", "model")
    assert "2 owners signed" in cli("verify", "model").stdout
