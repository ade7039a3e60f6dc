"""A figure with its caption, and the way it reaches a file or a page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.base.document import Figure as Picture
from dptransfer.base.document import Strong, Words
from dptransfer_lab.figures.style import Style, dark_colours, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTER, _LEGEND_LINE = 0.075, 0.175  # inches that a letter beside an axis takes, and a line of the legend


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure and what it shows.

    Attributes:
        name: short and unique within a report: its file name and its place on the page.
        title: a few words.
        caption: what is shown, the number of seeds, what the bands are, what is held fixed.
        figure: matplotlib's figure; pyplot has forgotten it, so that nothing piles up.
        dark: what becomes of its colours on dark pages.
    """

    name: str
    title: str
    caption: str
    figure: Figure
    dark: Mapping[str, str]

    def __post_init__(self) -> None:
        """Let pyplot forget the figure."""
        import matplotlib.pyplot as plt

        plt.close(self.figure)

    def save(self, folder: Path, kinds: Sequence[str] = ("svg", "png")) -> list[Path]:
        """Write the figure as SVG, PNG or PDF; the same numbers make the same files."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{self.name}.{kind}" for kind in kinds]
        for file in files:
            if file.suffix == ".svg":
                file.write_text(self._svg, encoding="utf-8")
            else:
                nothing = {"CreationDate": None} if file.suffix == ".pdf" else {}
                with styled():
                    self.figure.savefig(file, metadata=nothing)
        return files

    def block(self) -> Picture:
        """The figure as a part of a document."""
        words = Words((Strong(f"{self.title}."), f" {self.caption}"))
        return Picture(self.name, self._svg, self.title, words, dark=self.dark)

    @cached_property
    def _svg(self) -> str:
        stream = io.StringIO()
        with styled():
            nothing = {"Date": None, "Creator": None}
            self.figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
        self.figure.set_layout_engine("none")  # everything has its place; finding it takes most of the time
        return stream.getvalue()


def finished(
    figure: Figure, shown: Sequence[Style], *, name: str, title: str, caption: str, bars: bool | None = False
) -> Drawing:
    """The drawing, with one legend below all panels: of lines, of bars, or with `bars=None` none."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.set_layout_engine("constrained")
    if shown and bars is not None:
        handles = [Patch(**one.bar()) if bars else Line2D([], [], **one.line()) for one in shown]
        room = int(figure.get_figwidth() * 16)  # letters of the legend's size that fit beside each other
        columns = max(1, min(len(handles), room // (max(len(one.words) for one in shown) + 8)))
        lines = -(-len(handles) // columns)
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * lines)  # panels keep their size
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)
    return Drawing(name, title, caption, figure, dark_colours(shown))


def percent(axes: Axes, which: str = "y") -> None:
    """Shares along an axis, as percentages."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(MaxNLocator(nbins=6 if which == "y" else 4, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol="%"))
