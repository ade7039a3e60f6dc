"""`dptransfer ledger history`: what each charge cost and how it ended, and which one a release came from."""

import os
import pwd
import re

import pytest

from dptransfer.accounting import guarantee_of
from dptransfer.cli.ledger_commands import HEADER, history_rows
from dptransfer.ledger import ClosingEntry, Ledger
from dptransfer.privacy import Budget, GaussianEvent, Relation, SelectionEvent, Unit, rounded_up

from .conftest import BUDGET, CLASSES

ADD = Relation.ADD_REMOVE
STEP = GaussianEvent(8.0, ADD)
CHOICE = SelectionEvent(0.5, ADD, True, "exponential")


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
    assert [row["What"].split(" set")[0] for row in told] == [
        "limit",
        "mean",
        "top-k",
        "mean",
        "limit",
        "pate",
    ]
    alone = rounded_up(guarantee_of([STEP], 1e-5).epsilon)
    assert [row["Epsilon (delta)"] for row in told] == [
        "",
        f"{alone} (1e-5)",
        "0.5",
        f"{alone} (1e-5)",
        "",
        f"{alone} (1e-5)",
    ]
    assert told[1]["Total"] == f"{alone} (1e-5)"
    assert told[2]["Total"] == "0.5"
    assert told[5]["Total"] == f"{rounded_up(book.privacy_spent('clinic').epsilon)} (1e-5)"
    totals = [float(told[place]["Total"].split()[0]) for place in (1, 3, 5)]
    assert totals == sorted(set(totals))


def test_no_number_is_left_out_and_ends_stand_with_their_charges(book):
    told = rows(book)
    assert [row["Outcome or note"] for row in told] == [
        "agreed in May",
        "released (3)",
        "open: interrupted or running",
        "failed: MemoryError (6)",
        "raised in June",
        "open: interrupted or running",
    ]
    numbers = [row["Entry"] for row in told] + [
        int(found[1]) for row in told if (found := re.search(r"\((\d+)\)$", row["Outcome or note"]))
    ]
    assert sorted(numbers) == list(range(1, len(book.history()) + 1))


def test_who_charged_is_on_record(book):
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert {row["User"] for row in rows(book)} == {name} == {entry.user for entry in book.history()}


def test_what_others_charged_meanwhile_is_in_the_total():
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", Budget(epsilon=3.0))

    class Slow:
        name = "clinic"

        @property
        def rows(self):
            ledger.charge("clinic", [CHOICE], label="meanwhile")

    ledger.charge(Slow(), [CHOICE], label="slow")
    assert [(row["What"], row["Total"]) for row in rows(ledger)[1:]] == [("meanwhile", "0.5"), ("slow", "1")]


def test_steps_are_told_when_asked_for(book):
    assert rows(book)[1]["What"] == "mean"
    assert rows(book, steps=True)[1]["What"] == "mean: noise multiplier 8"


def test_the_last_rows_are_the_last(book):
    assert rows(book, last=2) == rows(book)[-2:]
    assert rows(book, last=99) == rows(book)


@pytest.mark.parametrize(("budget", "said"), [(Budget.zcdp(0.5), "rho"), (Budget.gdp(1.0), "mu")])
def test_a_limit_in_another_currency_is_told_in_it_also_where_it_is_not_shown(budget, said):
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", budget)
    for _ in range(2):
        ledger.charge("clinic", [STEP], label="mean")
    assert all(row["Total"].startswith(said) for row in rows(ledger)[1:])
    assert rows(ledger, last=1) == rows(ledger)[-1:]


def test_a_charge_of_nothing_costs_nothing_and_one_by_person_says_so():
    ledger = Ledger.in_memory()
    ledger.charge("clinic", [], label="only-public")
    ledger.charge("clinic", [GaussianEvent(8.0, ADD, unit=Unit.PERSON)], label="mean")
    first, second = rows(ledger, steps=True)
    assert (first["Epsilon (delta)"], first["Total"]) == ("0", "0")
    assert "by person" in second["What"]
    assert [entry.cost["unit"] for entry in ledger.history()][1] == "person"


def test_a_release_is_found_among_the_charges(cli, cli_json, data, ledger):
    for out in ("one", "two"):
        words = (*BUDGET, "--classes", CLASSES, "-m", "mean", "--name", "clinic")
        cli("fit", data / "private.npz", *words, "--title", f"Ward {out}", "--out", out)
    told = cli_json("ledger", "history", "--model", "one", "--model", "two")["entries"]
    assert [(one["number"], one["release"]) for one in told] == [
        (1, "one ('Ward one')"),
        (3, "two ('Ward two')"),
    ]
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
