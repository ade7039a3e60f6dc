from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import METHODS, FromNames, FromShots, FromZero, NoisyGD, Pace, TopKPrototypes
from dptransfer.methods.configuration import as_method, named_method


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_can_be_named(name):
    assert named_method(name, {}).name == name


def test_values_may_be_typed_or_text():
    assert named_method("top-k", {"k": 5}) == named_method("top-k", {"k": "5"}) == TopKPrototypes(k=5)
    assert named_method("mean", {"features.axes": 8}).features == PublicMap(axes=8)


def test_what_is_wrong_is_named():
    with pytest.raises(ArgumentError, match="Did you mean 'top-k'"):
        named_method("top_k", {})
    with pytest.raises(ArgumentError, match="must be of the type int"):
        named_method("top-k", {"k": "many"})
    with pytest.raises(ArgumentError, match="'mean' has no 'kk'"):
        named_method("mean", {"kk": 1})


def test_a_method_is_a_name_or_an_object_and_its_class_is_neither():
    assert as_method("top-k") == as_method(TopKPrototypes()) == TopKPrototypes()
    with pytest.raises(ArgumentError, match=r"got its class. Pass TopKPrototypes\(\)."):
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
        ({"start": "shot"}, "'start' must be one of zero, shots, names; got 'shot'. Did you mean 'shots'"),
        ({"start": "zzz"}, "must be one of zero, shots, names; got 'zzz'. Choose one of these"),
        ({"start": "zero", "start.tower": "x"}, "'start=zero' has no 'tower'. It has no settings"),
        ({"start": "names", "start.strength": 1}, "'start=names' has no 'strength'"),
        ({"start.towr": "x"}, "has no 'towr'"),
        ({"start.strength": "weak"}, "'strength' must be of the type float; got 'weak'"),
        ({"start.strength": -1}, "strength must be a number between"),
        ({"pace": "fast"}, "'pace' has settings of its own; got 'fast'"),
        ({"pace.rech": 1}, "'pace' has no 'rech'. Did you mean 'reach'"),
        ({"steps.more": 1}, "'steps' of 'noisy-gd' is a plain value"),
        ({"strt": "zero"}, "Did you mean 'start'"),
        ({"k": 1}, "Its settings are .*pace.reach.*start.tower"),
    ],
)
def test_what_is_wrong_with_a_part_is_named(given, said):
    with pytest.raises(ArgumentError, match=said):
        named_method("noisy-gd", given)


@dataclass(frozen=True)
class Deep:
    """A part of a part."""

    size: int = 1


@dataclass(frozen=True)
class Outer:
    """A part with a part."""

    deep: Deep = field(default_factory=Deep)
    kind: ClassVar[str] = "outer"


@dataclass(frozen=True)
class Other:
    """Another, without settings."""

    kind: ClassVar[str] = "other"


@dataclass(frozen=True)
class Later(NoisyGD):
    """A method that somebody adds later, with a part that may be missing."""

    part: Outer | Other | None = None
    name: ClassVar[str] = "later"


def test_parts_of_methods_to_come_are_settings_at_once():
    def made(given):
        return named_method(f"{__name__}:Later", given).part

    assert made({}) is None
    assert made({"part": "other"}) == Other()
    assert made({"part": "outer", "part.deep.size": "3"}) == Outer(Deep(3))
    assert made({"part.deep.size": 3}) == Outer(Deep(3))
    assert made({"part": "none"}) is None
    with pytest.raises(ArgumentError, match="'part' must be one of outer, other"):
        made({"part": "third"})
    with pytest.raises(ArgumentError, match="is none, which has no settings"):
        made({"part": "none", "part.deep.size": 3})
