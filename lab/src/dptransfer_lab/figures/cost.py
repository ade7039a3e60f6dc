"""Time and memory of a fit against the sizes of the task, on log axes, with the slope of each line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator
from numpy.typing import ArrayLike

from dptransfer_lab.figures.drawing import Drawing, finish_figure, line_panels, log_ticks
from dptransfer_lab.figures.style import Style, plot_style, shown_in
from dptransfer_lab.points import FACTORS, SIZE_WORDS, caption, opening, slug, split, thin_ticks
from dptransfer_lab.statistics import positive_interval

COSTS = {"fit_seconds": "seconds per fit", "peak_mib": "peak memory of a fit, MiB"}
_LEAST = {"fit_seconds": 1e-5, "peak_mib": 0.01}


@plot_style()
def cost(frame: pd.DataFrame, styles: Mapping[str, Style], *, cost: str = "fit_seconds") -> list[Drawing]:
    """Cost against private rows, dimensions, classes and public rows: a panel for each that varies alone.

    `cost` is 'fit_seconds' or 'peak_mib'.
    """
    usable = frame[frame[cost] > 0].assign(cost=frame[cost].clip(lower=_LEAST[cost]))
    parts = {size: _varied(usable, size) for size in SIZE_WORDS}
    parts = {size: cells.assign(size=size, x=cells[size]) for size, cells in parts.items() if len(cells)}
    if not parts:
        return []
    cells = pd.concat(parts.values())
    figure, panels = line_panels(
        cells, styles, x="x", y="cost", panel="size", order=list(parts), errorbar=positive_interval,
        size=(3.6, 2.8), sharex=False,
    )  # fmt: skip
    told = []
    for size, axes in panels.items():
        log_ticks(axes, thin_ticks(parts[size]["x"], most=6))
        axes.set_yscale("log")
        axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}")
        axes.minorticks_off()
        axes.set(xlabel=SIZE_WORDS[size], ylabel="")
        lines = [line for line in axes.lines if np.size(line.get_xdata()) > 2]
        slopes = [f"{line.get_label()} {slope(*line.get_data()):.2f}" for line in lines]
        told += [f"{SIZE_WORDS[size]}: {', '.join(slopes)}"] if slopes else []
    figure.supylabel(COSTS[cost], fontsize=9)
    cores = " or ".join(map(str, sorted(cells["host_cores"].unique())))
    sizes = ", ".join(SIZE_WORDS[size] for size in parts)
    what = (
        f"{opening(COSTS[cost])} against {sizes}, both axes logarithmic. "
        "Slopes of a straight line through the means (1 is proportional): "
        f"{'; '.join(told) or 'none, with fewer than three sizes'}. Machine with {cores} usable cores"
    )
    bands = "the line is the mean over seeds and budgets, the band its 95 % interval"
    file_name, title = slug("cost", cost, cells.iloc[0]["flavour"]), f"{opening(COSTS[cost])} against size"
    note = caption(what, cells, bands=bands, vary=FACTORS)
    return [finish_figure(figure, shown_in(cells, styles), file_name, title, note)]


def _varied(cells: pd.DataFrame, size: str) -> pd.DataFrame:
    """The largest set of cells that differ in this size and in nothing else."""
    groups = [group for group in split(cells, over=(size,)) if group[size].nunique() > 1]
    return max(groups, key=len, default=cells.head(0))


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Slope of the least-squares line through log y against log x: the power of x that y grows with.

    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
