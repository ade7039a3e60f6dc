"""`dptransfer ledger`: show, history, budget."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dptransfer.ledger import Ledger
from dptransfer.privacy import Relation, SelectionEvent

STEP = SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")


def test_an_empty_ledger(cli, cli_json, ledger):
    Ledger(ledger)
    for command in ("show", "history"):
        out = cli("ledger", command).stdout
        assert "Nothing is on record yet" in out
        assert str(ledger) in out.replace("\n", "")
    assert cli_json("ledger", "show")["datasets"] == []


@pytest.mark.parametrize(
    "command", ["show", "history", "verify", "budget clinic", "export --out record.jsonl"]
)
def test_reading_makes_no_ledger_where_there_is_none(cli, ledger, command):
    """Behind a mistyped path a new ledger would say that nothing was spent, and that its chain holds."""
    said = cli("ledger", *command.split(), code=2).stderr
    assert f"there is none at '{ledger}'" in said
    assert "DPTRANSFER_LEDGER" in said
    assert not ledger.exists()


def test_budget_is_set_printed_and_kept(cli, cli_json, ledger):
    cli("ledger", "budget", "clinic", "--epsilon", "3", "--delta", "1e-5", "--note", "agreed in May")
    told = cli_json("ledger", "budget", "clinic")
    assert told["budget"] == {
        "epsilon": 3.0,
        "rho": None,
        "mu": None,
        "delta": 1e-5,
        "relation": "add/remove",
    }
    assert told["spent"] is None
    assert "epsilon = 3" in cli("ledger", "budget", "clinic").stdout
    assert "agreed in May" in cli("ledger", "history").stdout


def test_show_and_history(cli, cli_json, ledger):
    book = Ledger(ledger)
    book.complete(book.charge("clinic", [STEP], label="public"), "released")
    book.charge("other", [STEP], label="public")
    out = " ".join(cli("ledger", "show").stdout.split())
    assert "clinic" in out
    assert "epsilon 0.5 (add/remove) is spent; no budget is set" in out
    told = cli_json("ledger", "show", "clinic")
    assert [one["name"] for one in told["datasets"]] == ["clinic"]
    assert told["head"] == book.head
    told = cli_json("ledger", "history")
    assert [one["kind"] for one in told["entries"]] == ["charge", "closing", "charge"]
    assert told["entries"][0]["events"][0]["epsilon"] == 0.5
    assert told["entries"][2]["outcome"] is None
    assert "interrupted or running" in " ".join(cli("ledger", "history", "other").stdout.split())


def test_an_id_is_enough(cli, cli_json, ledger):
    book = Ledger(ledger)
    book.charge("clinic", [STEP], label="public")
    short = book.find("clinic").short
    cli("ledger", "budget", short, "--epsilon", "2")
    assert cli_json("ledger", "show", short)["datasets"][0]["name"] == "clinic"
    assert len(book.datasets()) == 1


def test_merged_accounts_are_announced(cli, cli_json, ledger):
    script = Path(__file__).parents[1] / "ledger" / "schema_1.sql"
    with closing(sqlite3.connect(ledger)) as connection:
        connection.executescript(script.read_text())
    told = " ".join(cli("ledger", "show").stdout.split())
    assert "'Clinic' holds the charges of 'clinic' too" in told
    assert told.count("too: an older version") == 1
    assert cli_json("ledger", "show", "clinic")["datasets"][0]["merged"] == ["clinic"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "nobody"), "is none of the"),
        (("history", "nobody"), "is none of the"),
        (("budget", "nobody"), "is none of the"),
        (("show", "--ledger", "missing.sqlite"), "there is none at"),
        (("budget", "clinic", "--ledger", "missing.sqlite"), "there is none at"),
        (("budget", "clinic", "--delta", "1e-5"), "exactly one of"),
        (("budget", "clinic", "--epsilon", "0"), "epsilon must be a positive"),
        (("budget", "clinic", "--epsilon", "1", "--delta", "1"), "delta must lie in"),
        (("show", "--ledger", "text.sqlite"), "must be a file that dptransfer made"),
    ],
)
def test_refusals(cli, ledger, words, said):
    Ledger(ledger)
    Path("text.sqlite").write_text("not a ledger at all " * 100)
    assert said in cli("ledger", *words, code=2).stderr
    assert not Path("missing.sqlite").exists()


def test_a_tampered_ledger_is_refused(cli, ledger):
    Ledger(ledger).charge("clinic", [STEP], label="public")
    connection = sqlite3.connect(ledger)
    connection.execute("DROP TRIGGER entries_stay")
    connection.execute("DELETE FROM entries")
    connection.commit()
    connection.close()
    assert "Restore the file from a backup" in cli("ledger", "show", code=2).stderr
