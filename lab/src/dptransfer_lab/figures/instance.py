"""Per-instance privacy loss: how much of the promised ε each example really uses, sorted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from dptransfer.base.types import JsonObject
from dptransfer.privacy import number, typeset
from dptransfer_lab.cell_privacy import losses_by_size
from dptransfer_lab.figures.drawing import Drawing, finish_figure, line_panels
from dptransfer_lab.figures.style import INK, QUIET, Style, plot_style, shown_in
from dptransfer_lab.points import caption, cells_with, figure_name, split, thin_ticks

_MOST_BUDGETS = 3
_SORTED, _BY_SIZE = "examples, from the least to the most exposed, %", "classes by their number of examples"
_QUARTERS = ("smallest\n25 %", "small", "large", "largest\n25 %")
NOT_FOR_RELEASE = (
    "The losses are computed from the private rows and no guarantee covers them: they must not be published "
    "with a release."
)


@plot_style()
def loss_curves(frame: pd.DataFrame, styles: Mapping[str, Style]) -> list[Drawing]:
    """Sorted ε of the examples, a line per label, with the promised ε as a level line; a figure per budget.

    Where class sizes differ a second panel shows the median loss from small classes to large ones.
    """
    return [
        _figure(cells[cells["at_epsilon"] == epsilon], styles, epsilon)
        for cells in split(cells_with(frame, "instance_loss"))
        for epsilon in thin_ticks(cells["at_epsilon"], most=_MOST_BUDGETS)
    ]


def _figure(cells: pd.DataFrame, styles: Mapping[str, Style], epsilon: float) -> Drawing:
    data = pd.DataFrame(_points(cells))
    order = [panel for panel in (_SORTED, _BY_SIZE) if panel in set(data["panel"])]
    figure, panels = line_panels(
        data, styles, x="x", y="loss", panel="panel", order=order, errorbar=("pi", 100),
        size=(3.9, 3.1) if len(order) > 1 else (5.4, 3.1), sharex=False,
    )  # fmt: skip
    promised = max(extra["instance_loss"]["promised"] for extra in cells["extra"])
    for panel, axes in panels.items():
        axes.axhline(promised, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        axes.set(ylim=(0, 1.12 * promised or 1.0), xlabel=panel)
    one, many = ("person", "people") if cells.iloc[0]["unit"] == "person" else ("example", "examples")
    first = panels[_SORTED]
    for line in first.lines:
        line.set_markevery(10)
    first.text(2, promised * 1.02, f"promised: ε = {promised:.3g}", fontsize=8, color=QUIET)
    first.set(xlim=(0, 100), xlabel=_SORTED.replace("examples", many))
    first.set(ylabel=f"privacy loss ε at δ = {typeset(number(cells.iloc[0]['delta']))}")
    if _BY_SIZE in panels:
        panels[_BY_SIZE].set_xticks(range(len(_QUARTERS)), _QUARTERS)
    name = cells.iloc[0]["data"]
    sizes = "; right, medians within classes, averaged over quarters of the classes" if len(order) > 1 else ""
    what = (
        f"Each {one}'s own privacy loss on {name} under the run that it was in, sorted, at a budget of ε = "
        f"{epsilon:.3g}; dashed is what was promised to all{sizes}. {NOT_FOR_RELEASE}"
    )
    bands = "the line is the mean over seeds, the band reaches to the extremes"
    file_name, note = figure_name("instance-loss", epsilon, cells=cells), caption(what, cells, bands=bands)
    title = f"Per-instance privacy loss at ε = {epsilon:.3g}: {name}"
    return finish_figure(figure, shown_in(cells, styles), file_name, title, note)


def _points(cells: pd.DataFrame) -> Iterator[JsonObject]:
    for label, extra in zip(cells["label"], cells["extra"], strict=True):
        losses = extra["instance_loss"]
        panels = {_SORTED: losses["percentiles"], _BY_SIZE: losses_by_size(losses) or ()}
        for panel, values in panels.items():
            for x, loss in enumerate(values):
                yield {"label": label, "panel": panel, "x": x, "loss": loss}
