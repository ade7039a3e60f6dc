import math

import pytest

from dptransfer.accounting.pure import SelectionGroup
from dptransfer.accounting.steps import Steps
from dptransfer.errors import RelationMismatch
from dptransfer.privacy import BestOfManyEvent, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

ADD = Relation.ADD_REMOVE
NOISE = GaussianEvent(2.0, ADD, times=4, numeric_epsilon=1e-9, numeric_delta=1e-25)
CHOICE = SelectionEvent(0.5, ADD, True, "exponential")
SAMPLED = SampledGaussianEvent(2.0, 0.1, 9, ADD, numeric_epsilon=2e-9, numeric_delta=2e-25)
TUNED = BestOfManyEvent(((NOISE,),), 10.0, 1.0)


def test_events_are_gathered_by_kind():
    steps = Steps.of([NOISE, CHOICE, SAMPLED, CHOICE, NOISE])
    assert steps.mu == pytest.approx(math.sqrt(2))
    assert [group.times for group in steps.groups] == [2]
    assert [group.times for group in steps.sampled] == [9]
    assert steps.whole_mu == pytest.approx(math.hypot(math.sqrt(2), 1.5))
    assert steps.slack == pytest.approx(4e-9)
    assert steps.cut == pytest.approx(4e-25)
    assert steps.by_renyi == ()
    assert steps.sampled_slack == pytest.approx(2e-9)


def test_tuned_steps_stand_apart_and_pay_for_the_cut_tails_of_each_trial():
    steps = Steps.of([CHOICE, TUNED])
    assert [part.event for part in steps.by_renyi] == [TUNED]
    assert [group.times for group in steps.groups] == [1]
    sum_of_both = Steps.of([CHOICE]).divergences() + Steps.of([TUNED]).divergences()
    assert steps.divergences() == pytest.approx(sum_of_both, rel=1e-12)
    assert steps.cut == pytest.approx(1e-24)
    assert not steps.is_pure


def test_what_is_pure_and_what_is_nothing():
    assert Steps.of([]).is_nothing
    assert Steps.of([CHOICE]).is_one_selection
    assert not Steps.of([CHOICE, CHOICE]).is_one_selection
    assert Steps.of([CHOICE, CHOICE]).is_pure
    for event in (NOISE, SAMPLED, TUNED):
        assert not Steps.of([CHOICE, event]).is_pure
        assert not Steps.of([event]).is_nothing


def test_a_quick_bound_is_never_below_the_other():
    for events in ([NOISE], [CHOICE], [SAMPLED], [SAMPLED, CHOICE], [TUNED]):
        steps = Steps.of(events)
        for epsilon in (0.1, 1.0, 4.0):
            assert steps.delta(epsilon) <= steps.delta(epsilon, quick=True)
    many = Steps.of([SampledGaussianEvent(1.0, 0.01, 1000, ADD)])
    assert many.delta(1.5) < 0.9 * many.delta(1.5, quick=True)  # the other is worth its time


def test_what_is_no_event_is_not_accounted_for():
    with pytest.raises(TypeError, match="accounted for; got dict"):
        Steps.of([{"kind": "gaussian"}])


def test_relations_are_not_mixed():
    with pytest.raises(RelationMismatch):
        Steps.of([NOISE, SampledGaussianEvent(2.0, 0.1, 9, Relation.REPLACE_ONE)])


def test_pure_steps_count_the_lattice_and_are_not_pure_with_cut_tails():
    exact = Steps(groups=(SelectionGroup(1.0, False, 1),))
    assert (exact.pure, exact.is_pure) == (1.0, True)
    assert Steps(groups=exact.groups, slack=0.1).pure == 1.1
    cut = Steps(groups=exact.groups, cut=1e-9)
    assert not cut.is_pure
    assert not cut.is_one_selection
    assert cut.delta(1.0) >= (1 + math.e) * 1e-9
