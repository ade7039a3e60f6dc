"""Bars side by side at one budget: what each part of a method, or each setting, contributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import seaborn as sns

from dptransfer_lab.figures.drawing import LETTER, Drawing, finished, percent
from dptransfer_lab.figures.style import INK, Style, shown_in, styled
from dptransfer_lab.intervals import interval, mean_of
from dptransfer_lab.points import METRIC_WORDS, caption, figure_name, opening, split, thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BUDGETS = 3


@styled()
def ablation(
    frame: pd.DataFrame,
    styles: Mapping[str, Style],
    *,
    metric: str = "balanced_accuracy",
    error: bool = False,
) -> list[Drawing]:
    """Bars by label, one panel per budget (three at most); a figure for each setting with two labels or more.

    With `error`, of 1 − the metric.
    """
    usable = frame[frame[metric].notna()]
    if error:
        usable = usable.assign(**{metric: 1 - usable[metric]})
    words = f"1 − {METRIC_WORDS[metric]}" if error else METRIC_WORDS[metric]
    name = ("ablation", metric, "error" if error else "")
    several = (cells for cells in split(usable) if cells["label"].nunique() > 1)
    return [_bars(cells, styles, metric, words, name) for cells in several]


def _bars(
    cells: pd.DataFrame, styles: Mapping[str, Style], metric: str, words: str, name: tuple[str, ...]
) -> Drawing:
    chosen = thinned(cells["at_epsilon"], most=_MOST_BUDGETS)
    shown = shown_in(cells, styles)
    grid = sns.catplot(
        cells, kind="bar", x=metric, y="label", order=[one.label for one in shown], col="at_epsilon",
        col_order=chosen, errorbar=interval, err_kws={"color": INK, "linewidth": 1.1}, capsize=0.25,
        width=0.72, height=0.9 + 0.27 * len(shown), aspect=2.6 / (0.9 + 0.27 * len(shown)), sharex=True,
    )  # fmt: skip
    grid.figure.set_figwidth(2.4 * len(chosen) + LETTER * max(len(style.words) for style in shown))
    for budget, axes in grid.axes_dict.items():
        _dress(axes, cells[cells["at_epsilon"] == budget], shown, metric)
        axes.set(title=f"ε = {budget:.3g}", xlabel=words, ylabel="")
    data = cells.iloc[0]["data"]
    budgets = " and ".join(f"ε = {budget:.3g}" for budget in chosen)
    whiskers = "the bar is the mean over seeds, the whisker its 95 % interval, none with one seed"
    return finished(
        grid.figure,
        shown,
        name=figure_name(*name, cells=cells),
        title=f"Variants side by side: {data}",
        caption=caption(f"{opening(words)} of each variant on {data}, at {budgets}", cells, bands=whiskers),
        bars=None,
    )


def _dress(axes: Axes, cells: pd.DataFrame, shown: Sequence[Style], metric: str) -> None:
    """Each bar in the look of its label, with its number at the end of its whisker."""
    there = [place for place, style in enumerate(shown) if style.label in set(cells["label"])]
    for patch, place in zip(axes.patches, there, strict=True):
        patch.set(**shown[place].bar())
    for place, style in enumerate(shown):
        point = mean_of(cells.loc[cells["label"] == style.label, metric])
        end = max(point.mean, point.high) if point.n > 1 else point.mean
        text, at = (f" {100 * point.mean:.1f}", end) if point.n else (" no result", 0.0)
        axes.text(at, place, text, va="center", fontsize=7)
    axes.set_yticks(range(len(shown)), [style.words for style in shown])
    axes.tick_params(axis="y", length=0)
    axes.grid(False)
    axes.set_xlim(0, min(1.15 * axes.get_xlim()[1], 1.15))
    percent(axes, "x")
