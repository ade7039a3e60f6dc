import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.accounting import delta_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy import (
    BestOfManyEvent,
    Bound,
    DisjointEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
    for_group,
    for_people,
    for_rows,
    in_relation,
)
from dptransfer.queries import ClassSums
from queries.neighbours import CLASSES, MAPS

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


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


def test_times_and_cut_tails_do_not_depend_on_the_relation():
    event = GaussianEvent(4.0, ADD, times=28, numeric_delta=1e-25)
    assert in_relation(event, REPLACE) == GaussianEvent(2.0, REPLACE, 2.0, times=28, numeric_delta=1e-25)


def test_a_sampled_step_keeps_its_numbers_and_costs_more():
    event = SampledGaussianEvent(2.0, 0.1, 50, ADD, 1.5, numeric_epsilon=1e-9, numeric_delta=1e-25)
    moved = in_relation(event, REPLACE)
    assert moved == SampledGaussianEvent(
        2.0, 0.1, 50, REPLACE, 1.5, numeric_epsilon=2e-9, numeric_delta=1e-25
    )
    assert delta_of([moved], 1.0) > 2 * delta_of([event], 1.0)
    # Removing one and adding another, as two steps: the price of the pair is below that.
    for epsilon in (0.5, 1.0, 2.0):
        half = delta_of([event], epsilon / 2)
        assert delta_of([moved], epsilon) <= (1 + math.exp(epsilon / 2)) * half
    with pytest.raises(RelationMismatch, match="does not imply"):
        in_relation(moved, ADD)


