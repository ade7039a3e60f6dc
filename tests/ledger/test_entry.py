import json
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError, LedgerTampered
from dptransfer.ledger import DataSet, entry
from dptransfer.ledger.entry import (
    Row,
    entry_fields,
    event_fields,
    first_break,
    head_of,
    link,
    read_entries,
    require_readable,
    seal_tail,
)
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
)

from .samples import ADD, GAUSS, Content

CLINIC = DataSet("3fa9" * 16, "clinic-a")

STEP = GaussianEvent(4.0, ADD)


def body(kind, dataset=CLINIC, **fields):
    return json.dumps(entry_fields(kind, dataset, **fields), sort_keys=True, separators=(",", ":"))


def charge(*events, label="fit"):
    return body("charge", label=label, events=event_fields(events))


def closing(number, dataset=CLINIC, detail=""):
    return body("closing", dataset, charge=number, outcome="failed", detail=detail)


def entries(*bodies):
    found = read_entries(Row(number, text, "00" * 32) for number, text in enumerate(bodies, start=1))
    require_readable(found)
    return found


CHARGE = charge(STEP)

CLOSING = closing(1, detail="out of memory")


def test_what_is_written_reads_back_the_same():
    budget = Budget.zcdp(0.1)
    limit = body("budget", budget=budget.to_dict(), note="because", unit="person", most_rows_per_person=5)
    charged, closed, change = entries(CHARGE, CLOSING, limit)
    assert (charged.events, charged.label, charged.status) == ((STEP,), "fit", "failed")
    assert (closed.charge, closed.detail, closed.dataset) == (1, "out of memory", CLINIC)
    assert (change.budget, change.note, change.number) == (budget, "because", 3)
    assert (change.unit, change.most_rows_per_person) == (Unit.PERSON, 5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"noise_multiplier":4.0', '"noise_multiplier":NaN'),
        ('"noise_multiplier":4.0', '"noise_multiplier":-4.0'),
        ('"noise_multiplier":4.0', '"noise_multiplier":"4.0"'),
        ('"kind":"gaussian",', ""),
        ('"name":"clinic-a"', '"name":7'),
        ('"kind":"charge"', '"kind":"refund"'),
        ('"kind":"charge"', '"kind":"charge","outcome":"released"'),
        ('"events":', '"events":7,"steps":'),
        ('"label":"fit",', ""),
        ('"add/remove"', '"whatever"'),
        ("}", ""),
    ],
)
def test_a_charge_that_cannot_be_right_is_tampering(old, new):
    assert old in CHARGE
    assert len(entries(CHARGE, CHARGE)) == 2
    with pytest.raises(LedgerTampered, match="entry 2 is not"):
        entries(CHARGE, CHARGE.replace(old, new))


@pytest.mark.parametrize("number", [-1, 0, 2, 4, None])
def test_a_closing_entry_must_close_an_open_charge_before_it(number):
    assert len(entries(CHARGE, CLOSING)) == 2
    with pytest.raises(LedgerTampered):
        entries(CHARGE, CHARGE, CLOSING.replace("1,", "2,", 1), closing(number))


def test_a_charge_is_closed_once_and_under_its_own_data_set():
    with pytest.raises(LedgerTampered):
        entries(CHARGE, CLOSING, CLOSING)
    with pytest.raises(LedgerTampered):
        entries(CHARGE, closing(1, DataSet("00" * 32)))


@pytest.mark.parametrize("epsilon", ["NaN", "-1.0", "0", "null"])
def test_a_budget_that_cannot_exist_is_tampering(epsilon):
    change = body("budget", budget=Budget(epsilon=1.5).to_dict(), note="")
    assert entries(change)[0].budget.epsilon == 1.5
    for wrong in (change.replace("1.5", epsilon), change.replace('"note":""', '"note":"","rule":"pld"')):
        with pytest.raises(LedgerTampered):
            entries(wrong)


@pytest.mark.parametrize("events", [["gaussian"], [None], [GAUSS, {"kind": "gaussian"}]])
def test_events_that_are_none_are_refused(ledger, events):
    with pytest.raises(ArgumentError, match="events must"):
        ledger.charge("clinic-a", events, label="fit")
    assert ledger.history() == []


def test_every_kind_of_event_is_kept(ledger):
    sampled = SampledGaussianEvent(1.0, 0.01, 100, ADD, numeric_delta=1e-25)
    tuned = BestOfManyEvent(((sampled, STEP), (STEP,)), 10, math.inf, "clip")
    ledger.charge("clinic-a", [sampled, tuned, GaussianEvent(20.0, ADD, times=28)], label="fit")
    (charge,) = ledger.history()
    assert charge.events == (sampled, tuned, GaussianEvent(20.0, ADD, times=28))
    ledger.verify()


