import math

import pytest

from dptransfer.errors import ArgumentError
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


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
