"""Corners of events and bounds that no ordinary step visits."""

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import delta_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    EACH_ROW,
    BestOfManyEvent,
    Bound,
    Event,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
    event_from_dict,
    event_to_dict,
    same_relation,
)
from dptransfer.privacy.event import KINDS

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

MISSING = object()


def test_numpy_numbers_become_plain_ones():
    event = GaussianEvent(np.float32(2.0), ADD, np.int64(3), numeric_epsilon=np.float64(0.0))
    assert event == GaussianEvent(2.0, ADD, 3.0)
    choice = SelectionEvent(np.float32(0.5), ADD, True, "exponential")
    for each in (event, choice):
        assert event_from_dict(json.loads(json.dumps(event_to_dict(each)))) == each
    assert delta_of([event, choice], np.float32(1.0)) == delta_of([event, choice], 1.0)


def test_one_relation_is_found_and_two_or_none_raise():
    assert same_relation([GaussianEvent(1.0, REPLACE), SelectionEvent(1.0, REPLACE, True, "x")]) is REPLACE
    with pytest.raises(RelationMismatch, match="and replace-one"):
        same_relation([GaussianEvent(1.0, ADD), GaussianEvent(1.0, REPLACE)])
    with pytest.raises(RelationMismatch, match="no events"):
        same_relation([])


NOISE = GaussianEvent(4.0, Relation.ADD_REMOVE)

TUNED = BestOfManyEvent(((NOISE,), (replace(NOISE, noise_multiplier=9.0),)), 3, 1.0)


def test_a_kind_has_a_name_of_its_own():
    with pytest.raises(TypeError, match="taken"):

        @dataclass(frozen=True)
        class Other(Event):
            kind: ClassVar[str] = NOISE.kind

    assert KINDS[NOISE.kind] is GaussianEvent


def test_only_a_choice_among_candidates_has_steps_inside():
    assert NOISE.inner() == NOISE.trials() == ()
    assert TUNED.inner() == TUNED.trials() == TUNED.candidates


@pytest.mark.parametrize("examples", [2.0**-11, 2.0**11, 0.0, float("nan")])
def test_a_bound_has_room_in_integer_sums(examples):
    with pytest.raises(ArgumentError):
        Bound(Unit.PERSON, examples)
    for edge in (2.0**-10, 2.0**10):
        assert Bound(Unit.PERSON, edge).examples == edge


def test_a_row_counts_as_one():
    with pytest.raises(ArgumentError):
        Bound(Unit.ROW, 2.0)
    assert Bound(Unit.ROW, 1.0) == EACH_ROW


checked = settings(max_examples=60, deadline=None, derandomize=True)

numbers = st.floats(1e-6, 1e6)

events = st.one_of(
    st.builds(
        GaussianEvent, numbers, st.sampled_from(Relation), numbers, st.text(), st.floats(0.0, 1.0).map(abs)
    ),
    st.builds(
        SampledGaussianEvent,
        numbers,
        st.floats(1e-6, 1),
        st.integers(1, 10**9),
        st.sampled_from(Relation),
        numbers,
        st.text(),
        numeric_delta=st.sampled_from([0.0, 1e-25]),
    ),
    st.builds(
        GaussianEvent,
        numbers,
        st.sampled_from(Relation),
        times=st.integers(1, 9),
        numeric_delta=st.just(1e-25),
    ),
    st.builds(SelectionEvent, numbers, st.sampled_from(Relation), st.booleans(), st.text(), st.text()),
)


@given(event=st.deferred(lambda: events.filter(lambda e: getattr(e, "numeric_epsilon", 1) not in (5e-324,))))
@checked
def test_an_event_survives_json(event):
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "laplace"},
        {"kind": None},
        {"relation": "neighbours"},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"unknown": 1},
        {"kind": MISSING},
        {"relation": MISSING},
        {"noise_multiplier": MISSING},
    ],
)
def test_a_dictionary_that_says_something_else_is_refused(change):
    fields = event_to_dict(GaussianEvent(2.0, ADD))
    assert event_from_dict(fields)
    changed = {name: value for name, value in {**fields, **change}.items() if value is not MISSING}
    with pytest.raises(ArgumentError):
        event_from_dict(changed)


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


