"""An interrupted fit leaves a charge that says so, no release, and one line that tells both."""

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.disk_kills import command, until
from dptransfer.cli import charges as module
from dptransfer.cli.main import Terminated
from dptransfer.data import Facts
from dptransfer.ledger import Ledger
from dptransfer.methods import FiLM, MeanPrototypes, NoisyGD, OnlyPublic
from dptransfer.privacy import (
    BestOfManyEvent,
    DisjointEvent,
    GaussianEvent,
    Guarantee,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
)

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
    monkeypatch.setattr("dptransfer.cli.charges.write_or_rescue", interrupted)
    assert "budget is spent" in cli(*words, "mean", code=130).stderr
    assert not Path("other").exists()


@pytest.mark.parametrize(("stop", "code"), [(interrupted, 130), (terminated, 143)])
def test_in_a_workspace_the_same_command_goes_on_with_one_charge(cli, data, monkeypatch, charges, stop, code):
    words = ("fit", data / "private.npz", *FIT, "--method", "mean", "--workspace", "space")
    with monkeypatch.context() as patch:
        patch.setattr("dptransfer.cli.charges.write_or_rescue", stop)
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
    asked = module.require_writable

    def late(target, **how):
        target.mkdir()  # by somebody who was quicker
        (target / "note").touch()
        asked(target, **how)

    monkeypatch.setattr(module, "require_writable", late)
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
    assert module.room_for(facts, method, network) > 4 * weights


ADD = Relation.ADD_REMOVE
ROUNDS = GaussianEvent(20.0, ADD, 0.5, "gradients", times=28)
SAMPLED = SampledGaussianEvent(1.1, 0.02, 300, ADD, label="batches")
CHOICE = SelectionEvent(0.5, ADD, True, "exponential", "prototypes")
TUNED = BestOfManyEvent(((ROUNDS,), (CHOICE,)), 10, math.inf, "rate")
PARTS = DisjointEvent(((ROUNDS,), (CHOICE,)), label="fit and hold-out")


def shown(capsys, events):
    module.show_events(events)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_every_kind_of_step_has_its_line(capsys):
    lines = shown(capsys, [ROUNDS, SAMPLED, CHOICE, TUNED, PARTS])
    assert any("20, 28 times sensitivity 0.5, scale 10" in line for line in lines)
    assert any(line.startswith("2 batches Gaussian noise, multiplier 1.1, on 300 Poisson") for line in lines)
    assert any("3 prototypes exponential, ε = 0.5" in line for line in lines)
    words = " ".join(lines)
    assert "10 trials (Poisson) of 2" in words
    assert "(1) noise multiplier 20, 28 times; (2)" in words
    assert "(1) gradients: noise multiplier 20, 28" in words


def test_without_steps_it_says_that_no_private_row_is_used(capsys):
    assert "No private row" in shown(capsys, [])[0]
    rates = {"0.01": 0.01, "0.001": 0.001}
    told = module.privacy_json("public-only", Guarantee(0.0, 0.0, ADD), [])["attack"]
    assert told == {"true_positive_rate": rates, "membership_advantage": 0.0}
    assert "1% of members" in module.attack_sentence([])
    told = module.privacy_json("public-only", Guarantee(0.0, 0.0, ADD), [])
    assert (told["epsilon"], told["events"]) == (0.0, [])


def test_persons_are_named(capsys):
    person = replace(SAMPLED, unit=Unit.PERSON)
    assert any("person contributes at" in line for line in shown(capsys, [person]))
    assert "of the people" in module.attack_sentence([person])
    assert (
        module.privacy_json("dpsgd", Guarantee(1.0, 1e-5, ADD, unit=Unit.PERSON), [person])["unit"].value
        == "person"
    )


def test_an_attack_is_on_what_the_relation_protects():
    assert module.attack_sentence([ROUNDS]).startswith("any membership attack finds at most ")
    replaced = module.attack_sentence([replace(ROUNDS, relation=Relation.REPLACE_ONE)])
    assert replaced.startswith("any attack that tells members from their replacements finds at most ")
