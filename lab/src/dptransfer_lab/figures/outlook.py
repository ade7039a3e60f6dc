"""A predicted curve: accuracy against ε for a task that nobody has looked at yet."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dptransfer_lab.figures.curves import thinned
from dptransfer_lab.figures.drawing import Drawing, labelled, legend, percent, sheet
from dptransfer_lab.figures.points import axis_epsilon
from dptransfer_lab.figures.style import QUIET, styles_of

if TYPE_CHECKING:
    from dptransfer_lab.explore import Outlook, Prediction


def predicted_curve(outlook: Outlook) -> Drawing:
    """Median over the simulated tasks, with a band from the lowest to the highest."""
    methods = list(dict.fromkeys(one.method for one in outlook.predictions))
    marks = {"not_private": False, "oracle_tuned": False}
    styles = styles_of({"label": name, "method": name, "marks": marks} for name in methods)
    figure, [[axes]] = sheet(width=5.4, height=3.2)
    for name, style in styles.items():
        points = [one for one in outlook.predictions if one.method == name and one.accuracies]
        if points:
            x = [place(one) for one in points]
            low, high = ([end(one.accuracies) for one in points] for end in (min, max))
            axes.fill_between(x, low, high, color=style.colour.light, alpha=0.14, linewidth=0)
            axes.plot(
                x, [statistics.median(one.accuracies) for one in points], gid=f"line-{name}", **style.line()
            )
    ticks = thinned(sorted({place(one) for one in outlook.predictions}))
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.minorticks_off()
    percent(axes)
    labelled(axes, x="ε (smaller promises more)", y="predicted balanced accuracy")
    axes.text(0.99, 0.02, "PREDICTION", transform=axes.transAxes, ha="right", fontsize=8, color=QUIET)
    legend(figure, list(styles.values()))
    caption = (
        f"Predicted balanced accuracy against ε. The line is the median of {outlook.tasks} simulated tasks, "
        f"the band reaches from the lowest to the highest. {outlook.how}"
    )
    return Drawing("explore", "Predicted accuracy against ε", caption, figure)


def place(one: Prediction) -> float:
    """Where a prediction stands on the axis."""
    return axis_epsilon(one.budget.to_dict())


def span(values: Sequence[float]) -> tuple[float, float, float]:
    """Lowest, median and highest.

    >>> span([3.0, 1.0, 2.0])
    (1.0, 2.0, 3.0)
    """
    return min(values), statistics.median(values), max(values)