@given(
    inner=st.lists(events, min_size=1, max_size=3),
    mean=st.floats(1, 1e6),
    shape=st.sampled_from([-0.5, 0.0, 1.0, 3.5, math.inf]),
)
@checked
def test_a_tuned_step_survives_json(inner, mean, shape):
    inner = [event for event in inner if event.relation is inner[0].relation]
    tuned = BestOfManyEvent((tuple(inner), (inner[0],)), mean, shape, "clip")
    nested = BestOfManyEvent(((tuned,),), 2, 1.0)
    for event in (tuned, nested):
        text = json.dumps(event_to_dict(event), allow_nan=False)
        assert event_from_dict(json.loads(text)) == event


def test_what_was_written_before_reads_back_and_is_written_the_same():
    """Byte for byte: these lines stand in ledgers and releases of the first version."""
    for text in (
        '{"kind": "gaussian", "noise_multiplier": 4.0, "relation": "add/remove", "sensitivity": 1.5, '
        '"label": "class sums", "numeric_epsilon": 1e-09, "scale": 6.0}',
        '{"kind": "selection", "epsilon": 0.5, "relation": "replace-one", "bounded_range": true, '
        '"mechanism": "exponential", "label": "prototypes"}',
    ):
        assert json.dumps(event_to_dict(event_from_dict(json.loads(text)))) == text
    old = event_from_dict({"kind": "gaussian", "noise_multiplier": 4.0, "relation": "add/remove"})
    assert (old.times, old.numeric_delta) == (1, 0.0)


def test_later_fields_are_written_where_they_say_something():
    fields = event_to_dict(GaussianEvent(4.0, ADD, times=28, numeric_delta=1e-25))
    assert (fields["times"], fields["numeric_delta"]) == (28, 1e-25)
    explicit = {**event_to_dict(GaussianEvent(4.0, ADD)), "times": 1, "numeric_delta": 0.0}
    assert event_from_dict(explicit) == GaussianEvent(4.0, ADD)


def test_a_sampled_step_names_its_rate_times_and_scale():
    fields = event_to_dict(SampledGaussianEvent(2.0, 0.01, 100, REPLACE, sensitivity=3.0))
    assert fields["kind"] == "sampled-gaussian"
    assert (fields["sampling_rate"], fields["times"], fields["scale"]) == (0.01, 100, 6.0)
    with pytest.raises(ArgumentError, match="scale"):
        event_from_dict({**fields, "scale": 3.0})
    for change in ({"sampling_rate": 2.0}, {"times": 0}, {"relation": "x"}, {"surprise": 1}):
        with pytest.raises(ArgumentError):
            event_from_dict({**fields, **change})


def test_a_tuned_step_that_was_tampered_with_is_refused():
    tuned = BestOfManyEvent(((GaussianEvent(2.0, ADD),),), 10, math.inf)
    fields = event_to_dict(tuned)
    assert fields["shape"] == "poisson"
    assert event_from_dict(fields) == tuned
    for change in (
        {"relation": "replace-one"},
        {"shape": math.inf},
        {"shape": "Poisson"},
        {"candidates": 3},
        {"candidates": [[{"kind": "laplace"}]]},
        {"candidates": [[{**fields["candidates"][0][0], "scale": 9.0}]]},
        {"surprise": 1},
    ):
        with pytest.raises(ArgumentError):
            event_from_dict({**fields, **change})


def test_tuned_steps_nested_without_end_are_refused():
    fields = event_to_dict(GaussianEvent(2.0, ADD))
    for _ in range(20):
        fields = {
            "kind": "best-of-many", "candidates": [[fields]], "mean_trials": 2, "shape": 1.0, "label": "",
            "relation": "add/remove",
        }  # fmt: skip
    with pytest.raises(ArgumentError, match="nested too deeply"):
        event_from_dict(fields)
