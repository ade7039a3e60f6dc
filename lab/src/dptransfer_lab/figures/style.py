"""One table of what every method looks like, in every figure: order, colour and marker.

Colours are those of Okabe and Ito and of Tol, which keep apart for people who see fewer colours; a marker of
its own says the same again in print without colour. A second value of each colour is for dark pages. Variants
of one method (other settings, another label) keep its colour and marker and differ in dashes and in how the
marker is filled. Whatever is not private is dotted, with crosses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dptransfer_lab.results import Record

INK = "#1c2127"
QUIET = "#5b6570"
LINE = "#d5d8db"
PAPER = "#ffffff"


@dataclass(frozen=True)
class Colour:
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
COLOURS = (BLUE, VERMILION, GOLD, GREEN, PURPLE, INDIGO, SKY, BROWN, SLATE, WINE, OLIVE, TEAL)

# Order, colour and marker of every method. What a paper compares side by side has colours far apart.
_TABLE: dict[str, tuple[Colour, str]] = {
    "auto": (SLATE, "*"),
    "public-prior": (INDIGO, "D"),
    "mean": (BLUE, "o"),
    "public": (VERMILION, "s"),
    "top-k": (GOLD, "^"),
    "mean-estimation": (SKY, "v"),
    "coinpress": (BROWN, "P"),
    "least-squares": (GREEN, "p"),
    "dpsgd": (SLATE, "h"),
    "global-adapt": (PURPLE, "<"),
    "noisy-gd": (WINE, ">"),
    "newton": (TEAL, "d"),
    "feature-covariance": (OLIVE, "H"),
    "adamix": (VERMILION, "D"),
    "ngd": (BLUE, ">"),
    "ppgd": (GREEN, "^"),
    "fully-private": (WINE, "v"),
    "only-public": (SLATE, "s"),
    "language": (TEAL, "p"),
}
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (5, 1.4, 1.2, 1.4)), (0, (2.6, 1.2)), (0, (8, 1.4)))
_FILLS = ("full", "none", "left", "bottom", "right", "top")
_HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---")
_NOT_PRIVATE = "as-published-"
_DOTTED: Any = (0, (1, 1.4))


@dataclass(frozen=True)
class Style:
    """How one label is drawn.

    Attributes:
        label: what tables and legends call it.
        method: its command-line name.
        colour: its colour.
        marker: its marker.
        dashes: matplotlib's line style.
        fill: matplotlib's fill style of the marker.
        hatch: pattern of a bar.
        not_private: whether it is marked NOT PRIVATE.
        oracle_tuned: whether its settings were chosen by looking at results.
    """

    label: str
    method: str
    colour: Colour
    marker: str
    dashes: Any
    fill: str
    hatch: str
    not_private: bool = False
    oracle_tuned: bool = False

    @property
    def words(self) -> str:
        """The label with its marks, as every legend and table shows it."""
        return marked(self.label, not_private=self.not_private, oracle_tuned=self.oracle_tuned)

    def line(self) -> dict[str, Any]:
        """Keywords of a line with markers."""
        return {
            "color": self.colour.light,
            "marker": self.marker,
            "linestyle": self.dashes,
            "fillstyle": self.fill,
            "markersize": 5.5,
            "markeredgewidth": 1.2,
            "markeredgecolor": self.colour.light,
            "linewidth": 1.7,
            "label": self.words,
        }

    def bar(self) -> dict[str, Any]:
        """Keywords of a bar."""
        return {"color": self.colour.light, "hatch": self.hatch, "edgecolor": PAPER, "label": self.words}


def marked(label: str, *, not_private: bool, oracle_tuned: bool) -> str:
    """A label with what a reader must not overlook.

    >>> marked("mean", not_private=True, oracle_tuned=False)
    'mean [NOT PRIVATE]'
    """
    marks = [word for word, on in (("NOT PRIVATE", not_private), ("oracle-tuned", oracle_tuned)) if on]
    return f"{label} [{', '.join(marks)}]" if marks else label


def styles_of(records: Iterable[Record]) -> dict[str, Style]:
    """The style of each label in these records, in the order of every legend and table.

    Give it all records of a study, so that a label looks alike in all of its figures.
    """
    seen: dict[str, Record] = {}
    for record in records:
        seen.setdefault(record["label"], record)
    labels = sorted(seen, key=lambda label: (_place(seen[label]["method"]), _natural(label)))
    variants: dict[tuple[str, bool], int] = {}
    styles: dict[str, Style] = {}
    for label in labels:
        record = seen[label]
        kin = _known(record["method"]), bool(record["marks"]["not_private"])
        rank = variants[kin] = variants.get(kin, -1) + 1
        styles[label] = _style(label, record, rank)
    return styles


def _style(label: str, record: Record, rank: int) -> Style:
    method, marks = record["method"], record["marks"]
    unsafe = bool(marks["not_private"])
    colour, marker = _look(method)
    return Style(
        label=label,
        method=method,
        colour=colour,
        marker=("X", "x", "1", "2", "3", "4")[rank % 6] if unsafe else marker,
        dashes=_DOTTED if unsafe else _DASHES[rank % len(_DASHES)],
        fill="full" if unsafe else _FILLS[rank % len(_FILLS)],
        hatch="oo" if unsafe else _HATCHES[rank % len(_HATCHES)],
        not_private=unsafe,
        oracle_tuned=bool(marks["oracle_tuned"]),
    )


def _look(method: str) -> tuple[Colour, str]:
    own = _known(method)
    if own in _TABLE:
        return _TABLE[own]
    # A method the table does not know yet looks the same on every machine; crosses stay what is not private.
    place = sum(map(ord, own))
    return COLOURS[place % len(COLOURS)], "8"


def _known(method: str) -> str:
    """The method whose printed form this is, or itself: the longest name in the table that it begins with."""
    own = method.removeprefix(_NOT_PRIVATE)
    found = [name for name in _TABLE if own == name or own.startswith(f"{name}-")]
    return max(found, key=len, default=own)


def _place(method: str) -> tuple[int, int, str]:
    order = list(_TABLE)
    own = _known(method)
    return (order.index(own) if own in order else len(order), method.startswith(_NOT_PRIVATE), method)


def _natural(label: str) -> list[tuple[int, float, str]]:
    """Sort key in which 'K = 10' comes after 'K = 2'."""
    import re

    parts = re.findall(r"\d+(?:\.\d+)?|\D+", label)
    return [(0, float(part), "") if part[0].isdigit() else (1, 0.0, part) for part in parts]


def css_colours() -> Mapping[str, tuple[str, str]]:
    """Every colour a figure uses, by the name of its variable on a page: the light value and the dark one.

    >>> css_colours()["ink"]
    ('#1c2127', '#e8e6e1')
    """
    data = {f"c{place}": (colour.light, colour.dark) for place, colour in enumerate(COLOURS)}
    plain = {
        "ink": (INK, "#e8e6e1"),
        "soft": (QUIET, "#9aa4ae"),
        "line": (LINE, "#3a4148"),
        "sheet": (PAPER, "#1b1f23"),
    }
    return {**plain, **data}
