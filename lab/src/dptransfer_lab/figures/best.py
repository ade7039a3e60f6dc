"""Compare methods: a map of the best in each setting, the best number of prototypes, and bars of variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import loads
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from dptransfer_lab.figures.drawing import LETTER, Drawing, epsilon_axis, finish_figure, percent
from dptransfer_lab.figures.style import INK, PAPER, Style, plot_style, shown_in
from dptransfer_lab.points import (
    METRIC_WORDS,
    brief,
    caption,
    figure_name,
    opening,
    ratio_words,
    split,
    thin_ticks,
)
from dptransfer_lab.statistics import Winner, interval, mean_of, winner_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_WHOLE = ("data", "encoder", "classes", "dimension", "rows", "pool", "pool_rows", "imbalance")


@plot_style()
def best_methods(
    frame: pd.DataFrame, styles: Mapping[str, Style], *, metric: str = "balanced_accuracy"
) -> list[Drawing]:
    """One map per currency: data sets and imbalance ratios down, ε across; two methods or more are needed."""
    return [
        _map(cells, styles, metric)
        for cells in split(frame, over=_WHOLE)
        if cells["label"][~cells["not_private"]].nunique() > 1 and cells["at_epsilon"].nunique() > 1
    ]


def _map(cells: pd.DataFrame, styles: Mapping[str, Style], metric: str) -> Drawing:
    lines = cells.groupby(["data", "encoder", "pool", "imbalance"], dropna=False)
    budgets = sorted(cells["at_epsilon"].unique())
    names = _line_words([key for key, _ in lines])
    width = 0.7 * len(budgets) + LETTER * max(map(len, names)) + 0.8
    figure, axes = plt.subplots(figsize=(width, 0.42 * lines.ngroups + 1.0))
    boxes: dict[str, list[tuple[int, int]]] = {}
    for row, (_, line) in enumerate(lines):
        for column, budget in enumerate(budgets):
            winner = winner_of(line[line["at_epsilon"] == budget], metric)
            text = _words(winner)
            plate = {"facecolor": PAPER, "edgecolor": "none", "boxstyle": "round,pad=0.12", "alpha": 0.92}
            axes.text(
                column, row, text, ha="center", va="center", fontsize=7.5, linespacing=0.95,
                bbox=plate if winner else None,
            )  # fmt: skip
            if winner:
                boxes.setdefault(winner.label, []).append((row, column))
    for label, places in boxes.items():
        rows, columns = np.array(places).T
        axes.barh(rows, 0.96, left=columns - 0.48, height=0.92, **styles[label].bar())
    axes.set_xlim(-0.5, len(budgets) - 0.5)
    axes.set_ylim(lines.ngroups - 0.5, -0.5)
    axes.set_xticks(range(len(budgets)), [f"{budget:.3g}" for budget in budgets])
    axes.set_yticks(range(lines.ngroups), names)
    axes.tick_params(length=0)
    axes.grid(False)
    sns.despine(ax=axes, left=True, bottom=True)
    axes.set_xlabel("ε (smaller promises more)")
    words = METRIC_WORDS[metric]
    what = (
        f"Which label has the largest mean {words} in each cell: the large number is that mean in percent, "
        "the small one its lead over the second best in points, with a star where a paired t test with "
        "Holm's correction tells it from every other label"
    )
    what += "; what is not private does not compete" if cells["not_private"].any() else ""
    file_name = figure_name("best", metric, cells=cells, over=_WHOLE)
    note = caption(what, cells, bands="means over seeds", vary=_WHOLE)
    shown, title = [styles[label] for label in styles if label in boxes], f"Best method per cell by {words}"
    return finish_figure(figure, shown, file_name, title, note, bars=True)


def _words(winner: Winner | None) -> str:
    if winner is None:
        return "–"
    lead = "" if np.isnan(winner.lead) else f"\n+{100 * winner.lead:.1f}{'*' if winner.clear else ''}"
    return f"{100 * winner.mean:.1f}{lead}"


def _line_words(lines: list[tuple[str, str, str, float]]) -> list[str]:
    """Each line's own data and ratio; encoder and pool only where they tell lines apart."""
    found = []
    for data, encoder, pool, ratio in lines:
        kin = [line for line in lines if line[0] == data]
        words = [data]
        words += [encoder] if len({line[1] for line in kin}) > 1 else []
        words += [pool if pd.notna(pool) else "no pool"] if len({str(line[2]) for line in kin}) > 1 else []
        found.append(", ".join([*map(brief, words), *([f"ratio {ratio:g}"] if ratio else [])]))
    return found


