import json
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from dptransfer.accounting import delta_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    BestOfManyEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    event_from_dict,
    event_to_dict,
    numeric_delta_of,
    numeric_epsilon_of,
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


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, math.inf, "3", True, None])
def test_the_number_of_times_is_whole_and_at_least_one(bad):
    assert GaussianEvent(1.0, ADD, times=3.0).times == 3
    with pytest.raises(ArgumentError, match="times"):
        GaussianEvent(1.0, ADD, times=bad)
    with pytest.raises(ArgumentError, match="times"):
        SampledGaussianEvent(1.0, 0.1, bad, ADD)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.1, math.nan, "0.1", True, None, 5e-324])
def test_the_sampling_rate_is_a_chance_above_zero(bad):
    assert SampledGaussianEvent(1.0, 1, 1, ADD).sampling_rate == 1
    with pytest.raises(ArgumentError, match="sampling_rate"):
        SampledGaussianEvent(1.0, bad, 1, ADD)


@pytest.mark.parametrize("bad", [-1e-25, 1.0, math.nan, "0", None])
def test_a_distance_between_laws_is_below_one(bad):
    with pytest.raises(ArgumentError, match="numeric_delta"):
        GaussianEvent(1.0, ADD, numeric_delta=bad)
    with pytest.raises(ArgumentError, match="numeric_delta"):
        SampledGaussianEvent(1.0, 0.1, 1, ADD, numeric_delta=bad)


def test_a_sampled_step_states_its_scale():
    assert SampledGaussianEvent(2.0, 0.1, 5, REPLACE, sensitivity=3.0).scale == 6.0


@pytest.mark.parametrize(
    "bad",
    [
        {"candidates": ()},
        {"candidates": ((),)},
        {"candidates": ((GaussianEvent(1.0, ADD),), ())},
        {"candidates": GaussianEvent(1.0, ADD)},
        {"mean_trials": 0.9},
        {"mean_trials": math.inf},
        {"mean_trials": "10"},
        {"shape": -1.0},
        {"shape": math.nan},
        {"shape": "poisson"},
        {"shape": True},
    ],
)
def test_a_tuned_step_that_makes_no_sense_is_refused(bad):
    good = {"candidates": ((GaussianEvent(1.0, ADD),),), "mean_trials": 10, "shape": 0.0}
    assert BestOfManyEvent(**good).relation is ADD
    with pytest.raises(ArgumentError):
        BestOfManyEvent(**(good | bad))


def test_candidates_share_one_relation():
    with pytest.raises(RelationMismatch):
        BestOfManyEvent(((GaussianEvent(1.0, ADD),), (GaussianEvent(1.0, REPLACE),)), 10, 0.0)
    tuned = BestOfManyEvent([[GaussianEvent(1.0, REPLACE)]], 10, 0.0)
    assert (tuned.relation, tuned.candidates) == (REPLACE, ((GaussianEvent(1.0, REPLACE),),))
    with pytest.raises(RelationMismatch):
        same_relation([tuned, GaussianEvent(1.0, ADD)])


def test_numerics_are_told_of_every_kind():
    noise = GaussianEvent(1.0, ADD, numeric_epsilon=1e-9, numeric_delta=1e-25)
    sampled = SampledGaussianEvent(1.0, 0.1, 5, ADD, numeric_epsilon=2e-9, numeric_delta=4e-25)
    choice = SelectionEvent(1.0, ADD, True, "exponential")
    tuned = BestOfManyEvent(((noise, choice), (sampled,)), 10, 0.0)
    assert [numeric_epsilon_of(event) for event in (noise, sampled, choice, tuned)] == [1e-9, 2e-9, 0.0, 0.0]
    assert [numeric_delta_of(event) for event in (noise, sampled, choice)] == [1e-25, 4e-25, 0.0]
    assert numeric_delta_of(tuned) == pytest.approx(4e-24)  # ten trials of the worst candidate
