import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import delta_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    GaussianEvent,
    Relation,
    SelectionEvent,
    event_from_dict,
    event_to_dict,
    in_relation,
    same_relation,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
checked = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.floats(1e-6, 1e6)
events = st.one_of(
    st.builds(
        GaussianEvent, numbers, st.sampled_from(Relation), numbers, st.text(), st.floats(0.0, 1.0).map(abs)
    ),
    st.builds(SelectionEvent, numbers, st.sampled_from(Relation), st.booleans(), st.text(), st.text()),
)
bad_numbers = [math.nan, math.inf, -1.0, 0.0, 5e-324, "1", True, None]


@given(event=st.deferred(lambda: events.filter(lambda e: getattr(e, "numeric_epsilon", 1) not in (5e-324,))))
@checked
def test_an_event_survives_json(event):
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_the_dictionary_names_kind_relation_and_scale():
    fields = event_to_dict(GaussianEvent(2.0, ADD, 3.0, "class sums"))
    assert fields["kind"] == "gaussian"
    assert fields["relation"] == "add/remove"
    assert fields["scale"] == 6.0
    assert "scale" not in event_to_dict(SelectionEvent(1.0, ADD, True, "exponential"))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "laplace"},
        {"kind": None},
        {"relation": "neighbours"},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"unknown": 1},
    ],
)
def test_a_dictionary_that_says_something_else_is_refused(change):
    fields = event_to_dict(GaussianEvent(2.0, ADD))
    assert event_from_dict(fields)
    with pytest.raises(ArgumentError):
        event_from_dict({**fields, **change})


@pytest.mark.parametrize("missing", ["kind", "relation", "noise_multiplier"])
def test_a_dictionary_with_a_missing_field_is_refused(missing):
    fields = event_to_dict(GaussianEvent(2.0, ADD))
    del fields[missing]
    with pytest.raises(ArgumentError):
        event_from_dict(fields)


@pytest.mark.parametrize("bad", bad_numbers)
def test_numbers_that_would_void_the_accounting_are_refused(bad):
    for make in (
        lambda: GaussianEvent(bad, ADD),
        lambda: GaussianEvent(1.0, ADD, sensitivity=bad),
        lambda: SelectionEvent(bad, ADD, True, "exponential"),
    ):
        with pytest.raises(ArgumentError):
            make()
    if bad != 0.0 or isinstance(bad, bool):
        with pytest.raises(ArgumentError):
            GaussianEvent(1.0, ADD, numeric_epsilon=bad)


@pytest.mark.parametrize("bad", ["False", 1, 0, None, np.True_])
def test_bounded_range_is_true_or_false_and_nothing_like_it(bad):
    with pytest.raises(ArgumentError, match="bounded_range"):
        SelectionEvent(1.0, ADD, bad, "exponential")


@pytest.mark.parametrize("bad", ["add/remove", None, "ADD_REMOVE"])
def test_the_relation_is_a_relation(bad):
    with pytest.raises(ArgumentError, match="relation must be a Relation"):
        GaussianEvent(1.0, bad)
    with pytest.raises(ArgumentError, match="relation must be a Relation"):
        SelectionEvent(1.0, bad, True, "exponential")


@pytest.mark.parametrize("scale", [6.00001, 3.0, -6.0, math.nan, "6.0", True])
def test_a_stored_scale_that_contradicts_the_rest_is_refused(scale):
    fields = event_to_dict(GaussianEvent(2.0, ADD, 3.0))
    with pytest.raises(ArgumentError, match="scale"):
        event_from_dict({**fields, "scale": scale})


def test_a_stored_scale_may_differ_by_rounding_or_be_left_out():
    event = GaussianEvent(2.0, ADD, 3.0)
    fields = event_to_dict(event)
    assert event_from_dict({**fields, "scale": 6.000000001}) == event
    del fields["scale"]
    assert event_from_dict(fields) == event
    with pytest.raises(ArgumentError, match="scale"):  # a selection has none
        event_from_dict({**event_to_dict(SelectionEvent(1.0, ADD, True, "exponential")), "scale": 1.0})


def test_numpy_numbers_become_plain_ones():
    event = GaussianEvent(np.float32(2.0), ADD, np.int64(3), numeric_epsilon=np.float64(0.0))
    assert event == GaussianEvent(2.0, ADD, 3.0)
    choice = SelectionEvent(np.float32(0.5), ADD, True, "exponential")
    for each in (event, choice):
        assert event_from_dict(json.loads(json.dumps(event_to_dict(each)))) == each
    assert delta_of([event, choice], np.float32(1.0)) == delta_of([event, choice], 1.0)


def test_an_event_cannot_be_changed():
    event = GaussianEvent(1.0, ADD)
    with pytest.raises(FrozenInstanceError):
        event.noise_multiplier = 2.0


def test_one_relation_is_found_and_two_or_none_raise():
    assert same_relation([GaussianEvent(1.0, REPLACE), SelectionEvent(1.0, REPLACE, True, "x")]) is REPLACE
    with pytest.raises(RelationMismatch, match=r"add/remove and replace-one"):
        same_relation([GaussianEvent(1.0, ADD), GaussianEvent(1.0, REPLACE)])
    with pytest.raises(RelationMismatch, match="no events at all"):
        same_relation([])


def test_replace_one_doubles_the_distance_and_keeps_the_noise():
    event = GaussianEvent(4.0, ADD, sensitivity=1.5, label="sums", numeric_epsilon=1e-9)
    moved = in_relation(event, REPLACE)
    assert moved == GaussianEvent(2.0, REPLACE, sensitivity=3.0, label="sums", numeric_epsilon=2e-9)
    assert moved.scale == event.scale
    choice = in_relation(SelectionEvent(0.5, ADD, True, "exponential"), REPLACE)
    assert choice == SelectionEvent(1.0, REPLACE, True, "exponential")
    assert in_relation(event, ADD) is event


def test_there_is_no_way_back_from_replace_one():
    for event in (GaussianEvent(1.0, REPLACE), SelectionEvent(1.0, REPLACE, True, "x")):
        with pytest.raises(RelationMismatch, match="does not imply"):
            in_relation(event, ADD)


def test_the_converted_noise_covers_removing_one_example_and_adding_another():
    x = np.linspace(-40, 40, 400_001)
    one, other = np.exp(-((x + 1) ** 2) / 18), np.exp(-((x - 1) ** 2) / 18)  # answers −1 and +1, noise 3
    delta = np.maximum(one - math.exp(0.5) * other, 0).sum() / one.sum()
    moved = in_relation(GaussianEvent(3.0, ADD), REPLACE)
    assert delta == pytest.approx(delta_of([moved], 0.5), rel=1e-4)
    assert delta > 2 * delta_of([GaussianEvent(3.0, REPLACE)], 0.5)  # relabelling alone would be wrong
