"""Bars side by side at one budget: what each part of a method, or each setting, contributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dptransfer_lab.figures.curves import thinned
from dptransfer_lab.figures.drawing import Drawing, labelled, sheet, titled
from dptransfer_lab.figures.points import (
    METRIC_WORDS,
    axis_epsilon,
    by,
    by_label,
    caption,
    done,
    figure_name,
    opening,
    slug,
    split,
    spread,
    value_of,
)
from dptransfer_lab.figures.style import INK, Style
from dptransfer_lab.results import Record

_MOST_BUDGETS = 3
_BANDS = "the bar is the mean, the whisker its 95 % interval (Student's t over seeds), none with one seed"


def ablation(
    records: Sequence[Record],
    styles: Mapping[str, Style],
    *,
    metric: str = "balanced_accuracy",
    error: bool = False,
) -> list[Drawing]:
    """Bars by label, one panel per budget (three at most); a figure for each setting with two labels or more.

    Args:
        records: any records.
        styles: how each label is drawn.
        metric: a metric of the record.
        error: draw 1 − the metric.
    """
    usable = [record for record in done(records) if value_of(record, metric) is not None]
    groups = (members for members in split(usable) if len(by_label(members)) > 1)
    return [_figure(members, styles, metric, error) for members in groups]


def _figure(records: list[Record], styles: Mapping[str, Style], metric: str, error: bool) -> Drawing:
    budgets = by(records, lambda record: axis_epsilon(record["budget"]))
    chosen = thinned(list(budgets), most=_MOST_BUDGETS)
    shown = [style for label, style in styles.items() if label in by_label(records)]
    figure, [panels] = sheet(1, len(chosen), width=2.6, height=0.6 + 0.27 * len(shown))
    words = f"1 − {METRIC_WORDS[metric]}" if error else METRIC_WORDS[metric]
    for place, (axes, budget) in enumerate(zip(panels, chosen, strict=True)):
        _bars(axes, budgets[budget], shown, metric, error)
        axes.set_yticks(range(len(shown)), [style.words for style in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0, labelleft=place == 0)
        titled(axes, f"ε = {budget:.3g}")
        labelled(axes, x=words)
    first = records[0]
    what = f"{opening(words)} of each variant on {first['data']}, at {_listed(chosen)}"
    return Drawing(
        name=figure_name(("ablation", metric, "error" if error else ""), records),
        title=f"Variants side by side: {first['data']}",
        caption=caption(what, records, bands=_BANDS),
        figure=figure,
    )


def _bars(axes: object, records: Sequence[Record], shown: Sequence[Style], metric: str, error: bool) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    labels = by_label(records)
    reach = 0.0
    for place, style in enumerate(shown):
        point = spread(labels.get(style.label, []), metric)
        if point is None:
            axes.text(0.01, place, "no result", va="center", fontsize=7, color=INK)
            continue
        mean = 1 - point["mean"] if error else point["mean"]
        axes.barh(place, mean, height=0.72, gid=slug("bar", style.label), **style.bar())
        if point["low"] is not None:
            half = point["mean"] - point["low"]
            axes.errorbar(mean, place, xerr=half, color=INK, linewidth=1.1, capsize=2.5)
            reach = max(reach, mean + half)
        reach = max(reach, mean)
    for place, style in enumerate(shown):
        point = spread(labels.get(style.label, []), metric)
        if point is not None:
            mean = 1 - point["mean"] if error else point["mean"]
            half = 0.0 if point["low"] is None else point["mean"] - point["low"]
            edge = mean + half + 0.015 * reach
            axes.text(edge, place, f"{100 * mean:.1f}", va="center", fontsize=7, color=INK)
    axes.set_xlim(0, min(max(reach * 1.22, 1e-3), 1.2))  # a share; a whisker beyond it says little
    axes.grid(False)
    percent_x(axes)


def percent_x(axes: object) -> None:
    """Shares on the horizontal axis, as percentages."""
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    assert isinstance(axes, Axes)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol="%"))


def _listed(budgets: Sequence[float]) -> str:
    return " and ".join(f"ε = {budget:.3g}" for budget in budgets)
