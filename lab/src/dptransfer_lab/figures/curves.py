"""Curves: a metric against ε, attacks against errors, boost against shots, and a predicted accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from dptransfer_lab.figures.drawing import (
    MEAN_AND_INTERVAL,
    Drawing,
    columns_for,
    epsilon_axis,
    finish_figure,
    level_line,
    line_panels,
    log_ticks,
    percent,
)
from dptransfer_lab.figures.style import QUIET, Style, plot_style, shown_in, styles_of
from dptransfer_lab.points import (
    METRIC_WORDS,
    UNIT_WORDS,
    brief,
    caption,
    figure_name,
    opening,
    ratio_words,
    split,
    thin_ticks,
)

if TYPE_CHECKING:
    from dptransfer_lab.explore import Outlook


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


@plot_style()
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
    file_name = figure_name(metric, kind, "by", over or "epsilon", cells=cells, over=free)
    note = caption(what, cells, bands=MEAN_AND_INTERVAL, vary=vary)
    return finish_figure(
        figure, shown_in(cells, styles), file_name, f"{opening(words)} against ε: {where}", note
    )


@plot_style()
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
    file_name = figure_name("attack", cells=cells)
    note = caption(what, cells, bands="points are means over seeds")
    return finish_figure(figure, shown_in(cells, styles), file_name, f"Attack against error: {data}", note)


ONLY_PUBLIC, PARAGON = "only-public", "as-published-paragon"
_ROWS = ["data", "encoder", "shots", "imbalance", "rows", "classes", "dimension"]
"""Which rows a fit had; the two references depend on neither the budget nor whom it protects."""


def boosts(frame: pd.DataFrame) -> pd.DataFrame:
    """PB = (e_public − e_paragon) ÷ (e_private − e_paragon) by label, ε, unit and rows, as `boost`.

    The errors are means over seeds. 1 is no better than the public shots alone; more is better. It is missing
    where the private error is not above that of the paragon, which has no privacy at all.
    """
    errors = frame.assign(error=1 - frame["accuracy"])
    public, paragon = (
        errors[errors["method"] == name].groupby(_ROWS)["error"].mean() for name in (ONLY_PUBLIC, PARAGON)
    )
    rest = errors[~errors["method"].isin((ONLY_PUBLIC, PARAGON))]
    apart = [*_ROWS, "unit", "person_bound", "label", "at_epsilon"]
    private = rest.groupby(apart)["error"].mean().reset_index()
    found = private.join(public.rename("public"), on=_ROWS).join(paragon.rename("paragon"), on=_ROWS)
    found = found.dropna(subset=["public", "paragon"])
    gap = (found["error"] - found["paragon"]).round(12)
    return found.assign(boost=((found["public"] - found["paragon"]) / gap.where(gap > 0)).round(12))


@plot_style()
def performance_boost(frame: pd.DataFrame, styles: Mapping[str, Style]) -> list[Drawing]:
    """Boost against shots, one panel per ε (at most three); a figure per data set with both references."""
    groups = ((cells, boosts(cells)) for cells in split(frame, over=("shots",)))
    return [_figure(cells, found, styles) for cells, found in groups if found["shots"].nunique() > 1]


def _figure(cells: pd.DataFrame, found: pd.DataFrame, styles: Mapping[str, Style]) -> Drawing:
    budgets = thin_ticks(found["at_epsilon"], most=3)
    found = found[found["at_epsilon"].isin(budgets)]
    figure, panels = line_panels(
        found, styles, x="shots", y="boost", panel="at_epsilon", order=budgets, estimator=None
    )
    shots = sorted(found["shots"].unique())
    for epsilon, axes in panels.items():
        level_line(axes, 1.0)
        log_ticks(axes, shots)
        axes.set(title=f"ε = {epsilon:.3g}", xlabel="public shots per class", ylabel="performance boost")
        axes.label_outer()
    data, lost = cells.iloc[0]["data"], int(found["boost"].isna().sum())
    what = (
        f"Performance boost on {data}: (error of the public shots alone − error without privacy) ÷ (error of "
        "the private model − error without privacy); 1, the dotted line, is no better than the public shots "
        "alone"
    )
    what += f". Left out: {lost} as good as without privacy, for which the boost has no value" if lost else ""
    file_name = figure_name("boost", cells=cells, over=("shots",))
    note = caption(what, cells, bands="of mean errors over seeds", vary=("shots", "rows"))
    return finish_figure(
        figure, shown_in(found, styles), file_name, f"Performance boost against public shots: {data}", note
    )


@plot_style()
def predicted_curve(outlook: Outlook) -> Drawing:
    """Mean over the simulated tasks, with a band from the lowest to the highest."""
    data = outlook.predictions.assign(
        label=outlook.predictions["method"], not_private=False, oracle_tuned=False
    )
    styles = styles_of(data)
    figure, panels = line_panels(data, styles, x="at_epsilon", y="accuracy", errorbar=("pi", 100))
    axes = panels[None]
    epsilon_axis(axes, data)
    axes.set_xlabel(f"ε for one {outlook.unit.words} (smaller promises more)")
    percent(axes)
    axes.set_ylabel("predicted balanced accuracy")
    axes.text(0.99, 0.02, "PREDICTION", transform=axes.transAxes, ha="right", fontsize=8, color=QUIET)
    caption = (
        f"Predicted balanced accuracy against ε for one {outlook.unit.words}. The line is the mean of "
        f"{outlook.tasks} simulated tasks, the band reaches from the lowest to the highest. {outlook.how}"
    )
    return finish_figure(figure, list(styles.values()), "explore", "Predicted accuracy against ε", caption)
