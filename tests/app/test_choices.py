"""Choices become the words of commands, which the command line reads as they are meant."""

import shlex

import pytest

from dptransfer.app.choices import FIELDS, Choices, field_of, shown_command, suggested_name
from dptransfer.cli.commands import read_command
from dptransfer.cli.fit_command import request_of

FULL = Choices(
    data="/home/a b/-x",
    public="/home/pool",
    name="-ward 7",
    classes="a,b",
    label_column="-y",
    unit="person",
    whose="column",
    whose_name="--ledger",
    size="900",
    epsilon="0.5",
    delta="1e-6",
    method="mean",
    out="/home/out",
    title="'; rm -rf /",
    ledger="/home/ledger",
)


def test_the_command_that_is_shown_is_read_back_as_what_was_chosen():
    shown = shlex.split(shown_command(FULL.fit_words()))
    assert shown[:2] == ["dptransfer", "fit"]
    given = read_command("fit", shown[2:])
    request = request_of(**given)
    assert str(request.private.path) == FULL.data
    assert str(request.public.path) == FULL.public
    assert request.private.name == "-ward 7"
    assert request.private.people == "--ledger"
    assert request.private.classes == ("a", "b")
    assert request.private.declared == {"size": 900}
    assert request.private.columns.label == "-y"
    assert (request.budget.epsilon, request.budget.delta, request.holdout) == (0.5, 1e-6, 0.2)
    assert request.resolved_method().name == "mean"
    assert given["release"].title == FULL.title
    assert str(given["release"].ledger) == FULL.ledger


@pytest.mark.parametrize(
    ("unit", "whose", "said"),
    [
        ("example", "folder", "none"),
        ("person", "folder", "folder"),
        ("person", "dicom", "dicom"),
        ("person", "column", "ward"),
        ("person", "file", "ward"),
        ("person", "stored", None),
        ("person", "", ""),
        ("", "", None),
    ],
)
def test_whom_to_protect_is_said_as_the_command_has_it(unit, whose, said):
    chosen = Choices(data="x", unit=unit, whose=whose, whose_name="ward")
    assert chosen.person == said
    assert (chosen.first_missing("who") == "") is (unit != "" and said != "")
    if said:
        assert chosen.check_words()[-2:] == ["--person", said]


def test_nobody_is_protected_by_default_and_what_is_missing_is_named():
    empty = Choices()
    assert {screen: empty.first_missing(screen) for screen in FIELDS} == {
        "data": "data", "who": "unit", "accuracy": "epsilon", "charge": "", "model": ""
    }  # fmt: skip


def test_a_form_takes_the_fields_of_its_screen_alone():
    sent = {"unit": " person ", "whose": "folder", "ledger": "/evil", "out": "/evil", "epsilon": "9"}
    found = Choices().with_form("who", sent)
    assert (found.unit, found.ledger, found.out, found.epsilon) == ("person", "", "", "")
    assert Choices().with_form("accuracy", {"epsilon": "own", "own": "3"}).epsilon == "3"


def test_an_error_is_shown_beside_the_field_that_it_names():
    assert field_of("--epsilon must be positive.", "accuracy") == "epsilon"
    assert field_of("Pass --person folder.", "who") == "whose"
    assert field_of("No file there.", "data") == "data"
    assert field_of("Something else.", "charge") == ""


def test_names_of_accounts_are_plain():
    assert suggested_name("/home/My scans (2).csv") == "My-scans-2"
