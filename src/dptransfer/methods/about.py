"""How a method describes itself: summary, card words, reference, colour, options.

Colours are those of Okabe and Ito and of Tol, which keep apart for people who see fewer colours; a marker of
its own says the same again in print without colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

PROTOTYPES = (
    "Wahdany, Jagielski, Dziedzic, Boenisch: Differentially Private Prototypes for Imbalanced "
    "Transfer Learning (AAAI 2025)"
)
FEATURES = (
    "Mehta, Krichene, Thakurta, Kurakin, Cutkosky: Differentially Private Image Classification from "
    "Features (TMLR 2023)"
)
MIXED = (
    "Golatkar, Achille, Wang, Roth, Kearns, Soatto: Mixed Differential Privacy in Computer Vision (CVPR 2022)"
)
RIGHT_STEPS = "with the accounting corrected: T steps cost T/2σ² in zCDP, where T²/2σ² is printed."
TEACHERS = (
    "Li, Tsai, Yu, Chen, Ren: Exploring the Benefits of Visual Prompting in Differential Privacy (ICCV 2023)"
)


class Colour(NamedTuple):
    """A colour on white paper, and its counterpart on a dark page."""

    light: str
    dark: str


BLUE = Colour("#0072b2", "#4aa8e0")
VERMILION = Colour("#bf4a00", "#ff8a3c")
GOLD = Colour("#cc8a00", "#f0b840")
GREEN = Colour("#009e73", "#33c79c")
PURPLE = Colour("#cc79a7", "#e49cc4")
INDIGO = Colour("#332288", "#9a8cf0")
SKY = Colour("#3fa0da", "#7cc6f2")
BROWN = Colour("#7a4a1e", "#c89a6a")
SLATE = Colour("#444b52", "#b4bcc4")
WINE = Colour("#882255", "#dd7aae")
OLIVE = Colour("#8a8a2b", "#c4c45a")
TEAL = Colour("#2b8c8c", "#62c8c8")
FROM_NAME = Colour("", "")  # one of these, by the name of the method
COLOURS = (BLUE, VERMILION, GOLD, GREEN, PURPLE, INDIGO, SKY, BROWN, SLATE, WINE, OLIVE, TEAL)


@dataclass(frozen=True)
class About:
    """A method in words and in figures; what is left out is filled in from its name and docstring.

    Attributes:
        summary: what it releases and when to use it, in one line.
        card: what was released and how, in two or three sentences for the reader of a release.
        reference: where it comes from, and what differs here.
        family: what it is listed with.
        colour: its colour in every figure. What a paper compares side by side has colours far apart.
        marker: its marker, as matplotlib names it; crosses are for what is not private.
        options: settings that many people change, with the words that explain each.
    """

    summary: str = ""
    card: str = ""
    reference: str = ""
    family: str = "Others"
    colour: Colour = FROM_NAME
    marker: str = "8"
    options: Mapping[str, str] = field(default_factory=dict)

    def completed(self, name: str, docstring: str | None) -> About:
        """The same for the method of this name, with what was left out filled in."""
        first = (docstring or "").strip().partition("\n")[0].strip()
        derived = COLOURS[sum(map(ord, name)) % len(COLOURS)]  # the same on every machine
        return replace(
            self,
            summary=self.summary or first,
            card=self.card or first,
            colour=derived if self.colour == FROM_NAME else self.colour,
        )
