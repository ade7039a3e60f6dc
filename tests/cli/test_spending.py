"""An interrupted fit leaves a charge that says so, no release, and one line that tells both."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dptransfer.cli.spending import room_for
from dptransfer.data import Facts
from dptransfer.ledger import Charge, Ledger
from dptransfer.methods import FiLM, MeanPrototypes, NoisyGD, OnlyPublic

FIT = ("--epsilon", "1", "--delta", "1e-5", "--classes", "cat,dog,bird", "--name", "clinic", "--out", "model")


def interrupted(*given, **named):
    raise KeyboardInterrupt


def charges(ledger):
    return [entry for entry in Ledger(ledger).history() if isinstance(entry, Charge)]


def test_after_the_charge_the_budget_is_spent(cli, data, ledger, monkeypatch):
    cli("fit", data / "private.npz", *FIT, "--method", "mean")
    monkeypatch.setattr(NoisyGD, "run", interrupted)
    said = cli("fit", data / "private.npz", *FIT[:-1], "other", "--method", "noisy-gd", code=130).stderr
    assert said.count("\n") == 1
    assert f"its budget is spent (entry 3 of the ledger {ledger}), and no release was written" in said
    assert [(one.label, one.outcome, one.detail) for one in charges(ledger)] == [
        ("mean", "released", ""),
        ("noisy-gd", "failed", "KeyboardInterrupt"),
    ]
    assert not Path("other").exists()


def test_before_the_charge_nothing_is(cli, data, ledger, monkeypatch):
    monkeypatch.setattr(MeanPrototypes, "plan", interrupted)
    said = cli("fit", data / "private.npz", *FIT, "--method", "mean", code=130).stderr
    assert "before any charge" in said
    assert not ledger.exists() or charges(ledger) == []


def test_a_charge_of_nothing_is_not_called_spent(cli, data, monkeypatch):
    monkeypatch.setattr(OnlyPublic, "run", interrupted)
    words = (*FIT, "--method", "only-public", "--shots", data / "shots.npz")
    assert "it cost nothing" in cli("fit", data / "private.npz", *words, code=130).stderr


def test_while_the_release_is_written_the_budget_is_spent_too(cli, data, monkeypatch):
    monkeypatch.setattr("dptransfer.cli.fit.save_or_rescue", interrupted)
    said = cli("fit", data / "private.npz", *FIT, "--method", "mean", code=130).stderr
    assert "its budget is spent" in said


def test_in_a_workspace_the_same_command_goes_on_with_one_charge(cli, data, ledger, monkeypatch):
    words = ("fit", data / "private.npz", *FIT, "--method", "mean", "--workspace", "space")
    with monkeypatch.context() as patch:
        patch.setattr("dptransfer.cli.fit.save_or_rescue", interrupted)
        said = cli(*words, code=130).stderr
    assert "The same command with --workspace space goes on" in said
    assert said.count("\n") == 1
    assert not Path("model").exists()
    assert "delete it when the release is safe" in cli(*words).stdout
    assert Path("model").is_dir()
    assert len(charges(ledger)) == 1


@pytest.mark.slow
def test_control_c_in_a_real_process(data, ledger, tmp_path):
    words = ["fit", str(data / "private.npz"), *FIT, "--method", "noisy-gd", "--set", "steps=200000"]
    running = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "dptransfer", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "DPTRANSFER_LEDGER": str(ledger)},
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (ledger.exists() and charges(ledger)):
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out == ""
    made, error = said.splitlines()
    assert made.startswith("A new ledger was made: ")
    assert error.startswith("Error: Interrupted after the charge: its budget is spent (entry 1 of ")
    (charge,) = charges(ledger)
    assert (charge.outcome, charge.detail, charge.events[0].times) == ("failed", "KeyboardInterrupt", 200_000)
    assert not (tmp_path / "model").exists()


def test_room_is_made_for_a_network_that_is_changed_in_every_weight():
    pytest.importorskip("torch")
    facts, method = Facts(("a", "b"), (8, 8, 3)), FiLM(encoder="small-cnn", size=8)
    network = method.network()
    weights = sum(one.numel() for one in network.module.parameters())
    assert room_for(facts, method, network) > 4 * weights
