"""`dptransfer pate`: account, aggregate and report."""

import csv
import json
import tempfile

import numpy as np
import pytest

from dptransfer.ledger import Ledger
from dptransfer.methods import Inquiry
from dptransfer.privacy import Budget

PAPER = ("--queries", "1000", "--answers", "684", "--threshold-noise", "200", "--noise", "50")
SEEDED = ("--seed", "0", "--unsafe-for-publication")
ASKED = ("--name", "clinic", "--teachers", "100", "--noise", "30")


@pytest.fixture
def votes(tmp_path):
    counts = np.random.default_rng(0).multinomial(100, [0.8, 0.1, 0.1], size=20)
    np.save(tmp_path / "votes.npy", counts)
    return tmp_path / "votes.npy"


def answers(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_account_of_the_paper_is_the_exact_one(cli_json, cli):
    told = cli_json("pate", "account", *PAPER, "--delta", "1e-5")
    assert told["epsilon"] == pytest.approx(3.1776, abs=5e-5)
    assert [event["scale"] for event in told["events"]] == pytest.approx([200, 50])
    assert "3.1776 at delta 1e-5" in cli("pate", "account", *PAPER).stdout


def test_an_epsilon_gives_the_noise_that_fits(cli_json, cli):
    told = cli_json("pate", "account", "--queries", "1000", "--epsilon", "1")
    assert round(told["noise"]) == 167
    assert told["epsilon"] <= 1
    assert "166.8 votes" in cli("pate", "account", "--queries", "1000", "-e", "1").stdout


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("got neither", ()),
        ("got both", ("--noise", "5", "--epsilon", "1")),
        ("Gaussian", ("--epsilon", "1", "--delta", "0")),
    ],
)
def test_what_cannot_be_asked_is_one_line(cli, words, options):
    assert words in cli("pate", "account", "--queries", "10", *options, code=2).stderr


def test_answers_are_written_with_what_they_cost_and_charged(cli, votes, ledger, tmp_path):
    out = tmp_path / "answers.csv"
    said = cli("pate", "aggregate", votes, *ASKED, "--classes", "a,b,c", "--out", out).stdout
    rows = answers(out)
    assert [row["question"] for row in rows] == [str(n) for n in range(20)]
    assert {row["label"] for row in rows} <= {"a", "b", "c"}
    record = json.loads((tmp_path / "answers.json").read_text())
    assert record["epsilon"] == Inquiry(20, 30.0, classes=3).guarantee(1e-5).epsilon
    assert Ledger(ledger).privacy_spent("clinic").epsilon == pytest.approx(record["epsilon"])
    assert record["ledger_head"] == Ledger(ledger).history("clinic")[0].hash
    assert "teacher at most" in record["statement"]
    assert "'clinic', entry 1 of" in said
    assert "20 of 20 questions" in said


def test_what_is_private_about_votes_changes_no_word(cli, votes, tmp_path, monkeypatch):
    counts, said = np.load(votes), set()
    for case, change in enumerate((1, 0, -1, 10**6)):
        folder = tmp_path / str(case)
        folder.mkdir()
        monkeypatch.chdir(folder)
        np.save("votes.npy", counts * change)
        words = (*ASKED, "--out", "a.csv", "--ledger", "ledger.sqlite")
        found = cli("pate", "aggregate", "votes.npy", *words)
        said.add((found.output.replace(str(folder), ""), tuple(sorted(one.name for one in folder.iterdir()))))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("how many teachers", ("--noise", "5")),
        ("got neither", ("--teachers", "100")),
        ("none are declared", ("--teachers", "100", "--noise", "5", "--ballots")),
        ("shape", ("--teachers", "100", "--noise", "5", "--ballots", "--classes", "3")),
        ("repeatable", ("--teachers", "100", "--noise", "5", "--seed", "1")),
        (".csv", ("--teachers", "100", "--noise", "5", "--out", "a.txt")),
    ],
)
def test_what_is_public_and_wrong_is_said_before_the_charge(cli, votes, tmp_path, words, options, charges):
    named = ("--name", "clinic", "--out", tmp_path / "a.csv")
    assert words in cli("pate", "aggregate", votes, *named, *options, code=2).stderr
    assert charges() == []
    assert not (tmp_path / "a.csv").exists()


def test_a_budget_that_does_not_cover_it_leaves_no_file(cli, votes, ledger, tmp_path):
    Ledger(ledger).set_budget("clinic", Budget(epsilon=0.1, delta=1e-5))
    said = cli("pate", "aggregate", votes, *ASKED, "--out", tmp_path / "a.csv", code=2).stderr
    assert "above its budget" in said
    left = sorted(one.name for one in tmp_path.iterdir())
    assert left == ["ledger.sqlite", "ledger.sqlite.key", "votes.npy"]


def test_answers_that_are_paid_for_are_kept_if_they_cannot_be_written(cli, votes, tmp_path, monkeypatch):
    from dptransfer.cli import pate_commands

    wrote, folder = pate_commands._write, tmp_path / "kept"
    folder.mkdir()

    def fail_here(out, **what):
        if out.name == "a.csv" and out.parent == tmp_path:
            raise OSError(28, "No space left on device")
        wrote(out, **what)

    monkeypatch.setattr(pate_commands, "_write", fail_here)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(folder))
    said = cli("pate", "aggregate", votes, *ASKED, "--out", tmp_path / "a.csv", code=2).stderr
    assert "The charge stands" in said
    assert len(answers(folder / "a.csv")) == 20


def test_a_report_is_charged_and_says_what_it_is(cli, cli_json, votes, ledger):
    words = ("pate", "report", votes, *ASKED, "--epsilon", "0.5", "--order", "10")
    told = cli_json(*words)
    assert told["epsilon"] <= 0.5
    assert told["epsilon_of_labels"] <= told["epsilon_for_any_votes"]
    assert told["epsilon_for_any_votes"] == Inquiry(20, 30.0, classes=3).guarantee(1e-5).epsilon
    assert Ledger(ledger).privacy_spent("clinic").epsilon == pytest.approx(told["epsilon"])
    said = cli(*words, *SEEDED).stdout
    assert "no guarantee" in said
    assert "DO NOT PUBLISH" in said
    assert len(Ledger(ledger).history("clinic")) == 4  # two charges, each with how it ended
