import math

import pytest

from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    BestOfManyEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    same_relation,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


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
        {"shape": 10**400},
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
    assert [event.numeric_epsilon for event in (noise, sampled, choice, tuned)] == [1e-9, 2e-9, 0.0, 0.0]
    assert [event.numeric_delta for event in (noise, sampled, choice)] == [1e-25, 4e-25, 0.0]
    assert tuned.numeric_delta == pytest.approx(4e-24)  # ten trials of the worst candidate


def test_a_tuned_step_is_said_in_a_few_words_and_in_a_row():
    noise = GaussianEvent(3.0, ADD)
    tuned = BestOfManyEvent(((noise,), (noise, noise)), 21, 1.0)
    assert tuned.words() == "best of about 21 trials (geometric) of 2 candidates"
    assert BestOfManyEvent(((noise,),), 21, 1.0).words().endswith("1 candidate")
    assert tuned.table_row()[1] == "(1) noise multiplier 3; (2) noise multiplier 3 and noise multiplier 3"
    assert BestOfManyEvent(((noise,),) * 9, 4, 1.0).table_row()[1].endswith("; and 4 more")


def test_laws_have_names():
    candidates = ((GaussianEvent(1.0, ADD),),)
    names = [BestOfManyEvent(candidates, 9, shape).law for shape in (0.0, 1.0, math.inf, -0.5)]
    assert names == ["logarithmic", "geometric", "Poisson", "negative binomial, shape -0.5"]
