"""Methods by name and settings, and from the configuration that a release recorded."""

import json

import pytest

from dptransfer import Auto
from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.exact.public_map import PublicMap
from dptransfer.features import UnitNorm
from dptransfer.methods import (
    METHODS,
    CoinPressPrototypes,
    FromNames,
    FromShots,
    FromZero,
    NoisyGD,
    Pace,
    PrivateTuning,
    TopKPrototypes,
)
from dptransfer.methods.configuration import UnknownType, as_method, method_from_configuration, named_method
from dptransfer.methods.method import configuration_of


def test_values_may_be_typed_or_text():
    assert named_method("top-k", {"k": 5}) == named_method("top-k", {"k": "5"}) == TopKPrototypes(k=5)
    assert named_method("mean", {"features.axes": 8}).features == PublicMap(axes=8)


def test_what_is_wrong_is_named():
    with pytest.raises(ArgumentError, match="mean 'top-k'"):
        named_method("top_k", {})
    with pytest.raises(ArgumentError, match="type int"):
        named_method("top-k", {"k": "many"})
    with pytest.raises(ArgumentError, match="no 'kk'"):
        named_method("mean", {"kk": 1})


def test_a_method_is_a_name_or_an_object_and_its_class_is_neither():
    assert as_method("top-k") == as_method(TopKPrototypes()) == TopKPrototypes()
    with pytest.raises(ArgumentError, match="its class"):
        as_method(TopKPrototypes)


def test_alternatives_are_chosen_by_their_word():
    assert named_method("noisy-gd", {"start": "shots"}) == NoisyGD(start=FromShots())
    assert named_method("adamix", {"start": "zero"}).start == FromZero()
    assert named_method("noisy-gd", {"start": FromShots(strength=2.0)}).start == FromShots(strength=2.0)


def test_settings_of_a_part_are_reached_with_a_dot_in_any_order():
    given = {"start.strength": "0.5", "start": "shots", "pace.reach": "7", "pace.radius": 9}
    made = named_method("noisy-gd", given)
    assert made == NoisyGD(start=FromShots(strength=0.5), pace=Pace(reach=7.0, radius=9.0))
    assert named_method("language", {"start.tower": "folder"}).start == FromNames(tower="folder")


def test_a_part_may_be_given_whole():
    given = {"start": {"kind": "names", "tower": "folder"}, "pace": {"reach": 7}}
    made = named_method("noisy-gd", given)
    assert (made.start, made.pace.reach) == (FromNames(tower="folder"), 7.0)


def test_a_setting_that_one_alternative_has_chooses_it():
    assert named_method("noisy-gd", {"start.tower": "folder"}).start == FromNames(tower="folder")
    assert named_method("noisy-gd", {"start.strength": 3}).start == FromShots(strength=3.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"start": "shot"}, "mean 'shots'"),
        ({"start": "zero", "start.tower": "x"}, "no 'tower'"),
        ({"start.strength": "weak"}, "type float"),
        ({"start.strength": -1}, "strength must be"),
        ({"pace": "fast"}, "noise, lengths"),
        ({"pace": "lengths", "pace.rech": 1}, "mean 'reach'"),
        ({"steps.more": 1}, "plain value"),
        ({"k": 1}, "pace.logit_noise.*start.tower"),
    ],
)
def test_what_is_wrong_with_a_part_is_named(given, said):
    with pytest.raises(ArgumentError, match=said):
        named_method("noisy-gd", given)


OTHERS = (
    NoisyGD(features=PublicMap(axes=7, whitening=0.1), steps=3, start=FromNames("tower", "{}!", 3.0)),
    NoisyGD(features=UnitNorm(pool=4), pace=Pace(reach=2.0, weight_decay=0.5, radius=9.0)),
    CoinPressPrototypes(shares=(0.25, 0.75)),
    Auto(candidates=(NoisyGD(), CoinPressPrototypes())),
    PrivateTuning(candidates=(NoisyGD(steps=10), NoisyGD(steps=30)), shape=1.0),
)


