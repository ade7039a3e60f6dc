import json

import pytest

from dptransfer import Auto
from dptransfer.errors import ReleaseError
from dptransfer.features import PublicMap, UnitNorm
from dptransfer.methods import METHODS, CoinPressPrototypes, FromNames, NoisyGD, Pace, PrivateTuning
from dptransfer.methods.configuration import UnknownType, method_from_configuration
from dptransfer.methods.method import configuration_of

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
    with pytest.raises(ReleaseError, match="configuration must be that of a method") as refusal:
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
    assert "'Sequence' is not defined" in problem


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
