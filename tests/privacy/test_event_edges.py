"""Corners of events and bounds that no ordinary step visits."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from dptransfer.errors import ArgumentError
from dptransfer.privacy import EACH_ROW, BestOfManyEvent, Bound, Event, GaussianEvent, Relation, Unit
from dptransfer.privacy.event import KINDS

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


def test_every_step_of_every_trial_is_restated():
    half = tuple(tuple(replace(one, noise_multiplier=one.noise_multiplier / 2) for one in trial) for trial in
                 TUNED.candidates)  # fmt: skip
    restated = [
        [(one.noise_multiplier, one.sensitivity) for trial in event.candidates for one in trial]
        for event in (TUNED.further(2.0), replace(TUNED, candidates=half))
    ]
    assert [noise for noise, _ in restated[0]] == [noise for noise, _ in restated[1]]
    assert all(one.unit is Unit.PERSON for trial in TUNED.for_people(1).candidates for one in trial)


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
