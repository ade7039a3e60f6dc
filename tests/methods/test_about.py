"""Every method says once what help, card, README and figures need of it."""

from dataclasses import dataclass, fields
from typing import ClassVar

import pytest

from dptransfer.methods import METHODS, MeanPrototypes, PrivateTuning
from dptransfer.methods.about import COLOURS, About, Colour

ALL = [*METHODS.values(), PrivateTuning]
WITHOUT_PRIVATE_ROWS = {"only-public", "language"}


@pytest.mark.parametrize("method", ALL, ids=lambda method: method.name)
def test_every_method_describes_itself(method):
    about = method.about
    assert "about" in vars(method)
    assert about.summary.endswith(".")
    assert about.summary.count(".") == 1  # one line, for tables
    assert len(about.summary) < 140
    assert about.options.keys() <= {one.name for one in fields(method)}
    assert all(words.endswith(".") for words in about.options.values())


@pytest.mark.parametrize("method", [one for one in ALL if one.name != "auto"], ids=lambda method: method.name)
def test_every_method_that_can_run_has_words_for_the_card(method):
    about = method.about
    assert about.card != method.__doc__.partition("\n")[0]
    assert about.card.count(". ") <= 2  # short sentences, two or three
    assert about.card.endswith(".")
    assert about.reference.endswith(".")
    assert ("No private row was used" in about.card) == (method.name in WITHOUT_PRIVATE_ROWS)


def test_no_two_methods_look_alike_in_a_figure():
    looks = {(method.about.colour, method.about.marker) for method in METHODS.values()}
    assert len(looks) == len(METHODS)
    assert {colour for colour, _ in looks} <= set(COLOURS)
    assert not {marker for _, marker in looks} & set("xX12348")  # not private, or not said


def test_a_method_that_says_nothing_is_described_by_its_name_and_docstring():
    @dataclass(frozen=True)
    class Quiet(MeanPrototypes):
        """Does as the mean does.

        Longer words follow.
        """

        name: ClassVar[str] = "quiet"

    same = {"summary": "Does as the mean does.", "card": "Does as the mean does.", "reference": ""}
    assert {field: getattr(Quiet.about, field) for field in same} == same
    assert Quiet.about.colour in COLOURS
    assert Quiet.about.colour == About().complete("quiet", None).colour  # on every machine

    class Variant(Quiet):
        """The same method in another dress."""

    assert Variant.about is Quiet.about


def test_what_a_method_says_itself_stays():
    said = About("One line.", "More.", "A paper.", "Mine", Colour("#000000", "#ffffff"), "o", {"k": "Many."})
    assert said.complete("name", "Docstring.") == said
