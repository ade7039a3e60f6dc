"""Configurations in words: what differs, and nothing else."""

from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import FromShots, FromZero, MeanPrototypes, NoisyGD, Pace
from dptransfer.methods.tuning import configuration_in_words, tuned_settings

GRID = [
    NoisyGD(features=PublicMap(axes=axes), steps=steps, clip=0.5) for steps in (10, 30) for axes in (64, 128)
]


def test_what_all_have_in_common_is_left_out():
    said = tuned_settings(GRID)
    assert said == "'noisy-gd' with features.axes 64 or 128 and steps 10 or 30"
    assert [configuration_in_words(one, GRID) for one in GRID[:2]] == [
        "'noisy-gd' with features.axes 64 and steps 10",
        "'noisy-gd' with features.axes 128 and steps 10",
    ]


def test_parts_are_told_by_their_type_and_their_own_settings():
    starts = [NoisyGD(start=FromZero()), NoisyGD(start=FromShots(strength=0.5))]
    assert configuration_in_words(starts[0], starts) == "'noisy-gd' with start FromZero"
    assert configuration_in_words(starts[1], starts) == (
        "'noisy-gd' with start FromShots and start.strength 0.5"
    )
    paces = [NoisyGD(pace=Pace(reach=reach)) for reach in (5.0, 10.0)]
    assert tuned_settings(paces) == "'noisy-gd' with pace.reach 5.0 or 10.0"


def test_methods_are_compared_with_those_of_their_name():
    mixed = [MeanPrototypes(), *GRID[:2], MeanPrototypes(features=UnitNorm(pool=2))]
    assert (
        tuned_settings(mixed) == "'mean' with features.pool 1 or 2, 'noisy-gd' with features.axes 64 or 128"
    )
    assert tuned_settings([MeanPrototypes(), GRID[0]]) == "'mean', 'noisy-gd'"
    assert configuration_in_words(GRID[0], [MeanPrototypes(), GRID[0]]) == "'noisy-gd'"


def test_a_long_list_is_cut():
    said = tuned_settings([NoisyGD(steps=steps) for steps in range(1, 21)])
    assert said == "'noisy-gd' with steps 1, 2, 3, 4, 5 or 15 others"
