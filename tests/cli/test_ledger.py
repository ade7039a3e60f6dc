"""`dptransfer ledger`: show, history, budget, verify and export."""

import json
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from dptransfer.cli.ledger_commands import charge_words, entry_json
from dptransfer.data import PrivateEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.privacy import (
    BestOfManyEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
)
from dptransfer.release import read_release

from .conftest import BUDGET, CLASSES

ADD = Relation.ADD_REMOVE
STEP = SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")


def test_an_empty_ledger(cli, cli_json, ledger):
    Ledger(ledger)
    for command in ("show", "history"):
        out = cli("ledger", command).stdout
        assert "on record yet" in out
        assert str(ledger) in out.replace("\n", "")
    assert cli_json("ledger", "show")["datasets"] == []


@pytest.mark.parametrize(
    "command", ["show", "history", "verify", "budget clinic", "export --out record.jsonl"]
)
def test_reading_makes_no_ledger_where_there_is_none(cli, ledger, command):
    """Behind a mistyped path a new ledger would say that nothing was spent, and that its chain holds."""
    said = cli("ledger", *command.split(), code=2).stderr
    assert f"none at '{ledger}'" in said
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
    assert "epsilon 0.5 (add/remove)" in out
    told = cli_json("ledger", "show", "clinic")
    assert [one["name"] for one in told["datasets"]] == ["clinic"]
    assert told["head"] == book.head
    told = cli_json("ledger", "history")
    assert [one["kind"] for one in told["entries"]] == ["charge", "charge"]
    assert told["entries"][0]["events"][0]["epsilon"] == 0.5
    assert told["entries"][0]["closed_by"] == 2
    assert told["entries"][1]["outcome"] is None
    assert "interrupted or running" in " ".join(cli("ledger", "history", "other").stdout.split())


def test_an_id_is_enough(cli, cli_json, ledger):
    book = Ledger(ledger)
    book.charge("clinic", [STEP], label="public")
    short = book.find("clinic").short
    cli("ledger", "budget", short, "--epsilon", "2")
    assert cli_json("ledger", "show", short)["datasets"][0]["name"] == "clinic"
    assert len(book.datasets()) == 1


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
    assert "file from a backup" in cli("ledger", "show", code=2).stderr


@pytest.fixture
def head(cli, data):
    """The ledger's head after one fit, as the release keeps it."""
    words = (*BUDGET, "--classes", CLASSES, "-m", "mean", "--name", "clinic", "--out", "m")
    cli("fit", data / "private.npz", *words)
    return read_release("m").provenance.ledger_head


def test_the_chain_holds_and_has_the_head_that_a_release_keeps(cli, cli_json, head):
    assert "The chain holds." in cli("ledger", "verify").stdout
    assert "given head is" in cli("ledger", "verify", "--head", head.upper()).stdout
    assert cli_json("ledger", "verify", "--head", head)["known_head"] == head


def test_a_head_that_the_record_has_lost_is_refused(cli, head):
    other = ("0" if head[0] != "0" else "1") + head[1:]
    assert "not in" in cli("ledger", "verify", "--head", other, code=2).stderr
    assert "64 hexadecimal digits" in cli("ledger", "verify", "--head", head[:12], code=2).stderr


def test_the_record_is_exported_line_by_line_for_its_owner_alone(cli, cli_json, head):
    assert cli_json("ledger", "export", "--out", "record.jsonl")["head"]
    lines = [json.loads(line) for line in Path("record.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["charge", "closing"]
    assert lines[:1] == cli_json("ledger", "history")["entries"]
    assert stat.S_IMODE(Path("record.jsonl").stat().st_mode) == 0o600
    assert "exists" in cli("ledger", "export", "--out", "record.jsonl", code=2).stderr


def charged(*events):
    ledger = Ledger.in_memory()
    ledger.charge("clinic-a", events, label="fit")
    return ledger.history()[0]


def test_charges_say_what_was_paid_for():
    noise = GaussianEvent(20.0, ADD, times=28)
    assert charge_words(charged(noise)) == "fit: noise multiplier 20, 28 times"
    sampled = SampledGaussianEvent(1.1, 0.02, 300, ADD)
    tuned = BestOfManyEvent(((noise,),), 10, 1.0)
    assert charge_words(charged(sampled, tuned)) == (
        "fit: noise multiplier 1.1, 300 samples at rate 0.02; "
        "best of about 10 trials (geometric) of 1 candidate"
    )
    assert entry_json(charged(tuned))["events"][0]["candidates"][0][0]["times"] == 28


def test_the_owners_word_about_rows_is_told():
    ledger, x = Ledger.in_memory(), np.random.default_rng(0).normal(size=(20, 20))
    for name in ("clinic-a", "clinic-b"):
        rows = PrivateEmbeddings(x, [0, 1] * 10, classes=[0, 1], name=name)
        ledger.charge(rows, [GaussianEvent(20.0, ADD)], label="fit", new_data_set=True)
    first, second = ledger.history()
    assert charge_words(second) == (
        f"fit: noise multiplier 20; said to be other people than {first.dataset.short}"
    )
    assert (entry_json(first)["apart_from"], entry_json(second)["apart_from"]) == ((), (first.dataset.id,))


def test_a_charge_of_nothing_says_so():
    assert charge_words(charged()) == "fit: no private row used, nothing spent"
    assert entry_json(charged())["events"] == []


def test_a_limit_for_persons_is_set_shown_and_kept(cli, cli_json, ledger):
    declared = ("--unit", "person", "--most-rows-per-person", "20", "--delta", "1e-5")
    cli("ledger", "budget", "clinic", "--epsilon", "3", *declared)
    cli("ledger", "budget", "clinic", "--epsilon", "4", "--delta", "1e-5")  # the unit and the bound stay
    told = cli_json("ledger", "budget", "clinic")
    assert (told["unit"], told["most_rows_per_person"], told["budget"]["epsilon"]) == ("person", 20, 4.0)
    shown = " ".join(cli("ledger", "budget", "clinic").stdout.split())
    assert "all their examples" in shown
    assert "having more than 20" in shown
    entries = cli_json("ledger", "history")["entries"]
    assert [one["most_rows_per_person"] for one in entries] == [20, None]
    assert {one["unit"] for one in entries} == {"person"}
    step = GaussianEvent(16.0, ADD, unit=Unit.PERSON)
    Ledger(ledger).charge("clinic", [step], label="mean")
    said = " ".join(cli("ledger", "history", "--steps").stdout.split())
    assert "by person" in said
    assert charge_words(Ledger(ledger).history()[-1]) == "mean: noise multiplier 16; by person"


def test_bad_declarations_about_persons_are_refused(cli, ledger):
    for bad in (("--unit", "people"), ("--most-rows-per-person", "0")):
        cli("ledger", "budget", "clinic", "--epsilon", "3", *bad, code=2)
    assert not ledger.exists()
