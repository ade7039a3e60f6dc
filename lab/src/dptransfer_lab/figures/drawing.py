"""A figure with its caption, and the way it reaches a file or a page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.errors import MissingDependency
from dptransfer_lab.figures.style import INK, LINE, PAPER, QUIET, Style, css_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DOTS = 160
_LEGEND_LINE = 0.175  # inches
_FONT = ["DejaVu Sans"]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure and what it shows.

    Attributes:
        name: short and unique within a report: its file name and its place on the page.
        title: a few words.
        caption: what is shown, the number of seeds, what the bands are, what is held fixed.
        figure: matplotlib's figure.
    """

    name: str
    title: str
    caption: str
    figure: Figure

    def save(self, folder: Path) -> list[Path]:
        """Write the figure as SVG and PNG; the same numbers make the same files."""
        folder.mkdir(parents=True, exist_ok=True)
        svg, png = folder / f"{self.name}.svg", folder / f"{self.name}.png"
        svg.write_text(self._svg, encoding="utf-8")
        with _settings():
            self.figure.savefig(png, dpi=_DOTS, facecolor=PAPER, metadata={"Software": "dptransfer bench"})
        return [svg, png]

    def inline(self) -> str:
        """The figure as an SVG element: colours are the page's variables, so that dark pages work."""
        text = self._svg
        text = text[text.index("<svg") :]
        for variable, (light, _) in css_colours().items():
            text = re.sub(light, f"var(--{variable})", text, flags=re.IGNORECASE)
        text = re.sub(r'\bid="([^"]+)"', rf'id="{self.name}-\1"', text)  # two figures on one page
        text = re.sub(r'(href="#|url\(#)([^")]+)', rf"\1{self.name}-\2", text)
        label = self.title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)

    @cached_property
    def _svg(self) -> str:
        stream = io.StringIO()
        with _settings():
            self.figure.savefig(
                stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        self.figure.set_layout_engine(
            "none"
        )  # everything has its place now; finding it takes most of the time
        return stream.getvalue()


def sheet(
    rows: int = 1, columns: int = 1, *, width: float = 3.4, height: float = 2.7, share_y: bool = True
) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure and its axes; `width` and `height` are those of one panel, in inches."""
    figure = _figure_class()(figsize=(width * columns + 0.4, height * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y)
    for line in grid:
        for axes in line:
            plain(axes)
    return figure, [list(line) for line in grid]


def plain(axes: Axes) -> None:
    """Axes without what a reader does not need."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.tick_params(colors=INK, length=3, color=QUIET, labelsize=8)
    axes.grid(True, axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)


def titled(axes: Axes, text: str) -> None:
    """A panel's title."""
    axes.set_title(text, fontsize=9, color=INK, loc="left")


def labelled(axes: Axes, x: str | None = None, y: str | None = None) -> None:
    """Names of the axes."""
    if x is not None:
        axes.set_xlabel(x, fontsize=9, color=INK)
    if y is not None:
        axes.set_ylabel(y, fontsize=9, color=INK)


def legend(figure: Figure, styles: Sequence[Style], *, bars: bool = False) -> None:
    """One legend below all panels, in the order of the table of methods."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=style.colour.light, **{k: v for k, v in style.bar().items() if k != "color"})
        if bars
        else Line2D([], [], **style.line())
        for style in styles
    ]
    if not handles:
        return
    longest = max(len(style.words) for style in styles)
    room = int(figure.get_figwidth() * 14)  # characters of the legend's size that fit beside each other
    columns = max(1, min(len(handles), room // (longest + 8)))
    lines = -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * (lines - 1))  # panels keep their size
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=2.6,
    )


def percent(axes: Axes, *, low: float | None = None, high: float | None = None) -> None:
    """Shares on the vertical axis, as percentages."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol="%"))
    if low is not None or high is not None:
        axes.set_ylim(low, high)


def _figure_class() -> type[Figure]:
    """Matplotlib's figure without pyplot: no window, no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("matplotlib", "bench", "Drawing figures") from None
    return Figure


def _settings() -> Any:
    """Text stays text, and ids do not change from run to run."""
    import matplotlib

    return matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "dptransfer",
            "font.family": _FONT,
            "axes.unicode_minus": True,
        }
    )
