"""Styles of figures: each method's colour and marker; variants differ in dashes and fill.

Colour and marker are what a method says about itself (`METHODS[name].about`), so that a plug-in has them too.
A second value of each colour is for dark pages. Variants of one method (other settings, another label) keep
both and differ in dashes and in how the marker is filled. Whatever is not private is dotted, with crosses.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd

from dptransfer.methods import METHODS, About
from dptransfer.methods.about import COLOURS, Colour
from dptransfer_lab.points import brief
from dptransfer_lab.unprotected import PREFIX

INK, QUIET, LINE, PAPER = "#1c2127", "#5b6570", "#d5d8db", "#ffffff"
DARK = {INK: "#e8e6e1", QUIET: "#9aa4ae", LINE: "#3a4148", PAPER: "#1b1f23"}
"""The colours of the style file, and what becomes of them on dark pages."""
Dashes = str | tuple[float, tuple[float, ...]]
_DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.6)), (0, (5, 1.4, 1.2, 1.4)), (0, (2.6, 1.2)), (0, (8, 1.4)))
_FILLS = ("full", "none", "left", "bottom", "right", "top")
_HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---")
_CROSSES, _DOTTED = "Xx1234", (0, (1, 1.4))


@contextmanager
def plot_style() -> Iterator[None]:
    """Draw and save in the style of reports; works as a decorator too."""
    import matplotlib.style

    with (
        matplotlib.style.context(str(files("dptransfer_lab.figures") / "report.mplstyle")),
        warnings.catch_warnings(),
    ):
        # Letters that the font of PNG files lacks; a first layout by seaborn, which `finished` replaces.
        warnings.filterwarnings("ignore", "Glyph|Tight layout", UserWarning)
        yield


@dataclass(frozen=True)
class Style:
    """How one label is drawn.

    Attributes:
        label: what studies call it.
        words: the same with its marks, as every legend and table shows it.
        light: its colour on paper.
        dark: its colour on dark pages.
        marker: its marker.
        dashes: matplotlib's line style.
        fill: matplotlib's fill style of the marker.
        hatch: pattern of a bar.
    """

    label: str
    words: str
    light: str
    dark: str
    marker: str
    dashes: Dashes
    fill: str
    hatch: str

    def line(self) -> dict[str, Any]:
        """Keywords of a line with markers."""
        return {
            "color": self.light, "marker": self.marker, "linestyle": self.dashes, "fillstyle": self.fill,
            "markeredgecolor": self.light, "label": self.words,
        }  # fmt: skip

    def bar(self) -> dict[str, Any]:
        """Keywords of a bar."""
        return {"facecolor": self.light, "hatch": self.hatch, "edgecolor": PAPER, "label": self.words}


def styles_of(frame: pd.DataFrame) -> dict[str, Style]:
    """The style of each label in these cells, in the order of every legend and table.

    Give it all cells of a study, so that a label looks alike in all of its figures.
    """
    labels = frame.drop_duplicates("label")
    ordered = sorted(labels.itertuples(), key=lambda cell: (_place(cell.method), _natural(cell.label)))
    colours = _colours_of(dict.fromkeys(_known(cell.method) for cell in ordered))
    variants: dict[tuple[str, bool], int] = {}
    styles: dict[str, Style] = {}
    for cell in ordered:
        unsafe, own = bool(cell.not_private), _known(cell.method)
        rank = variants[own, unsafe] = variants.get((own, unsafe), -1) + 1
        about = _about(own)
        styles[cell.label] = Style(
            label=cell.label,
            words=label_with_marks(
                brief(cell.label), not_private=unsafe, oracle_tuned=bool(cell.oracle_tuned)
            ),
            light=colours[own].light,
            dark=colours[own].dark,
            marker=_CROSSES[rank % len(_CROSSES)] if unsafe else about.marker,
            dashes=_DOTTED if unsafe else _DASHES[rank % len(_DASHES)],
            fill="full" if unsafe else _FILLS[rank % len(_FILLS)],
            hatch="oo" if unsafe else _HATCHES[rank % len(_HATCHES)],
        )
    return styles


def _colours_of(methods: Iterable[str]) -> dict[str, Colour]:
    """The colour of each method: our own have theirs, and others one that no method here has.

    A method of another package keeps the colour that it asks for, or that its name gives, where that is free,
    and has the next free one otherwise; where none is free, methods share colours and differ in markers.
    """
    ordered = sorted(methods, key=_is_foreign)  # stable: our own first, then in the order of the legend
    found: dict[str, Colour] = {}
    for name in ordered:
        wanted = _about(name).colour
        if _is_foreign(name) and wanted in found.values():
            place = COLOURS.index(wanted) if wanted in COLOURS else 0
            others = (*COLOURS[place:], *COLOURS[:place])
            wanted = next((one for one in others if one not in found.values()), wanted)
        found[name] = wanted
    return found


def _is_foreign(name: str) -> bool:
    """Whether another package brings the method."""
    return name not in METHODS or not METHODS[name].__module__.startswith("dptransfer.")


def _about(name: str) -> About:
    return METHODS[name].about if name in METHODS else About().complete(name, None)


def shown_in(cells: pd.DataFrame, styles: Mapping[str, Style]) -> list[Style]:
    """The styles of the labels that these cells have, in order."""
    there = set(cells["label"])
    return [style for label, style in styles.items() if label in there]


def dark_colours(styles: Sequence[Style]) -> dict[str, str]:
    """Every colour of a figure with these labels, and what becomes of it on a dark page."""
    return {**DARK, **{style.light: style.dark for style in styles}}


def label_with_marks(label: str, *, not_private: bool, oracle_tuned: bool) -> str:
    """A label with what a reader must not overlook.

    >>> label_with_marks("mean", not_private=True, oracle_tuned=False)
    'mean [NOT PRIVATE]'
    """
    marks = [word for word, on in (("NOT PRIVATE", not_private), ("oracle-tuned", oracle_tuned)) if on]
    return f"{label} [{', '.join(marks)}]" if marks else label


def _known(method: str) -> str:
    """The method whose printed form this is, or itself: the longest known name that it begins with."""
    own = method.removeprefix(PREFIX)
    return max((name for name in METHODS if own == name or own.startswith(f"{name}-")), key=len, default=own)


def _place(method: str) -> tuple[int, bool, str]:
    order, own = list(METHODS), _known(method)
    return order.index(own) if own in order else len(order), method.startswith(PREFIX), method


def _natural(label: str) -> list[tuple[int, float, str]]:
    """Sort key in which 'K = 10' comes after 'K = 2'."""
    parts = re.findall(r"\d+(?:\.\d+)?|\D+", label)
    return [(0, float(part), "") if part[0].isdigit() else (1, 0.0, part) for part in parts]
