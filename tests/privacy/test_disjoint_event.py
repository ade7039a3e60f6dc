import json
from dataclasses import replace

import pytest

from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    BestOfManyEvent,
    DisjointEvent,
    GaussianEvent,
    Relation,
    SelectionEvent,
    Unit,
    event_from_dict,
    event_to_dict,
    for_group,
    in_relation,
    same_relation,
)

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
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
        with pytest.raises(ArgumentError, match="could not be read"):
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
