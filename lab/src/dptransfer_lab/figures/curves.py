"""A metric against ε, with a second axis in ρ and a panel per value of a factor; attacks against errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from dptransfer_lab.figures.drawing import Drawing, finished, percent
from dptransfer_lab.figures.lines import MEAN_AND_INTERVAL, columns_for, epsilon_axis, level_line, line_panels
from dptransfer_lab.figures.style import QUIET, Style, shown_in, styled
from dptransfer_lab.points import (
    METRIC_WORDS,
    UNIT_WORDS,
    brief,
    caption,
    figure_name,
    opening,
    ratio_words,
    split,
)

_ERRORS = {"accuracy": "test error", "balanced_accuracy": "balanced error"}
_RHO = {"pure": "ε²/8, as for one selection", "zcdp": "the budget itself"}
_TOGETHER: dict[str, tuple[str, ...]] = {  # a data set brings its own classes, encoder and sizes
    "data": ("data", "encoder", "classes", "dimension", "rows", "pool", "pool_rows"),
    "encoder": ("encoder", "dimension", "pool_rows"),
    "pool": ("pool", "pool_rows"),
}
_FACTOR_WORDS = {
    "imbalance": "imbalance ratio", "shots": "number of public shots", "data": "data set",
    "unit": "what is protected as a whole",
}  # fmt: skip
_PANEL_WORDS = {
    "shots": "{:,} shots per class", "pool_rows": "{:,} public rows", "rows": "{:,} private rows",
    "unit": "ε per {}",
}  # fmt: skip


@styled()
def curves(
    frame: pd.DataFrame,
    styles: Mapping[str, Style],
    *,
    metric: str = "balanced_accuracy",
    over: str | None = None,
    error: bool = False,
) -> list[Drawing]:
    """The metric against ε, one line per label; a figure for each setting that has two budgets or more.

    `over` is a factor, such as 'imbalance' or 'data', with one panel for each of its values. `error` draws
    1 − the metric, as papers that print test errors do.
    """
    free = () if over is None else _TOGETHER.get(over, (over,))
    cells, words = frame[frame[metric].notna()], METRIC_WORDS.get(metric, metric)
    if error:
        cells, words = cells.assign(**{metric: 1 - cells[metric]}), _ERRORS.get(metric, f"1 − {words}")
    several = [some for some in split(cells, over=free) if some["at_epsilon"].nunique() > 1]
    return [_curve(some, styles, metric, words, over, free) for some in several]


def _curve(
    cells: pd.DataFrame,
    styles: Mapping[str, Style],
    metric: str,
    words: str,
    over: str | None,
    free: Sequence[str],
) -> Drawing:
    order = [unit for unit in UNIT_WORDS if unit in set(cells["unit"])] if over == "unit" else None
    figure, panels = line_panels(cells, styles, x="at_epsilon", y=metric, panel=over, order=order)
    columns = columns_for(len(panels))
    for place, (value, axes) in enumerate(panels.items()):
        epsilon_axis(axes, cells, rho=place < columns)
        if over is not None:
            ratio = over == "imbalance"
            axes.set_title(brief(ratio_words(value) if ratio else _PANEL_WORDS.get(over, "{}").format(value)))
        if place + columns < len(panels):
            axes.set_xlabel("")
        axes.set_ylabel("" if place % columns else words)
        if metric == "attack_auc":
            level_line(axes, 0.5)
        elif metric in METRIC_WORDS:
            percent(axes)
    first = cells.iloc[0]
    where = "all data sets" if over == "data" else first["data"]
    rule = _RHO.get(first["flavour"], "of Gaussian noise")
    what = f"{opening(words)} against ε on {where}; above, the same budget as ρ of zCDP ({rule})"
    what += "" if over is None else f", one panel per {_FACTOR_WORDS.get(over, over)}"
    kind = "" if words == METRIC_WORDS.get(metric, metric) else "error"
    vary = (*free, "rows") if over == "imbalance" else free
    return finished(
        figure,
        shown_in(cells, styles),
        name=figure_name(metric, kind, "by", over or "epsilon", cells=cells, over=free),
        title=f"{opening(words)} against ε: {where}",
        caption=caption(what, cells, bands=MEAN_AND_INTERVAL, vary=vary),
    )


@styled()
def attack_trade(frame: pd.DataFrame, styles: Mapping[str, Style]) -> list[Drawing]:
    """Membership-attack AUC against test error, one line per label through its budgets."""
    usable = frame[frame["attack_auc"].notna()]
    several = (cells for cells in split(usable) if cells["at_epsilon"].nunique() > 1)
    return [_trade(cells, styles) for cells in several]


def _trade(cells: pd.DataFrame, styles: Mapping[str, Style]) -> Drawing:
    means = cells.groupby(["label", "at_epsilon"])[["accuracy", "attack_auc"]].mean().reset_index()
    means["error"] = 1 - means["accuracy"]
    figure, panels = line_panels(means, styles, x="error", y="attack_auc", estimator=None, size=(5.6, 3.4))
    axes = panels[None]
    for _, line in means.groupby("label"):
        if line["error"].max() - line["error"].min() > 0.005:  # the ends: all of them would hide each other
            for _, end in line.iloc[[0, -1]].iterrows():
                axes.annotate(
                    f"ε {end['at_epsilon']:.3g}", (end["error"], end["attack_auc"]), xytext=(4, 4),
                    textcoords="offset points", fontsize=6.5, color=QUIET,
                )  # fmt: skip
    level_line(axes, 0.5)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.49), max(high, 0.52))
    axes.set(xlabel="test error", ylabel="membership-attack AUC")
    percent(axes, "x")
    data = cells.iloc[0]["data"]
    what = (
        f"How well members are told from non-members against the test error on {data}; lower left is better, "
        "0.5 (dotted) is a coin toss; the ends of a line say its smallest and largest ε, where they are apart"
    )
    return finished(
        figure,
        shown_in(cells, styles),
        name=figure_name("attack", cells=cells),
        title=f"Attack against error: {data}",
        caption=caption(what, cells, bands="points are means over seeds"),
    )
