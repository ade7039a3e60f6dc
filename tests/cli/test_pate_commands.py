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


def test_the_account_of_plain_answers_and_of_replaced_rows(cli_json):
    plain = cli_json("pate", "account", "--queries", "1000", "--noise", "50")
    assert plain["mu"] == pytest.approx((2 * 1000 / 50**2) ** 0.5)
    assert (plain["answers"], plain["threshold_noise"]) == (1000, None)
    twice = cli_json("pate", "account", "--queries", "1000", "--noise", "50", "--relation", "replace-one")
    assert twice["mu"] == pytest.approx(2 * plain["mu"])
    assert twice["relation"] == "replace-one"
    assert cli_json("pate", "account", *PAPER, "--unit", "person")["unit"] == "person"


def test_an_epsilon_gives_the_noise_that_fits(cli_json, cli):
    told = cli_json("pate", "account", "--queries", "1000", "--epsilon", "1")
    assert round(told["noise"]) == 167
    assert told["epsilon"] <= 1
    assert "166.8 votes" in cli("pate", "account", "--queries", "1000", "-e", "1").stdout


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("At most all queries", ("--answers", "11", "--threshold-noise", "2", "--noise", "5")),
        ("no threshold noise", ("--answers", "3", "--noise", "5")),
        ("noise must be a positive", ("--noise", "0")),
        ("threshold_noise must be a positive", ("--noise", "5", "--threshold-noise", "-1")),
        ("got neither", ()),
        ("got both", ("--noise", "5", "--epsilon", "1")),
        ("delta", ("--noise", "5", "--delta", "1.5")),
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


def test_a_threshold_answers_at_most_what_was_paid_for(cli_json, votes, tmp_path):
    confident = ("--threshold", "60", "--threshold-noise", "10", "--answers", "5")
    told = cli_json("pate", "aggregate", votes, *ASKED, *confident, "--out", tmp_path / "a.csv")
    assert told["answered"] == len(answers(tmp_path / "a.csv")) == 5
    assert told["answers_paid_for"] == 5
    assert told["files"] == ["a.csv", "a.json"]
    assert told["account"]["spent"]["epsilon"] == pytest.approx(told["epsilon"])


def test_ballots_give_the_answers_of_their_counts(cli, votes, tmp_path):
    counts = np.load(votes)
    ballots = np.array([np.repeat(np.arange(3), one) for one in counts]).T
    np.save(tmp_path / "ballots.npy", ballots[::-1])
    cli("pate", "aggregate", votes, *ASKED, *SEEDED, "--out", tmp_path / "a.csv")
    words = ("--name", "clinic", "--noise", "30", "--ballots", "--classes", "3", *SEEDED)
    said = cli("pate", "aggregate", tmp_path / "ballots.npy", *words, "--out", tmp_path / "b.csv").stdout
    assert answers(tmp_path / "a.csv") == answers(tmp_path / "b.csv")
    assert "DO NOT PUBLISH" in said


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
        ("shape", ("--teachers", "100", "--noise", "5", "--classes", "4")),
        ("none are declared", ("--teachers", "100", "--noise", "5", "--ballots")),
        ("shape", ("--teachers", "100", "--noise", "5", "--ballots", "--classes", "3")),
        ("one without the other", ("--teachers", "100", "--noise", "5", "--threshold", "50")),
        ("never passed", ("--teachers", "9", "--noise", "5", "--threshold", "10", "--threshold-noise", "5")),
        ("At most all", ("--teachers", "9", "--noise", "5", "--threshold-noise", "5", "--answers", "21")),
        ("distinct", ("--teachers", "100", "--noise", "5", "--classes", "a,b,a")),
        ("half a character", ("--teachers", "100", "--noise", "5", "--classes", "a,b,\udcff")),
        ("repeatable", ("--teachers", "100", "--noise", "5", "--seed", "1")),
        (".csv", ("--teachers", "100", "--noise", "5", "--out", "a.txt")),
    ],
)
def test_what_is_public_and_wrong_is_said_before_the_charge(cli, votes, tmp_path, words, options, charges):
    named = ("--name", "clinic", "--out", tmp_path / "a.csv")
    assert words in cli("pate", "aggregate", votes, *named, *options, code=2).stderr
    assert charges() == []
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("content", [np.zeros((4, 3)), np.zeros(4, dtype=int), np.array(["a"])])
def test_files_that_are_no_votes_are_refused(cli, tmp_path, content, charges):
    np.save(tmp_path / "odd.npy", content)
    cli("pate", "aggregate", tmp_path / "odd.npy", *ASKED, "--out", tmp_path / "a.csv", code=2)
    assert charges() == []


@pytest.mark.parametrize("taken", ["a.csv", "a.json"])
def test_nothing_is_overwritten_and_nothing_charged_for_it(cli, votes, tmp_path, taken, charges):
    (tmp_path / taken).write_text("mine")
    assert "exists" in cli("pate", "aggregate", votes, *ASKED, "--out", tmp_path / "a.csv", code=2).stderr
    assert (tmp_path / taken).read_text() == "mine"
    assert charges() == []


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


def test_a_report_that_cannot_be_made_is_refused_before_the_charge(cli, votes, charges):
    words = ("pate", "report", votes, *ASKED, "--epsilon", "0.5")
    assert "order" in cli(*words, "--order", "1", code=2).stderr
    assert "confidence" in cli(*words, "--confidence", "1", code=2).stderr
    assert "repeatable" in cli(*words, "--seed", "1", code=2).stderr
    assert charges() == []
