import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dptransfer.accounting import delta_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    GaussianEvent,
    Relation,
    SelectionEvent,
    event_from_dict,
    event_to_dict,
    same_relation,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
bad_numbers = [math.nan, math.inf, -1.0, 0.0, 5e-324, "1", True, None]


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


@pytest.mark.parametrize("bad", ["add/remove", None, "ADD_REMOVE"])
def test_the_relation_is_a_relation(bad):
    with pytest.raises(ArgumentError, match="relation must be a Relation"):
        GaussianEvent(1.0, bad)
    with pytest.raises(ArgumentError, match="relation must be a Relation"):
        SelectionEvent(1.0, bad, True, "exponential")


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


@pytest.mark.parametrize("bad", [7, None, b"sums"])
def test_a_label_is_words(bad):
    with pytest.raises(ArgumentError, match="label must be a str"):
        GaussianEvent(1.0, ADD, label=bad)
