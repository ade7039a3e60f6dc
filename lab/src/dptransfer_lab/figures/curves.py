"""A metric against ε, with quantile bands, a second axis in ρ, and one panel per value of a factor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dptransfer_lab.figures.drawing import Drawing, labelled, legend, percent, plain, sheet, titled
from dptransfer_lab.figures.points import (
    AXIS_WORDS,
    METRIC_WORDS,
    axis_epsilon,
    axis_rho,
    by,
    by_label,
    caption,
    done,
    figure_name,
    line,
    opening,
    slug,
    split,
    value_of,
)
from dptransfer_lab.figures.style import QUIET, Style
from dptransfer_lab.results import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_TICKS = 8
_BANDS = "the line is the median, the band reaches from the 25 % to the 75 % quantile over seeds"
_ERRORS = {"accuracy": "test error", "balanced_accuracy": "balanced error"}
_SHARES = {
    "balanced_accuracy",
    "accuracy",
    "minority_accuracy",
    "worst_class",
    "macro_f1",
    "calibration_error",
    "instance_loss",
    "instance_loss_spread",
}


def curves(
    records: Sequence[Record],
    styles: Mapping[str, Style],
    *,
    metric: str = "balanced_accuracy",
    over: str | None = None,
    error: bool = False,
) -> list[Drawing]:
    """The metric against ε, one line per label; a figure for each setting that has two budgets or more.

    Args:
        records: any records.
        styles: how each label is drawn.
        metric: a metric, or a cost, of the record.
        over: a factor, such as 'imbalance' or 'data', with one panel for each of its values.
        error: draw 1 − the metric, as papers that print test errors do.
    """
    usable = [record for record in done(records) if value_of(record, metric) is not None]
    figures = []
    for members in split(usable, over=_freed(over)):
        if len({axis_epsilon(record["budget"]) for record in members}) > 1:
            figures.append(_figure(members, styles, metric, over, error))
    return figures


def _freed(over: str | None) -> tuple[str, ...]:
    """A data set brings its own classes, encoder and sizes."""
    whole: dict[str, tuple[str, ...]] = {
        "data": ("data", "encoder", "classes", "dimension", "rows", "pool", "pool_rows")
    }
    whole["encoder"] = ("encoder", "dimension", "pool_rows")
    whole["pool"] = ("pool", "pool_rows")
    return () if over is None else whole.get(over, (over,))


def _figure(
    records: list[Record], styles: Mapping[str, Style], metric: str, over: str | None, error: bool
) -> Drawing:
    panels: dict[Any, list[Record]] = {None: records} if over is None else by(records, lambda r: r[over])
    columns = columns_for(len(panels))
    rows = math.ceil(len(panels) / columns)
    single = len(panels) == 1
    figure, grid = sheet(rows, columns, width=5.2 if single else 3.1, height=3.2 if single else 2.75)
    cells = [axes for row in grid for axes in row]
    words = METRIC_WORDS.get(metric, metric)
    beside = AXIS_WORDS.get(metric, metric)
    if error:
        words = beside = _ERRORS.get(metric, f"1 − {beside}")
    for place, (value, members) in enumerate(panels.items()):
        axes = cells[place]
        _lines(axes, members, styles, metric, error)
        _epsilon_axis(axes, records, top=place < columns)
        if over is not None:
            titled(axes, panel_words(over, value))
        last = place + columns >= len(panels)
        labelled(
            axes, x="ε (smaller promises more)" if last else None, y=beside if place % columns == 0 else None
        )
        if metric in _SHARES:
            percent(axes)
        if metric == "attack_auc":
            axes.axhline(0.5, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)
    for axes in cells[len(panels) :]:
        axes.set_visible(False)
    shown = [style for label, style in styles.items() if label in by_label(records)]
    legend(figure, shown)
    first = records[0]
    where = f"{first['data']}" if over != "data" else "all data sets"
    what = f"{opening(words)} against ε on {where}; above, the same budget as ρ of zCDP ({_rho_rule(first)})"
    what += f", one panel per {panel_factor(over)}" if over is not None else ""
    kind = (metric, "error" if error else "", "by", over or "epsilon")
    vary = ("imbalance", "rows") if over == "imbalance" else _freed(over)
    return Drawing(
        name=figure_name(kind, records, over=_freed(over)),
        title=f"{opening(words)} against ε: {where}",
        caption=caption(what, records, bands=_BANDS, vary=vary),
        figure=figure,
    )


def _rho_rule(record: Record) -> str:
    rule = {"pure": "ε²/8, as for one selection", "zcdp": "the budget itself"}
    return rule.get(record["budget"]["flavour"], "of Gaussian noise")


def _lines(
    axes: Axes, records: Sequence[Record], styles: Mapping[str, Style], metric: str, error: bool
) -> None:
    lines = by_label(records)
    for label, style in styles.items():
        points = line(lines.get(label, []), metric, lambda record: axis_epsilon(record["budget"]))
        if not points:
            continue
        x = [place for place, _ in points]
        middle, low, high = ([_turned(value, error) for value in column] for column in _columns(points))
        axes.fill_between(x, low, high, color=style.colour.light, alpha=0.16, linewidth=0)
        axes.plot(x, middle, gid=slug("line", label), **style.line())


def _columns(points: Sequence[tuple[float, dict[str, Any]]]) -> tuple[list[float], list[float], list[float]]:
    return (
        [point["median"] for _, point in points],
        [point["quantiles"]["0.25"] for _, point in points],
        [point["quantiles"]["0.75"] for _, point in points],
    )


def _turned(value: float, error: bool) -> float:
    return 1 - value if error else value


def _epsilon_axis(axes: Axes, records: Sequence[Record], *, top: bool) -> None:
    """Ticks at the budgets themselves, thinned where they are many; above them the same budgets as ρ."""
    budgets = {axis_epsilon(record["budget"]): record["budget"] for record in records}
    chosen = thinned(sorted(budgets))
    axes.set_xscale("log")
    axes.set_xticks(chosen, [f"{value:.3g}" for value in chosen])
    axes.minorticks_off()
    low, high = min(budgets), max(budgets)
    room = (high / low) ** 0.05
    axes.set_xlim(low / room, high * room)
    if top:
        upper = axes.twiny()
        plain(upper)
        upper.grid(False)
        upper.spines["top"].set_visible(True)
        upper.spines["top"].set_color(QUIET)
        upper.set_xscale("log")
        upper.set_xlim(axes.get_xlim())
        upper.set_xticks(chosen, [_short(axis_rho(budgets[value])) for value in chosen])
        upper.minorticks_off()
        upper.tick_params(labelsize=7, colors=QUIET)
        upper.text(
            -0.02, 1.03, "ρ", transform=upper.transAxes, ha="right", va="bottom", fontsize=8, color=QUIET
        )


def columns_for(panels: int) -> int:
    """How many panels stand beside each other.

    >>> [columns_for(panels) for panels in (1, 2, 3, 4, 5, 7)]
    [1, 2, 3, 2, 3, 3]
    """
    return 2 if panels in (2, 4) else min(panels, 3)


def thinned(values: Sequence[float], most: int = _MOST_TICKS) -> list[float]:
    """At most so many of the values: the ends, and others about equally far apart on a log scale.

    >>> thinned([0.1, 0.2, 0.3, 1.0, 10.0], most=3)
    [0.1, 1.0, 10.0]
    """
    if len(values) <= most:
        return list(values)
    low, high = math.log(values[0]), math.log(values[-1])
    places = [low + (high - low) * step / (most - 1) for step in range(most)]
    return sorted({min(values, key=lambda value: abs(math.log(value) - place)) for place in places})


def _short(value: float) -> str:
    """Two digits, and a power of ten where that is shorter.

    >>> _short(0.128), _short(0.00012)
    ('0.13', '1e-4')
    """
    if value >= 0.01:
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    return f"{value:.0e}".replace("e-0", "e-")


def panel_words(over: str, value: Any) -> str:
    """The title of a panel."""
    if over == "imbalance":
        return "sizes as they are" if value == 0 else f"imbalance ratio {value:g}"
    words = {"shots": "shots per class", "pool_rows": "public rows", "rows": "private rows"}
    return f"{value:,} {words[over]}" if over in words else str(value)


def panel_factor(over: str | None) -> str:
    """What the panels differ in, in words."""
    words = {"imbalance": "imbalance ratio", "shots": "number of public shots", "data": "data set"}
    return words.get(over or "", over or "")