def best_k(frame: pd.DataFrame, *, metric: str = "balanced_accuracy") -> pd.DataFrame:
    """The K with the largest mean over seeds by `imbalance` and `at_epsilon`; ties go to the smaller K."""
    means = with_k(frame).groupby(["imbalance", "at_epsilon", "k"])[metric].mean().dropna().reset_index()
    return means.loc[means.groupby(["imbalance", "at_epsilon"])[metric].idxmax()]


def with_k(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells whose methods have a number of prototypes, with that number as the column `k`."""
    k = frame["settings"].map(lambda settings: loads(settings).get("k"))
    return frame.assign(k=k)[k.map(lambda number: isinstance(number, int)).astype(bool)].astype({"k": int})


@plot_style()
def optimal_k(frame: pd.DataFrame, *, metric: str = "balanced_accuracy") -> list[Drawing]:
    """The best K against ε, a line per imbalance ratio; a figure per data set where several K were tried."""
    return [
        _k_curve(cells, metric)
        for cells in split(with_k(frame), over=("imbalance",))
        if cells["k"].nunique() > 1 and cells["at_epsilon"].nunique() > 1
    ]


def _k_curve(cells: pd.DataFrame, metric: str) -> Drawing:
    found = best_k(cells, metric=metric)
    ratios, known = sorted(found["imbalance"].unique()), sorted(cells["k"].unique())
    apart = {ratio: 1 + 0.05 * (place - (len(ratios) - 1) / 2) for place, ratio in enumerate(ratios)}
    found = found.assign(shown=found["k"] * found["imbalance"].map(apart))  # lines that agree stay visible
    figure, axes = plt.subplots(figsize=(5.6, 3.4))
    sns.lineplot(
        found.assign(ratio=found["imbalance"].map(ratio_words)), x="at_epsilon", y="shown", hue="ratio",
        style="ratio", markers=list("os^DvPh<>pd")[: len(ratios)], dashes=False, palette="colorblind",
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_yticks(known, [str(k) for k in known])
    axes.set_ylim(known[0] / 1.25, known[-1] * 1.25)
    epsilon_axis(axes, cells)
    axes.set_ylabel("best K")
    axes.legend(title=None)
    data = cells.iloc[0]["data"]
    what = (
        f"The K, of {', '.join(map(str, known))}, with the largest mean {METRIC_WORDS[metric]} at each ε on "
        f"{data}; lines are moved apart by a few percent where they agree. The choice looks at test results, "
        "so it is oracle-tuned: no release may use it without paying"
    )
    file_name = figure_name("best-k", metric, cells=cells, over=("imbalance",))
    note = caption(what, cells, bands="means over seeds", vary=("imbalance", "rows"))
    return finish_figure(figure, [], file_name, f"Best number of prototypes against ε: {data}", note)


_MOST_BUDGETS = 3


@plot_style()
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
    chosen = thin_ticks(cells["at_epsilon"], most=_MOST_BUDGETS)
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
    file_name = figure_name(*name, cells=cells)
    note = caption(f"{opening(words)} of each variant on {data}, at {budgets}", cells, bands=whiskers)
    return finish_figure(grid.figure, shown, file_name, f"Variants side by side: {data}", note, bars=None)


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
