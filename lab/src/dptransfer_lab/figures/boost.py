"""Performance boost against public shots: how much of the gap to no privacy the private data close."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dptransfer_lab.figures.drawing import Drawing, finished
from dptransfer_lab.figures.lines import level_line, line_panels, log_ticks
from dptransfer_lab.figures.style import Style, shown_in, styled
from dptransfer_lab.points import caption, figure_name, split, thinned

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


@styled()
def performance_boost(frame: pd.DataFrame, styles: Mapping[str, Style]) -> list[Drawing]:
    """Boost against shots, one panel per ε (at most three); a figure per data set with both references."""
    groups = ((cells, boosts(cells)) for cells in split(frame, over=("shots",)))
    return [_figure(cells, found, styles) for cells, found in groups if found["shots"].nunique() > 1]


def _figure(cells: pd.DataFrame, found: pd.DataFrame, styles: Mapping[str, Style]) -> Drawing:
    budgets = thinned(found["at_epsilon"], most=3)
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
    return finished(
        figure,
        shown_in(found, styles),
        name=figure_name("boost", cells=cells, over=("shots",)),
        title=f"Performance boost against public shots: {data}",
        caption=caption(what, cells, bands="of mean errors over seeds", vary=("shots", "rows")),
    )
