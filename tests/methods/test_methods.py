"""What is found by name is a method that bears this name, and takes none of ours."""

import subprocess
import sys
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

import dptransfer
from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS, EmbeddingMethod, MeanPrototypes


def test_our_methods_are_found_by_the_name_they_bear():
    assert all(method.name == name for name, method in METHODS.items())
    assert METHODS["mean"] is MeanPrototypes is dptransfer.methods.MeanPrototypes
    assert METHODS.own.keys() == METHODS.keys()  # no package adds any here


def test_listing_names_imports_no_method():
    code = "import sys, dptransfer; print(len(dptransfer.methods.METHODS.names), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [str(len(METHODS)), "False"]


@dataclass(frozen=True)
class Taker(MeanPrototypes):
    """Takes a name of ours."""

    name: ClassVar[str] = "top-k"


@dataclass(frozen=True)
class Tuner(MeanPrototypes):
    """Takes the name of a search."""

    name: ClassVar[str] = "private-tuning"


class Unplanned(EmbeddingMethod):
    """Cannot plan."""

    name: ClassVar[str] = "unplanned"


@dataclass(frozen=True)
class Demanding(MeanPrototypes):
    """Has a setting without a default."""

    level: int = field(kw_only=True)
    name: ClassVar[str] = "demanding"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("Taker", "cannot be taken; 'top-k' is one"),
        ("Tuner", "cannot be taken; 'private-tuning' is one"),
        ("Unplanned", "derives from"),
        ("Demanding", "has a default; one of 'demanding' has none"),
        ("pytest", "derives from"),
        ("EmbeddingMethod", "derives from"),
    ],
)
def test_what_is_no_method_or_takes_a_name_of_ours_is_refused(place, said):
    with pytest.raises(ArgumentError, match=said):
        METHODS.find(f"{__name__}:{place}")


def test_a_method_is_found_by_no_name_but_its_own(install):
    install("theirs", {}, {"dptransfer.methods": {"other": f"{__name__}:Renamed"}})
    with pytest.raises(ArgumentError, match="this one is named 'renamed'"):
        METHODS["other"]
    assert "other" not in METHODS
    assert METHODS.find(f"{__name__}:Renamed") is Renamed


@dataclass(frozen=True)
class Renamed(MeanPrototypes):
    """Is registered under another name."""

    name: ClassVar[str] = "renamed"
