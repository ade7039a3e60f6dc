"""Figures with captions, and what they share: panels of lines, axes, legends, and files."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns

from dptransfer.base.document import Figure as Picture
from dptransfer.base.document import Strong, Words
from dptransfer_lab.figures.style import QUIET, Style, dark_colours, plot_style, shown_in
from dptransfer_lab.points import thin_ticks
from dptransfer_lab.statistics import interval

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
                with plot_style():
                    self.figure.savefig(file, metadata=nothing)
        return files

    def block(self) -> Picture:
        """The figure as a part of a document."""
        words = Words((Strong(f"{self.title}."), f" {self.caption}"))
        return Picture(self.name, dark_on_dark_pages(self._svg, self.dark), self.title, words)

    @cached_property
    def _svg(self) -> str:
        stream = io.StringIO()
        with plot_style():
            nothing = {"Date": None, "Creator": None}
            self.figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
        self.figure.set_layout_engine("none")  # everything has its place; finding it takes most of the time
        return stream.getvalue()


def dark_on_dark_pages(svg: str, dark: Mapping[str, str]) -> str:
    """The drawing with a style of its own, by which each of these colours is another one on dark pages."""
    shown, changed = [], []
    for light, other in dark.items():
        name = "--drawn-" + re.sub(r"\W", "", light).lower()
        svg = re.sub(re.escape(light), f"var({name})", svg, flags=re.IGNORECASE)
        shown.append(f"{name}:{light}")
        changed.append(f"{name}:{other}")
    plain, others = ";".join(shown), ";".join(changed)
    style = f":root{{{plain}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{others}}}}}"
    start = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:start]}<style>{style}</style>{svg[start:]}"


def finish_figure(
    figure: Figure, shown: Sequence[Style], name: str, title: str, caption: str, *, bars: bool | None = False
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


MEAN_AND_INTERVAL = "the line is the mean over seeds, the band its 95 % interval, none with one seed"


def line_panels(
    data: pd.DataFrame,
    styles: Mapping[str, Style],
    *,
    x: str,
    y: str,
    panel: str | None = None,
    order: Sequence[object] | None = None,
    estimator: str | None = "mean",
    errorbar: object = interval,
    size: tuple[float, float] | None = None,
    **share: bool,
) -> tuple[Figure, dict[Any, Axes]]:
    """A figure with one line per label, and its panels by their value; None is the value of a single one.

    Args:
        data: a row per number.
        styles: how labels are drawn.
        x: the column across.
        y: the column up.
        panel: the column with one panel for each value.
        order: the panels, from left to right.
        estimator: what the line is, over rows at one place; None where there is one row, in drawing order.
        errorbar: what the band is, as seaborn takes it.
        size: width and height of a panel in inches.
        share: `sharex` or `sharey` false, where panels have scales of their own.
    """
    data = data.dropna(subset=[x, y]).astype({x: float, y: float})
    values = [] if panel is None else list(order if order is not None else sorted(data[panel].unique()))
    columns = columns_for(max(1, len(values)))
    width, height = size or ((3.1, 2.75) if len(values) > 1 else (5.2, 3.2))
    grid = sns.relplot(
        data, kind="line", x=x, y=y, hue="label", hue_order=[one.label for one in shown_in(data, styles)],
        palette={label: one.light for label, one in styles.items()},
        col=panel, col_order=values or None, col_wrap=columns if len(values) > columns else None,
        height=height, aspect=width / height, facet_kws=share, legend=False,
        estimator=estimator, sort=estimator is not None, errorbar=errorbar if estimator else None,
        err_kws={"alpha": 0.16, "linewidth": 0},
    )  # fmt: skip
    panels = {None: grid.ax} if panel is None else dict(grid.axes_dict)
    for value, axes in panels.items():
        part = data if panel is None else data[data[panel] == value]
        for line, style in zip(axes.lines, shown_in(part, styles), strict=True):
            line.set(**style.line())
        axes.set_title("")
    return grid.figure, panels


def level_line(axes: Axes, height: float) -> None:
    """A dotted line to compare with."""
    axes.axhline(height, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)


def epsilon_axis(axes: Axes, budgets: pd.DataFrame, *, rho: bool = False) -> None:
    """Ticks at the budgets of these cells, thinned where they are many; with `rho`, the same as ρ above."""
    chosen = thin_ticks(budgets["at_epsilon"])
    log_ticks(axes, chosen, [f"{value:.3g}" for value in chosen])
    room = (chosen[-1] / chosen[0]) ** 0.05
    axes.set_xlim(chosen[0] / room, chosen[-1] * room)
    axes.set_xlabel("ε (smaller promises more)")
    if rho:
        known = budgets.drop_duplicates("at_epsilon").set_index("at_epsilon")["at_rho"]
        upper = axes.secondary_xaxis("top")
        upper.set_xticks(chosen, [_short(known[value]) for value in chosen])
        upper.minorticks_off()
        upper.tick_params(labelsize=7, labelcolor=QUIET)
        axes.text(-0.05, 1.03, "ρ =", transform=axes.transAxes, ha="right", va="bottom", color=QUIET)


def log_ticks(axes: Axes, places: Sequence[float], words: Sequence[str] | None = None) -> None:
    """A logarithmic axis across, with ticks at these places alone."""
    axes.set_xscale("log")
    axes.set_xticks(places, words or [f"{place:,.0f}" for place in places])
    axes.minorticks_off()


def columns_for(panels: int) -> int:
    """How many panels stand beside each other.

    >>> [columns_for(panels) for panels in (1, 2, 3, 4, 5, 7)]
    [1, 2, 3, 2, 3, 3]
    """
    return 2 if panels in (2, 4) else min(panels, 3)


def _short(value: float) -> str:
    """Two digits, and a power of ten where that is shorter.

    >>> _short(0.128), _short(0.00012)
    ('0.13', '1e-4')
    """
    if value >= 0.001:
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    return f"{value:.0e}".replace("e-0", "e-")
