import json
from dataclasses import replace

import pytest

from dptransfer.accounting import guarantee_of
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Bound, GaussianEvent, Relation, Unit
from dptransfer.privacy.events import DisjointEvent
from dptransfer.release.charged_evaluation import (
    TOO_NOISY,
    ChargedEvaluation,
    joined,
    percent,
    without_holdout,
)

from .models import NOISE, make_model
from .noisy_evaluations import evaluation, event


def test_figures_are_those_of_the_counts():
    found = evaluation(size=20000, accuracy=0.8)
    assert found.accuracy.low < 0.8 < found.accuracy.high
    assert found.balanced_accuracy.low < 0.8 < found.balanced_accuracy.high
    assert [one.low < real < one.high for one, real in zip(found.recall, (0.65, 0.8, 0.95), strict=True)]
    assert all(one.value is not None for one in found.precision)
    assert abs(found.size.count - 20000) < 5 * found.size.variance**0.5
    told = found.figures()
    assert told["accuracy"]["value"] == found.accuracy.value
    assert [one["class"] for one in told["by_class"]] == ["cat", "dog", "eel"]
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_hardly_any_rows_give_words_and_no_nan():
    found = evaluation(size=5)
    assert percent(found.accuracy) == TOO_NOISY
    assert found.balanced_accuracy.value is None
    json.dumps(found.figures(), allow_nan=False)
    assert TOO_NOISY in repr(found)


def test_the_sentence_names_what_is_protected():
    assert evaluation().statement == (
        "The test rows are protected: these numbers are (ε = 0.2, δ = 1e-5)-differentially private with "
        "respect to adding or removing one example."
    )


def test_it_is_told_whose_rows_they_are_and_that_persons_are_averaged():
    alone, held = evaluation(), evaluation(holdout=0.2)
    assert "hold-out" not in alone.whose
    assert "hold-out" in held.whose
    assert "probability 0.2" in held.whose
    step = replace(alone.events[0], unit=Unit.PERSON)
    of_people = replace(
        held,
        counts=replace(held.counts, bound=Bound(Unit.PERSON, 1.0)),
        events=(step,),
        guarantee=replace(held.guarantee, unit=Unit.PERSON),
    )
    assert "one vote" in of_people.whose
    assert "one person, with all their examples" in of_people.statement


def _at(told, **changes):
    return str(replace(told.guarantee, **changes))


@pytest.mark.parametrize("holdout", [None, 0.2])
def test_it_is_read_as_it_was_written_and_nothing_else_is(holdout):
    found = evaluation(holdout=holdout, created="2026", ledger_head="ab")
    told = json.loads(json.dumps(found.to_dict()))
    again = ChargedEvaluation.from_dict(told)
    assert again.to_dict() == told
    assert again.figures() == found.figures()
    for change in (
        {"holdout": 1.5},
        {"seeded": 0},
        {"created": None},
        {"ledger_head": 3},
        {"events": []},
        {"events": told["events"] * 2},
        {"classes": ["cat", "dog"]},
        {"counts": {}},
        {"guarantee": {**told["guarantee"], "relation": "replace-one"}},
        {"guarantee": {**told["guarantee"], "rho": "x"}},
        {"guarantee": {**told["guarantee"], "mu": []}},
        {"guarantee": {**told["guarantee"], "delta": False, "sentence": _at(found, delta=False)}},
        {"guarantee": {**told["guarantee"], "epsilon": 1, "sentence": _at(found, epsilon=1)}},
        {"more": 1},
    ):
        with pytest.raises(ArgumentError, match="exactly the fields"):
            ChargedEvaluation.from_dict({**told, **change})


def test_parts_of_different_evaluations_are_refused():
    found = evaluation()
    with pytest.raises(ArgumentError, match="one unit"):
        replace(found, guarantee=replace(found.guarantee, unit=Unit.PERSON))
    with pytest.raises(ArgumentError, match="one list of classes"):
        replace(found, classes=("a", "b"))


def test_a_fit_and_its_check_are_parts_under_either_relation():
    check = event(3)
    (both,) = joined((NOISE,), (check,), 0.2)
    assert isinstance(both, DisjointEvent)
    assert both.parts == ((NOISE,), (check,))
    assert guarantee_of((both,), 1e-5).epsilon == guarantee_of((NOISE,), 1e-5).epsilon
    replaced = GaussianEvent(4.0, Relation.REPLACE_ONE), GaussianEvent(9.0, Relation.REPLACE_ONE)
    (both,) = joined(replaced[:1], replaced[1:], 0.2)
    assert both.parts == (replaced[:1], replaced[1:])


def held_out(events):
    found = evaluation(holdout=0.2)
    whole = joined(events, found.events, 0.2)
    return replace(make_model(events=whole), charged=found)


def test_a_model_is_taken_apart_into_its_fit_and_its_check():
    model = held_out((NOISE,))
    own = without_holdout(model)
    assert own.events == (NOISE,)
    assert own.guarantee == make_model().guarantee
    assert without_holdout(own) is own


def test_a_check_that_is_not_among_the_steps_is_noticed():
    model = held_out((NOISE,))
    with pytest.raises(ArgumentError, match="hold-out"):
        without_holdout(replace(model, events=(NOISE,)))
    with pytest.raises(ArgumentError, match="hold-out"):
        without_holdout(replace(model, charged=replace(model.charged, holdout=0.3)))