def test_every_candidate_of_a_tuned_step_is_restated():
    inner = GaussianEvent(4.0, ADD), SelectionEvent(0.5, ADD, True, "exponential")
    tuned = BestOfManyEvent((inner, (inner[0],)), 10, 0.0, "clip")
    moved = in_relation(tuned, REPLACE)
    assert moved.relation is REPLACE
    assert moved.candidates[0] == tuple(in_relation(event, REPLACE) for event in inner)
    assert (moved.mean_trials, moved.shape, moved.label) == (10, 0.0, "clip")
    with pytest.raises(RelationMismatch, match="does not imply"):
        in_relation(moved, ADD)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_group_is_so_many_times_as_far_away(size):
    noise = for_group(GaussianEvent(4.0, ADD, times=3, numeric_epsilon=1e-9), size)
    assert noise == GaussianEvent(4.0 / size, ADD, size, numeric_epsilon=size**2 * 1e-9, times=3)
    choice = for_group(SelectionEvent(0.5, REPLACE, True, "exponential"), size)
    assert choice.epsilon == 0.5 * size
    tuned = BestOfManyEvent(((GaussianEvent(4.0, ADD),),), 10, 0.0)
    assert for_group(tuned, size).candidates == ((for_group(GaussianEvent(4.0, ADD), size),),)
    with pytest.raises(ArgumentError):
        for_group(choice, 0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_sampled_group_costs_no_less_than_the_sum_over_who_is_in_the_sample(epsilon):
    z, q = 2.0, 0.3
    t = np.linspace(-30, 40, 200_001)

    def law(shift):
        return np.exp(-((t - shift) ** 2) / (2 * z * z)) / (z * math.sqrt(2 * math.pi)) * (t[1] - t[0])

    both = (1 - q) ** 2 * law(0) + 2 * q * (1 - q) * law(1) + q * q * law(2)
    exact = max(
        float(np.maximum(p - math.exp(epsilon) * other, 0).sum())
        for p, other in ((both, law(0)), (law(0), both))
    )
    group = for_group(SampledGaussianEvent(z, q, 1, ADD), 2)
    assert group.sampling_rate == pytest.approx(1 - (1 - q) ** 2)
    assert exact <= delta_of([group], epsilon)
    assert delta_of([SampledGaussianEvent(z, q, 1, ADD)], epsilon) < exact
    assert for_group(SampledGaussianEvent(z, 1.0, 1, ADD), 3).sampling_rate == 1.0


PERSON_STEPS = [
    GaussianEvent(8.0, ADD, 1.5, "sums", numeric_epsilon=1e-9, times=3, unit=Unit.PERSON),
    SelectionEvent(0.5, ADD, True, "exponential", unit=Unit.PERSON),
]


@pytest.mark.parametrize(
    ("own", "wanted", "changes"), [(ADD, ADD, 2), (ADD, REPLACE, 4), (REPLACE, ADD, 1), (REPLACE, REPLACE, 2)]
)
def test_persons_are_restated_for_rows_by_counting_changes(own, wanted, changes):
    noise, choice = (replace(one, relation=own) for one in PERSON_STEPS)
    moved = for_rows(noise, wanted)
    assert moved == GaussianEvent(
        8.0 / changes, wanted, 1.5 * changes, "sums", numeric_epsilon=changes**2 * 1e-9, times=3
    )
    assert for_rows(choice, wanted) == SelectionEvent(0.5 * changes, wanted, True, "exponential")
    tuned = BestOfManyEvent(((noise, choice),), 3, 1.0)
    assert for_rows(tuned, wanted).candidates == ((moved, for_rows(choice, wanted)),)
    assert for_rows(tuned, wanted).unit is Unit.ROW


def test_rows_are_restated_for_rows_by_the_relation_alone():
    event = GaussianEvent(4.0, ADD)
    assert for_rows(event, ADD) is event
    assert for_rows(event, REPLACE) == in_relation(event, REPLACE)
    with pytest.raises(RelationMismatch, match="does not imply"):
        for_rows(GaussianEvent(4.0, REPLACE), ADD)


@pytest.mark.parametrize("own", [ADD, REPLACE])
@pytest.mark.parametrize("wanted", [ADD, REPLACE])
def test_samples_of_persons_are_not_restated_for_rows(own, wanted):
    sampled = SampledGaussianEvent(2.0, 0.1, 5, own, unit=Unit.PERSON)
    for event in (sampled, BestOfManyEvent(((sampled,),), 3, 1.0), DisjointEvent(((sampled,),))):
        with pytest.raises(RelationMismatch, match="by person"):
            for_rows(event, wanted)


def test_rows_are_persons_only_by_a_declared_bound():
    noise, sampled = GaussianEvent(8.0, ADD), SampledGaussianEvent(2.0, 0.1, 5, ADD)
    for event in (noise, sampled, BestOfManyEvent(((noise, sampled),), 3, 1.0)):
        with pytest.raises(RelationMismatch, match="declared bound"):
            for_people(event, ADD)
        group = for_people(event, ADD, 5)
        assert (group.unit, group.relation) == (Unit.PERSON, ADD)
        assert for_people(event, REPLACE, 5) == in_relation(group, REPLACE)
        assert for_people(group, ADD) is group
    assert for_people(noise, ADD, 5) == replace(for_group(noise, 5), unit=Unit.PERSON)
    assert for_people(sampled, ADD, 5) == replace(for_group(sampled, 5), unit=Unit.PERSON)
    assert for_people(noise, ADD, 1) == replace(noise, unit=Unit.PERSON)
    with pytest.raises(ArgumentError, match="most_rows"):
        for_people(noise, ADD, 0)
    with pytest.raises(RelationMismatch, match="Replaced rows"):
        for_people(GaussianEvent(8.0, REPLACE), REPLACE, 5)


def test_rows_and_persons_of_disjoint_parts():
    first, second = (GaussianEvent(z, ADD, unit=Unit.PERSON) for z in (4.0, 8.0))
    apart = DisjointEvent(((first,), (second,)))
    assert for_rows(apart, ADD).parts == ((for_rows(first, ADD),), (for_rows(second, ADD),))
    # The row goes from a person in one part to a person in the other.
    assert for_rows(apart, REPLACE).parts == ((for_rows(first, REPLACE), for_rows(second, REPLACE)),)
    rows = DisjointEvent(((GaussianEvent(4.0, ADD),), (GaussianEvent(8.0, ADD),)))
    assert for_people(rows, ADD, 1) == apart
    assert len(for_people(rows, ADD, 2).parts) == 1  # one row of the person here, one there


# --- by brute force, on sums of real rows ---

HALF = ClassSums(MAPS["unit norm"], CLASSES, bound=Bound(Unit.PERSON, 0.5))
# Two rows whose sum is half a row to the left: with one more to the right it is half a row to the right.
LEFT_BY_HALF = [[-0.25, math.sqrt(15) / 4, 0.0], [-0.25, -math.sqrt(15) / 4, 0.0]]
RIGHT, LEFT = [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]
RIGHT_BY_HALF = [[-one for one in row] for row in LEFT_BY_HALF]


def distance(*data):
    """Between the answers about two data sets of (row, person), all of one class, in examples."""
    answers = [
        HALF(np.array([row for row, _ in own]), np.zeros(len(own), np.int64), np.array([p for _, p in own]))
        for own in data
    ]
    return float(np.linalg.norm((answers[0] - answers[1]).astype(float))) / HALF.grid


def test_one_row_more_reaches_twice_what_a_person_moves():
    event = GaussianEvent(3.0, ADD, HALF.l2_sensitivity(ADD), unit=Unit.PERSON)
    others = [(row, 0) for row in LEFT_BY_HALF]
    reached = distance(others, [*others, (RIGHT, 0)])
    assert 0.99 * for_rows(event, ADD).sensitivity <= reached <= for_rows(event, ADD).sensitivity
    assert reached > 1.9 * event.sensitivity  # the same numbers, said of rows, would be false
    replaced = GaussianEvent(3.0, REPLACE, HALF.l2_sensitivity(REPLACE), unit=Unit.PERSON)
    assert 0.99 * for_rows(replaced, ADD).sensitivity <= reached <= for_rows(replaced, ADD).sensitivity


def test_a_row_that_changes_hands_reaches_four_times_what_a_person_moves():
    people = [*((row, 0) for row in LEFT_BY_HALF), *((row, 1) for row in RIGHT_BY_HALF)]
    reached = distance([*people, (RIGHT, 0)], [*people, (LEFT, 1)])
    for own in Relation:
        event = GaussianEvent(3.0, own, HALF.l2_sensitivity(own), unit=Unit.PERSON)
        assert 0.99 * for_rows(event, REPLACE).sensitivity <= reached <= for_rows(event, REPLACE).sensitivity
        assert reached > 1.9 * event.sensitivity


@steady
@given(data=st.integers(0, 2**32 - 1))
def test_no_row_moves_more_than_is_restated(data):
    generator = np.random.default_rng(data)
    people = generator.integers(0, 3, int(generator.integers(1, 12)))
    rows = [(list(generator.normal(size=3)), int(person)) for person in people]
    new, other = ((list(generator.normal(size=3)), int(generator.integers(0, 4))) for _ in range(2))
    event = GaussianEvent(3.0, ADD, HALF.l2_sensitivity(ADD), unit=Unit.PERSON)
    assert distance(rows, [*rows, new]) <= for_rows(event, ADD).sensitivity
    assert distance([*rows, other], [*rows, new]) <= for_rows(event, REPLACE).sensitivity
