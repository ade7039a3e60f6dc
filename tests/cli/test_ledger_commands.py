"""`dptransfer ledger`: show, history, budget, verify and export."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from dptransfer.accounting import guarantee_of
from dptransfer.cli.ledger_commands import HEADER, charge_words, entry_json, history_rows
from dptransfer.data import PrivateEmbeddings
from dptransfer.ledger import ClosingEntry, Ledger
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
    rounded_up,
)
from dptransfer.release import read_release

from .conftest import BUDGET, CLASSES

ADD = Relation.ADD_REMOVE
STEP = GaussianEvent(8.0, ADD)
CHOICE = SelectionEvent(0.5, ADD, True, "exponential")


@pytest.mark.parametrize(
    "command", ["show", "history", "verify", "budget clinic", "export --out record.jsonl"]
)
def test_reading_makes_no_ledger_where_there_is_none(cli, ledger, command):
    """Behind a mistyped path a new ledger would say that nothing was spent, and that its chain holds."""
    for words in ((), ("--ledger", ledger)):
        assert f"no ledger at '{ledger}'" in cli("ledger", *command.split(), *words, code=2).stderr
        assert not ledger.exists()


def test_budget_is_set_printed_and_kept(cli, cli_json, ledger):
    cli("ledger", "budget", "clinic", "--epsilon", "3", "--delta", "1e-5", "--note", "agreed in May")
    told = cli_json("ledger", "budget", "clinic")
    amounts = {"epsilon": 3.0, "rho": None, "mu": None, "delta": 1e-5}
    assert told["budget"] == {**amounts, "relation": "add/remove"}
    assert told["spent"] is None
    assert "agreed in May" in cli("ledger", "history").stdout


def test_show_and_history(cli, cli_json, ledger):
    book = Ledger(ledger)
    book.complete(book.charge("clinic", [CHOICE], label="public"), "released")
    book.charge("other", [CHOICE], label="public")
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("show nobody", "is none of"),
        ("budget clinic --delta 1e-5", "exactly one"),
        ("budget clinic --epsilon 3 --unit people", "--unit"),
        ("budget clinic --epsilon 3 --most-rows-per-person 0", "--most-rows"),
        ("show --ledger text.sqlite", "that dptransfer made"),
    ],
)
def test_refusals(cli, ledger, words, said):
    Ledger(ledger)
    Path("text.sqlite").write_text("not a ledger at all " * 100)
    assert said in cli("ledger", *words.split(), code=2).stderr
    assert Ledger(ledger).history() == []


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
    assert "multiplier 20, 28" in charge_words(charged(noise))
    sampled = SampledGaussianEvent(1.1, 0.02, 300, ADD)
    tuned = BestOfManyEvent(((noise,),), 10, 1.0)
    said = charge_words(charged(sampled, tuned))
    assert all(words in said for words in ("300 samples", "10 trials", "1 candidate"))
    assert entry_json(charged(tuned))["events"][0]["candidates"][0][0]["times"] == 28
    assert "nothing spent" in charge_words(charged())
    assert entry_json(charged())["events"] == []


def test_the_owners_word_about_rows_is_told():
    ledger, x = Ledger.in_memory(), np.random.default_rng(0).normal(size=(20, 20))
    for name in ("clinic-a", "clinic-b"):
        rows = PrivateEmbeddings(x, [0, 1] * 10, classes=[0, 1], name=name)
        ledger.charge(rows, [GaussianEvent(20.0, ADD)], label="fit", new_data_set=True)
    first, second = ledger.history()
    assert f"people than {first.dataset.short}" in charge_words(second)
    assert (entry_json(first)["apart_from"], entry_json(second)["apart_from"]) == ((), (first.dataset.id,))


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
    assert "by person" in charge_words(Ledger(ledger).history()[-1])


def rows(ledger, **options):
    entries = [one for one in ledger.history() if not isinstance(one, ClosingEntry)]
    found = history_rows(entries, **{"steps": False, "releases": {}, "last": len(entries), **options})
    return [dict(zip(HEADER, row, strict=True)) for row in found]


@pytest.fixture
def book():
    """Two data sets: a limit, a released, a failed and an open charge on one; a pure charge on the other."""
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", Budget(epsilon=3.0, delta=1e-5), note="agreed in May")
    ledger.complete(ledger.charge("clinic", [STEP], label="mean"))
    ledger.charge("other", [CHOICE], label="top-k")
    ledger.complete(ledger.charge("clinic", [STEP], label="mean"), "failed", "MemoryError")
    ledger.set_budget("clinic", Budget(epsilon=4.0, delta=1e-5), note="raised in June")
    ledger.charge("clinic", [STEP], label="pate")
    return ledger


def test_every_charge_says_what_it_cost_and_what_the_account_came_to(book):
    told = rows(book)
    what = [row["What"].split(" set")[0] for row in told]
    assert what == ["limit", "mean", "top-k", "mean", "limit", "pate"]
    alone = f"{rounded_up(guarantee_of([STEP], 1e-5).epsilon)} (1e-5)"
    assert [row["Epsilon (delta)"] for row in told] == ["", alone, "0.5", alone, "", alone]
    assert (told[1]["Total"], told[2]["Total"]) == (alone, "0.5")
    assert told[5]["Total"] == f"{rounded_up(book.privacy_spent('clinic').epsilon)} (1e-5)"
    totals = [float(told[place]["Total"].split()[0]) for place in (1, 3, 5)]
    assert totals == sorted(set(totals))
    assert rows(book, steps=True)[1]["What"] == "mean: noise multiplier 8"
    assert rows(book, last=2) == told[-2:]
    assert rows(book, last=99) == told


@pytest.mark.parametrize(("budget", "said"), [(Budget.zcdp(0.5), "rho"), (Budget.gdp(1.0), "mu")])
def test_a_limit_in_another_currency_is_told_in_it_also_where_it_is_not_shown(budget, said):
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", budget)
    for _ in range(2):
        ledger.charge("clinic", [STEP], label="mean")
    assert all(row["Total"].startswith(said) for row in rows(ledger)[1:])
    assert rows(ledger, last=1) == rows(ledger)[-1:]


def test_a_release_is_found_among_the_charges(cli, cli_json, data, ledger):
    for out in ("one", "two"):
        words = (*BUDGET, "--classes", CLASSES, "-m", "mean", "--name", "clinic")
        cli("fit", data / "private.npz", *words, "--title", f"Ward {out}", "--out", out)
    told = cli_json("ledger", "history", "--model", "one", "--model", "two")["entries"]
    found = [(one["number"], one["release"]) for one in told]
    assert found == [(1, "one ('Ward one')"), (3, "two ('Ward two')")]
    said = " ".join(cli("ledger", "history", "--model", "two").stdout.split())
    assert "'Ward two'" in said.replace(" )", ")")
    assert "'Ward one'" not in said
    assert "entry 3 of your" in " ".join(cli("verify", "two").stdout.split())
    shown = cli("card", "two")
    assert "entry 3 of your" in " ".join(shown.stderr.split())
    assert "your ledger" not in shown.stdout
    ledger.unlink()
    Ledger(ledger)
    said = " ".join(cli("ledger", "history", "--model", "one").stdout.split())
    assert "charge listed here" in said
    assert "your ledger" not in cli("verify", "two").stdout
    assert cli("card", "two").stderr == ""


def test_many_charges_are_cut_to_the_last_and_that_is_said(cli, ledger):
    book = Ledger(ledger)
    for number in range(4):
        book.charge("clinic", [CHOICE], label=f"fit-{number}")
    said = cli("ledger", "history", "--last", "2").stdout
    assert "The last 2 of 4" in said
    assert ("fit-1" in said, "fit-2" in said) == (False, True)
    assert "fit-0" in cli("ledger", "history", "--last", "0").stdout
    assert "The last" not in cli("ledger", "history").stdout


def test_a_limit_in_use_is_changed_with_a_reason_and_a_release_approved_by_name(cli, cli_json, data, ledger):
    cli("ledger", "budget", "clinic", "--epsilon", "3", "--delta", "1e-5")
    words = (*BUDGET, "--classes", CLASSES, "-m", "mean", "--name", "clinic")
    cli("fit", data / "private.npz", *words, "--out", "model")
    change = ("ledger", "budget", "clinic", "--epsilon", "4", "--delta", "1e-5")
    cli(*change, code=2)
    cli(*change, "--note", "the board agreed")
    cli("ledger", "approve", "model", "--name", "A. Officer", "--note", "may leave")
    last = cli_json("ledger", "history")["entries"][-1]
    assert (last["kind"], last["approver"], last["note"]) == ("approval", "A. Officer", "may leave")
    cli("audit", "model", "--quick", "--ledger", ledger)
    told = json.loads(Path("audit.json").read_text())
    assert told["light"] == "green"
    assert [one.get("note") for one in told["ledger"]["entries"]] == [
        "",
        None,
        "the board agreed",
        "may leave",
    ]
    cli("audit", "model", "--quick", code=2)  # the page is there
    cli("card", "model", "--registry", "deployment.yaml", "--dpia", "dpia.md")
    assert Path("dpia.md").stat().st_size > 1000 < Path("deployment.yaml").stat().st_size
