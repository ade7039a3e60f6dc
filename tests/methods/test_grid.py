"""Every combination of listed settings."""

import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods import MeanPrototypes, NoisyGD
from dptransfer.methods.tuning import every_combination


def gradient(settings):
    return NoisyGD(**settings)


def test_every_combination_comes_with_its_settings():
    found = every_combination(gradient, {"steps": (2, 5), "clip": [0.5, 1.0]})
    assert [list(settings.values()) for settings, _ in found] == [[2, 0.5], [2, 1.0], [5, 0.5], [5, 1.0]]
    assert all(method == NoisyGD(**settings) for settings, method in found)


@pytest.mark.parametrize(
    ("make", "lists", "said"),
    [
        (gradient, {"steps": [2, 0]}, "^--tune steps=0: steps must be"),
        (gradient, {"steps": [2, 2]}, "two of these are the same"),
        (lambda settings: MeanPrototypes(), {"steps": [2, 5]}, "two of these are the same"),
        (gradient, {"steps": [2]}, "two configurations at least"),
        (gradient, {}, "two configurations at least"),
        (gradient, {"steps": []}, "'steps' has \\[\\]"),
        (gradient, {"steps": "25"}, "'steps' has '25'"),
        (gradient, {"steps": range(1, 12), "clip": [one / 10 for one in range(1, 11)]}, "at most 100"),
    ],
)
def test_what_is_no_choice_is_refused(make, lists, said):
    with pytest.raises(ArgumentError, match=said):
        every_combination(make, lists, option="--tune ")