@pytest.mark.parametrize(
    "method", [*(one() for one in METHODS.values()), *OTHERS], ids=lambda method: method.name
)
def test_what_a_release_records_gives_the_method_back(method):
    written = json.loads(json.dumps(configuration_of(method)))
    again = method_from_configuration(written)
    assert again == method
    assert type(again) is type(method)
    assert json.loads(json.dumps(configuration_of(again))) == written


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "Popen"}, "'Popen'"),
        ({"type": "os.system"}, "os.system"),
        ({"type": ["NoisyGD"]}, "type"),
        ({"type": None}, "None"),
        ({"surprise": 1}, "surprise"),
        ({"clip": -1.0}, "clip"),
        ({"steps": "many"}, "steps"),
        ({"features": {"type": "UnitNorm"}}, "pool"),
        ({"features": {"pool": 1}}, "None"),
        ({"pace": {"type": "Pace", "reach": 1.0, "weight_decay": 0.0, "radius": 1.0, "more": 1}}, "more"),
    ],
)
def test_a_type_or_a_setting_that_is_not_ours_is_refused(change, said):
    with pytest.raises(ReleaseError, match="of a method") as refusal:
        method_from_configuration({**configuration_of(NoisyGD()), **change})
    assert said in str(refusal.value)


def test_a_missing_setting_is_refused_rather_than_guessed():
    settings = configuration_of(NoisyGD())
    del settings["clip"]
    with pytest.raises(ReleaseError, match="clip"):
        method_from_configuration(settings)


def test_a_part_is_no_method():
    with pytest.raises(ReleaseError, match="UnitNorm"):
        method_from_configuration(configuration_of(UnitNorm()))


def test_a_configuration_that_is_nested_without_end_is_refused():
    nested = configuration_of(NoisyGD())
    for _ in range(5000):
        nested = {"type": "Auto", "candidates": [nested]}
    with pytest.raises(ReleaseError):
        method_from_configuration(nested)


LAZY = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dptransfer import methods

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Lazy(methods.MeanPrototypes):
    numbers: Sequence[int] = ()
    name: ClassVar[str] = "lazy"
"""


def test_a_package_whose_types_cannot_be_read_breaks_no_other_methods_configuration(install):
    install("lazy", {"lazy": LAZY}, {"dptransfer.methods": {"lazy": "lazy:Lazy"}})
    assert method_from_configuration(configuration_of(NoisyGD())) == NoisyGD()
    (problem,) = METHODS.problems
    assert "'Sequence'" in problem


THEIRS = """
from dataclasses import dataclass, field
from typing import ClassVar

from dptransfer import methods


@dataclass(frozen=True)
class Speed:
    size: int = 3


@dataclass(frozen=True)
class MeanPrototypes(methods.MeanPrototypes):
    name: ClassVar[str] = "imposter"


@dataclass(frozen=True)
class Pace(methods.MeanPrototypes):
    name: ClassVar[str] = "part"


@dataclass(frozen=True)
class Theirs(methods.MeanPrototypes):
    speed: Speed = field(default_factory=Speed)
    name: ClassVar[str] = "theirs"
"""


def test_methods_of_installed_packages_are_known_with_their_parts_and_cannot_pass_for_ours(install):
    places = {"imposter": "theirs:MeanPrototypes", "part": "theirs:Pace", "theirs": "theirs:Theirs"}
    uninstall = install("theirs", {"theirs": THEIRS}, {"dptransfer.methods": places})
    method = METHODS["theirs"]()
    written = json.loads(json.dumps(configuration_of(method)))
    assert written["speed"] == {"type": "Speed", "size": 3}
    assert method_from_configuration(written) == method
    assert METHODS["imposter"].name == "imposter"
    ours = method_from_configuration(configuration_of(METHODS["mean"]()))
    assert type(ours) is METHODS["mean"]
    assert METHODS["part"].__name__ == "Pace"
    assert method_from_configuration(configuration_of(NoisyGD())) == NoisyGD()  # with the library's own part
    uninstall()
    with pytest.raises(UnknownType, match="'Speed'"):
        method_from_configuration(written)
