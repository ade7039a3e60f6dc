"""A predicted curve: accuracy against ε for a task that nobody has looked at yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from dptransfer_lab.figures.drawing import Drawing, finished, percent
from dptransfer_lab.figures.lines import epsilon_axis, line_panels
from dptransfer_lab.figures.style import QUIET, styled, styles_of
from dptransfer_lab.points import axis_epsilon

if TYPE_CHECKING:
    from dptransfer_lab.explore import Outlook, Prediction


@styled()
def predicted_curve(outlook: Outlook) -> Drawing:
    """Mean over the simulated tasks, with a band from the lowest to the highest."""
    data = pd.DataFrame(
        [
            {"label": one.method, "at_epsilon": place(one), "accuracy": accuracy}
            for one in outlook.predictions
            for accuracy in one.accuracies or (float("nan"),)
        ]
    ).assign(not_private=False, oracle_tuned=False, method=lambda frame: frame["label"])
    styles = styles_of(data)
    figure, panels = line_panels(data, styles, x="at_epsilon", y="accuracy", errorbar=("pi", 100))
    axes = panels[None]
    epsilon_axis(axes, data)
    percent(axes)
    axes.set_ylabel("predicted balanced accuracy")
    axes.text(0.99, 0.02, "PREDICTION", transform=axes.transAxes, ha="right", fontsize=8, color=QUIET)
    caption = (
        f"Predicted balanced accuracy against ε. The line is the mean of {outlook.tasks} simulated tasks, "
        f"the band reaches from the lowest to the highest. {outlook.how}"
    )
    return finished(
        figure, list(styles.values()), name="explore", title="Predicted accuracy against ε", caption=caption
    )


def place(one: Prediction) -> float:
    """Where a prediction stands on the axis."""
    budget = one.budget
    return axis_epsilon(budget.epsilon, budget.rho, budget.mu, budget.delta)
