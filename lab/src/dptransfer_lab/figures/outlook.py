"""A predicted curve: accuracy against ε for a task that nobody has looked at yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptransfer_lab.figures.drawing import Drawing, finished, percent
from dptransfer_lab.figures.lines import epsilon_axis, line_panels
from dptransfer_lab.figures.style import QUIET, styled, styles_of

if TYPE_CHECKING:
    from dptransfer_lab.explore import Outlook


@styled()
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
    return finished(
        figure, list(styles.values()), name="explore", title="Predicted accuracy against ε", caption=caption
    )
