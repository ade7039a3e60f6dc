"""Per-instance privacy loss: how much of the promised ε each example really uses, sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dptransfer_lab.figures.curves import thinned
from dptransfer_lab.figures.drawing import Drawing, labelled, legend, sheet
from dptransfer_lab.figures.points import (
    axis_epsilon,
    by,
    by_label,
    caption,
    done,
    figure_name,
    slug,
    split,
)
from dptransfer_lab.figures.style import INK, QUIET, Style
from dptransfer_lab.instance_loss import PERCENTILES, losses_by_size
from dptransfer_lab.results import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BUDGETS = 3
_SIZES = ("smallest\n25 %", "small", "large", "largest\n25 %")
NOT_FOR_RELEASE = (
    "The losses are computed from the private rows and no guarantee covers them: they must not be published "
    "with a release."
)


def loss_curves(records: Sequence[Record], styles: Mapping[str, Style]) -> list[Drawing]:
    """Sorted ε of the examples, a line per label, with the promised ε as a level line; a figure per budget.

    Where class sizes differ a second panel shows the median loss from small classes to large ones.
    """
    usable = [record for record in done(records) if record["extra"].get("instance_loss")]
    figures = []
    for members in split(usable):
        budgets = by(members, lambda record: axis_epsilon(record["budget"]))
        figures += [_figure(budgets[one], styles, one) for one in thinned(list(budgets), most=_MOST_BUDGETS)]
    return figures


def _figure(records: list[Record], styles: Mapping[str, Style], epsilon: float) -> Drawing:
    lines = by_label(records)
    shown = [style for label, style in styles.items() if label in lines]
    sizes = any(losses_by_size(record["extra"]["instance_loss"]) for record in records)
    figure, [panels] = sheet(1, 1 + sizes, width=3.9 if sizes else 5.4, height=3.1)
    for style in shown:
        found = [record["extra"]["instance_loss"] for record in lines[style.label]]
        _line(panels[0], PERCENTILES, [one["percentiles"] for one in found], style, every=10)
        groups = [group for one in found if (group := losses_by_size(one))]
        if groups:
            _line(panels[1], range(len(_SIZES)), groups, style)
    promised = max(record["extra"]["instance_loss"]["promised"] for record in records)
    for axes in panels:
        axes.axhline(promised, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        axes.set_ylim(0, 1.12 * promised)
    panels[0].annotate(
        f"promised: ε = {promised:.3g}",
        (0, promised),
        xytext=(3, 3),
        textcoords="offset points",
        fontsize=8,
        color=QUIET,
    )
    panels[0].set_xlim(0, 100)
    delta = records[0]["budget"]["delta"]
    labelled(
        panels[0], x="examples, from the least to the most exposed, %", y=f"privacy loss ε at δ = {delta:g}"
    )
    if sizes:
        panels[1].set_xticks(range(len(_SIZES)), _SIZES)
        labelled(panels[1], x="classes by their number of examples")
    legend(figure, shown)
    what = (
        f"Each example's own privacy loss on {records[0]['data']} under the run that it was in, sorted, at a "
        f"budget of ε = {epsilon:.3g}; dashed is what was promised to all"
        f"{'; right, medians within classes, averaged over quarters of the classes' if sizes else ''}. "
        + NOT_FOR_RELEASE
    )
    return Drawing(
        name=figure_name(("instance-loss", epsilon), records),
        title=f"Per-instance privacy loss at ε = {epsilon:.3g}: {records[0]['data']}",
        caption=caption(
            what, records, bands="the line is the mean over seeds, the band reaches to the extremes"
        ),
        figure=figure,
    )


def _line(
    axes: Axes, x: Sequence[int], seeds: Sequence[Sequence[float]], style: Style, *, every: int = 1
) -> None:
    """Mean and extremes over seeds."""
    y = np.array(seeds)
    axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=style.colour.light, alpha=0.16, linewidth=0)
    axes.plot(x, y.mean(axis=0), gid=slug("line", style.label), **{**style.line(), "markevery": every})
