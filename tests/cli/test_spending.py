"""An interrupted fit leaves a charge that says so, no release, and one line that tells both."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts.disk_kills import command, until
from dptransfer.cli.main import Terminated
from dptransfer.cli.spending import room_for
from dptransfer.data import Facts
from dptransfer.ledger import Ledger
from dptransfer.methods import FiLM, MeanPrototypes, NoisyGD, OnlyPublic

FIT = ("--epsilon", "1", "--delta", "1e-5", "--classes", "cat,dog,bird", "--name", "clinic", "--out", "model")


def interrupted(*given, **named):
    raise KeyboardInterrupt


def terminated(*given, **named):
    raise Terminated


def test_after_the_charge_the_budget_is_spent(cli, data, monkeypatch, charges):
    cli("fit", data / "private.npz", *FIT, "--method", "mean")
    monkeypatch.setattr(NoisyGD, "run", interrupted)
    words = ("fit", data / "private.npz", *FIT[:-1], "other", "--method")
    assert "no release was" in cli(*words, "noisy-gd", code=130).stderr
    ended = [(one.label, one.outcome, one.detail) for one in charges()]
    assert ended == [("mean", "released", ""), ("noisy-gd", "failed", "KeyboardInterrupt")]
    monkeypatch.setattr("dptransfer.cli.fit_command.write_or_rescue", interrupted)
    assert "budget is spent" in cli(*words, "mean", code=130).stderr
    assert not Path("other").exists()


def test_a_scheduler_that_ends_a_fit_is_told_what_was_charged(cli, data, monkeypatch, charges):
    with monkeypatch.context() as patch:
        patch.setattr(NoisyGD, "run", terminated)
        said = cli("fit", data / "private.npz", *FIT, "--method", "noisy-gd", code=143).stderr
    assert said.count("\n") == 1
    assert "Terminated after the" in said
    assert [(one.outcome, one.detail) for one in charges()] == [("failed", "Terminated")]


@pytest.mark.parametrize(("stop", "code"), [(interrupted, 130), (terminated, 143)])
def test_in_a_workspace_the_same_command_goes_on_with_one_charge(cli, data, monkeypatch, charges, stop, code):
    words = ("fit", data / "private.npz", *FIT, "--method", "mean", "--workspace", "space")
    with monkeypatch.context() as patch:
        patch.setattr("dptransfer.cli.fit_command.write_or_rescue", stop)
        said = cli(*words, code=code).stderr
    assert "--workspace space goes" in said
    assert said.count("\n") == 1
    assert not Path("model").exists()
    assert "delete it when" in cli(*words).stdout
    assert Path("model").is_dir()
    assert len(charges()) == 1


def test_before_the_charge_nothing_is(cli, data, ledger, monkeypatch, charges):
    monkeypatch.setattr(MeanPrototypes, "plan", interrupted)
    said = cli("fit", data / "private.npz", *FIT, "--method", "mean", code=130).stderr
    assert "before any charge" in said
    assert charges() == []


def test_a_charge_of_nothing_is_not_called_spent(cli, data, monkeypatch):
    monkeypatch.setattr(OnlyPublic, "run", interrupted)
    words = (*FIT, "--method", "only-public", "--shots", data / "shots.npz")
    assert "it cost nothing" in cli("fit", data / "private.npz", *words, code=130).stderr


HOLDING = """
import sys
from pathlib import Path
from dptransfer.data.atomic_files import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_name_that_another_process_writes_to_is_refused_before_the_charge(cli, data, charges):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, "model"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        said = cli("fit", data / "private.npz", *FIT, "--method", "mean", code=2).stderr
        other.communicate("")
    assert "Nothing was charged" in said
    assert charges() == []
    cli("fit", data / "private.npz", *FIT, "--method", "mean")


@pytest.mark.parametrize("words", ["--workspace model", "--workspace model/run", "--out . --overwrite"])
def test_a_workspace_in_the_release_and_one_without_a_name_are_refused_before_the_charge(
    cli, data, tmp_path, monkeypatch, charges, words
):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    how = (*FIT, "--method", "mean", *words.split())
    assert "Nothing was charged" in cli("fit", data / "private.npz", *how, code=2).stderr
    assert charges() == []


def test_a_release_that_came_to_be_in_the_meantime_is_refused_before_the_charge(
    cli, data, monkeypatch, charges
):
    from dptransfer.cli import fit_command, spending

    assert (
        fit_command.require_writable is spending.require_writable
    )  # which is asked before there is any data
    asked = spending.require_writable

    def late(target, **how):
        target.mkdir()  # by somebody who was quicker
        (target / "note").touch()
        asked(target, **how)

    monkeypatch.setattr(spending, "require_writable", late)
    assert "exists" in cli("fit", data / "private.npz", *FIT, "--method", "mean", code=2).stderr
    assert charges() == []


def test_of_several_fits_to_one_name_one_is_charged(processes, data, ledger, tmp_path, charges):
    words = ("fit", str(data / "private.npz"), *FIT, "--method", "mean")
    Ledger(ledger)
    fits = [
        processes.Process(target=until, args=(0, tmp_path / f"tally-{number}", command, tmp_path, *words))
        for number in range(4)
    ]
    for one in fits:
        one.start()
    for one in fits:
        one.join()
    assert sorted(one.exitcode for one in fits) == [0, 2, 2, 2]
    assert [one.outcome for one in charges()] == ["released"]


EARLY = """
import os, signal, sys
class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), int(sys.argv[1]))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
sys.meta_path.insert(0, Stopping())
import dptransfer.cli.main
assert "typer" not in sys.modules
dptransfer.cli.main.run()
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "Error: Interrupted.\n"), (signal.SIGTERM, 143, "Error: Terminated.\n")],
)
def test_a_command_that_is_stopped_while_it_starts_says_so_in_one_line(number, code, said):
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(int(number))], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "word", "detail"),
    [
        (signal.SIGINT, 130, "Interrupted", "KeyboardInterrupt"),
        (signal.SIGTERM, 143, "Terminated", "Terminated"),
    ],
)
def test_control_c_and_termination_in_a_real_process(
    data, ledger, tmp_path, number, code, word, detail, charges
):
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
    while time.monotonic() < deadline and not (ledger.exists() and charges()):
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(number)
    out, said = running.communicate(timeout=60)
    assert running.returncode == code
    assert out == ""
    made, error = said.splitlines()
    assert made.startswith("Created a new ledger: ")
    assert error.startswith(f"Error: {word} after the charge: its budget is spent (entry 1 of ")
    (charge,) = charges()
    assert (charge.outcome, charge.detail, charge.events[0].times) == ("failed", detail, 200_000)
    assert not (tmp_path / "model").exists()


def test_room_is_made_for_a_network_that_is_changed_in_every_weight():
    pytest.importorskip("torch")
    facts, method = Facts(("a", "b"), (8, 8, 3)), FiLM(encoder="small-cnn", size=8)
    network = method.network()
    weights = sum(one.numel() for one in network.module.parameters())
    assert room_for(facts, method, network) > 4 * weights
