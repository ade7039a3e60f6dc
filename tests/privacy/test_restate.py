import math

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
    for_group,
    in_relation,
)

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