def test_what_follows_is_read_onto_what_was_read_before():
    rows = [Row(number, text, "00" * 32) for number, text in enumerate((CHARGE, CHARGE, CLOSING), start=1)]
    before = read_entries(rows[:2])
    after = read_entries(rows[2:], before)
    assert after == read_entries(rows)
    assert [one.outcome for one in before] == [None, None]  # what was handed out stays as it was
    assert (after[0].outcome, after[0].closed_by, after[1]) == ("failed", 3, before[1])


def test_a_plain_charge_has_these_bytes_and_no_others():
    fields = event_fields([GaussianEvent(4.0, ADD, label="class sums")])
    assert json.dumps(fields, sort_keys=True, separators=(",", ":")) == (
        '[{"kind":"gaussian","label":"class sums","noise_multiplier":4.0,"numeric_epsilon":0.0,'
        '"relation":"add/remove","scale":4.0,"sensitivity":1.0}]'
    )
    assert set(json.loads(CHARGE)) == {*"dataset events kind label name process time user version".split()}


def test_an_event_that_json_would_not_return_unchanged_is_refused(ledger):
    odd = SelectionEvent(0.5, ADD, True, "exponential")
    object.__setattr__(odd, "label", b"bytes")
    with pytest.raises(ArgumentError, match="plain numbers"):
        ledger.charge("clinic-a", [odd], label="fit")
    hidden = BestOfManyEvent(((odd,),), 10, 1.0)
    with pytest.raises(ArgumentError, match="plain numbers"):
        ledger.charge("clinic-a", [hidden], label="fit")
    ledger.charge("clinic-a", [SelectionEvent(np.float64(0.1), ADD, True, "exponential")], label="fit")
    assert ledger.history()[0].events[0].epsilon == 0.1


@pytest.mark.parametrize("text", ["  ", "a\nb", "x" * 201, 7])
def test_names_and_labels_are_short_and_printable(ledger, text):
    with pytest.raises(ArgumentError, match="label"):
        ledger.charge("clinic-a", [GAUSS], label=text)
    nameless = Content("ab" * 32)
    nameless.name = text
    with pytest.raises(ArgumentError, match="name"):
        ledger.charge(nameless, [GAUSS], label="fit")
    assert ledger.history() == []


KEY = b"k" * 32

bodies = st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=6)


def chained(texts, key=KEY):
    rows = []
    for text in texts:
        rows.append(Row(len(rows) + 1, text, link(key, head_of(key, rows), text)))
    return rows, seal_tail(key, len(rows), head_of(key, rows))


@settings(deadline=None, max_examples=20)
@given(bodies)
def test_an_untouched_chain_holds_and_only_under_its_own_key(texts):
    rows, tail = chained(texts)
    assert first_break(KEY, rows, tail) is None
    assert first_break(b"another key", rows, tail) is not None
    assert chained(texts, b"another key")[0][-1].hash != rows[-1].hash


@settings(deadline=None)
@given(bodies, st.data())
def test_every_single_edit_deletion_and_swap_breaks_the_chain(texts, data):
    rows, tail = chained(texts)
    place = data.draw(st.integers(0, len(rows) - 1))
    changed = data.draw(st.text(max_size=20).filter(lambda text: text != rows[place].body))
    edited = [*rows]
    edited[place] = rows[place]._replace(body=changed)
    assert first_break(KEY, edited, tail) is not None
    fewer = [row for row in rows if row.number != place + 1]
    renumbered = [row._replace(number=number) for number, row in enumerate(fewer, start=1)]
    assert first_break(KEY, fewer, tail) is not None
    assert first_break(KEY, renumbered, tail) is not None
    other = data.draw(st.integers(0, len(rows) - 1))
    if other != place:
        swapped = [*rows]
        swapped[place] = rows[place]._replace(body=rows[other].body, hash=rows[other].hash)
        swapped[other] = rows[other]._replace(body=rows[place].body, hash=rows[place].hash)
        assert first_break(KEY, swapped, tail) is not None
    assert first_break(KEY, rows, seal_tail(b"another key", len(rows), rows[-1].hash)) is not None


def test_a_shorter_chain_needs_a_new_seal():
    rows, tail = chained(["a", "b", "c"])
    count, head, seal = tail.split(":")
    assert (count, head) == ("3", rows[-1].hash)
    assert first_break(KEY, rows[:2], f"2:{rows[1].hash}:{seal}") is not None
    assert first_break(KEY, rows[:2], seal_tail(KEY, 2, rows[1].hash)) is None


def test_a_user_without_a_name_is_a_number(monkeypatch):
    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert entry._user.__wrapped__() == f"user {os.geteuid()}"
