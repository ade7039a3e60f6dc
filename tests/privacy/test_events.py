import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    BestOfManyEvent,
    DisjointEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
    event_from_dict,
    event_to_dict,
    for_group,
    in_relation,
    same_relation,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

NO_NUMBERS = [math.nan, -1.0, 5e-324, "1", True, None]

REFUSED = {
    "noise_multiplier": [*NO_NUMBERS, math.inf, 0.0],
    "sensitivity": [*NO_NUMBERS, math.inf, 0.0],
    "epsilon": [*NO_NUMBERS, math.inf, 0.0],
    "numeric_epsilon": [*NO_NUMBERS, math.inf],
    "numeric_delta": [*NO_NUMBERS, 1.0, -1e-25],
    "times": [*NO_NUMBERS, math.inf, 0, 1.5],
    "sampling_rate": [*NO_NUMBERS, 0.0, 1.1],
    "bounded_range": ["False", 1, 0, None, np.True_],
    "relation": ["add/remove", None],
    "unit": ["person"],
    "mechanism": [7],
    "label": [7, None, b"sums"],
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_would_void_the_accounting_is_refused(field):
    noise, sampled = GaussianEvent(1.0, ADD, times=3.0), SampledGaussianEvent(1.0, 1, 1, ADD)
    assert (noise.times, sampled.sampling_rate) == (3, 1)
    events = noise, sampled, SelectionEvent(1.0, ADD, True, "exponential")
    for event, bad in product((one for one in events if field in one.__dataclass_fields__), REFUSED[field]):
        with pytest.raises(ArgumentError, match=field):
            replace(event, **{field: bad})


def test_noise_is_said_in_a_few_words_and_in_a_row():
    noise = GaussianEvent(3.73063, ADD)
    assert noise.words() == "noise multiplier 3.7306"
    assert noise.words(3) == "noise multiplier 3.73"
    assert GaussianEvent(20.0, ADD, times=28).words() == "noise multiplier 20, 28 times"
    assert GaussianEvent(20.0, ADD, 2.0, times=28).table_row() == (
        "Gaussian noise, multiplier 20, 28 times",
        "sensitivity 2, scale 40",
    )


def test_samples_are_said_in_a_few_words_and_in_a_row():
    sampled = SampledGaussianEvent(1.1, 0.02, 1, ADD, 2.0)
    assert sampled.words() == "noise multiplier 1.1, 1 sample at rate 0.02"
    assert sampled.table_row() == (
        "Gaussian noise, multiplier 1.1, on 1 Poisson sample at rate 0.02",
        "a row contributes at most 2, scale 2.2",
    )


def test_a_selection_is_said_in_a_few_words_and_in_a_row():
    choice = SelectionEvent(0.5, ADD, True, "exponential")
    assert choice.words() == "epsilon 0.5"
    assert choice.table_row() == ("exponential, ε = 0.5", "bounded range")
    assert SelectionEvent(0.5, ADD, False, "laplace").table_row() == ("laplace, ε = 0.5", "pure ε")


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


FIT = GaussianEvent(4.0, ADD, label="sums", numeric_epsilon=1e-9, numeric_delta=1e-25)

CHOICE = SelectionEvent(0.5, ADD, True, "exponential", label="choice")

CHECK = GaussianEvent(8.0, ADD, label="histogram", numeric_epsilon=3e-9)

APART = DisjointEvent(((FIT, CHOICE), (CHECK,)), label="fit and hold-out")


@pytest.mark.parametrize("parts", [(), ((), ()), FIT, (FIT,), (("steps",),), (FIT, CHECK)])
def test_parts_without_events_are_refused(parts):
    with pytest.raises(ArgumentError, match="parts must"):
        DisjointEvent(parts)


def test_all_steps_share_one_relation_and_one_unit():
    assert (APART.relation, APART.unit) == (ADD, Unit.ROW)
    people = [replace(one, unit=Unit.PERSON) for one in (FIT, CHECK)]
    assert DisjointEvent([[people[0]], [people[1]]]).unit is Unit.PERSON
    for other in (replace(CHECK, relation=REPLACE), people[1]):
        with pytest.raises(RelationMismatch):
            DisjointEvent(((FIT,), (other,)))
        with pytest.raises(RelationMismatch):
            same_relation([APART, other])


def test_under_replace_one_every_step_is_moved_and_parts_stay_apart():
    moved = in_relation(APART, REPLACE)
    assert moved.parts == tuple(tuple(in_relation(one, REPLACE) for one in part) for part in APART.parts)
    assert moved.relation is REPLACE
    assert moved.numeric_epsilon == pytest.approx(6e-9)
    replaced = [replace(one, relation=REPLACE) for one in (FIT, CHECK)]
    assert DisjointEvent(((replaced[0],), (replaced[1],))).relation is REPLACE


def test_a_group_may_be_in_all_parts_and_pays_for_them():
    assert for_group(APART, 3).parts == (tuple(for_group(one, 3) for one in (FIT, CHOICE, CHECK)),)
    assert APART.of_group(1) == APART


def test_the_same_unit_further_away_is_still_in_one_part():
    assert APART.further(2).parts == ((FIT.further(2), CHOICE.further(2)), (CHECK.further(2),))


def test_its_numerics_are_those_of_the_worst_part():
    assert (APART.numeric_epsilon, APART.numeric_delta) == (3e-9, 1e-25)


def test_it_is_written_and_read():
    people = DisjointEvent(((replace(FIT, unit=Unit.PERSON),), ()))
    tuned = BestOfManyEvent(((APART,),), 3, 1.0)
    nested = DisjointEvent(((APART, FIT), (tuned,)))
    for event in (APART, people, tuned, nested, in_relation(APART, REPLACE)):
        assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event
    written = event_to_dict(people)
    assert written["kind"] == "disjoint"
    assert written["unit"] == "person"
    for changed in ({"unit": "row"}, {"relation": "replace-one"}, {"parts": [[], []]}, {"surprise": 1}):
        with pytest.raises(ArgumentError, match="be read"):
            event_from_dict(written | changed)


def test_it_says_what_each_part_has():
    said = "(1) sums: noise multiplier 4 and choice: epsilon 0.5; (2) histogram: noise multiplier 8"
    assert APART.table_row() == ("one of 2 parts", said)
    assert APART.words(3) == "one of 2 parts: (1) noise multiplier 4 and epsilon 0.5; (2) noise multiplier 8"
    assert in_relation(APART, REPLACE).words().startswith("one of 2 parts: (1) noise multiplier 2 and")
    assert for_group(APART, 2).words().startswith("all parts: noise multiplier 2 and")
    assert DisjointEvent(((FIT,), ())).words().endswith("(2) nothing")
    assert APART.inner() == APART.parts
    assert APART.trials() == ()
