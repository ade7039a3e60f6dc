"""Which figures a report draws: those a study asks for, or those that its results make sense of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from dptransfer_lab.claims import Where, entries_of
from dptransfer_lab.figures.ablation import ablation
from dptransfer_lab.figures.best import best_methods, optimal_k
from dptransfer_lab.figures.boost import performance_boost
from dptransfer_lab.figures.cost import cost
from dptransfer_lab.figures.curves import attack_trade, curves
from dptransfer_lab.figures.drawing import Drawing
from dptransfer_lab.figures.gallery import Pictures, gallery, pictures_of
from dptransfer_lab.figures.instance import loss_curves
from dptransfer_lab.figures.style import Style
from dptransfer_lab.study import Part

Kind = Literal["curves", "best", "ablation", "cost", "boost", "attack", "instance-loss", "best-k", "gallery"]


class FigureEntry(Part):
    """One `[[figure]]` of a study.

    Attributes:
        kind: which figure.
        metric: which number it shows, for curves, best, ablation and cost.
        over: a factor with one panel for each of its values, for curves.
        error: show 1 − the metric, for curves and ablation.
        where: which cells; default all.
    """

    kind: Kind
    metric: str = ""
    over: str | None = None
    error: bool = False
    where: Where = Where()

    def drawn(self, frame: pd.DataFrame, styles: Mapping[str, Style], pictures: Pictures) -> list[Drawing]:
        """The figures of this kind that these cells have."""
        cells, metric = self.where.of(frame), self.metric or "balanced_accuracy"
        kinds: dict[Kind, Callable[[], list[Drawing]]] = {
            "curves": lambda: curves(cells, styles, metric=metric, over=self.over, error=self.error),
            "best": lambda: best_methods(cells, styles, metric=metric),
            "ablation": lambda: ablation(cells, styles, metric=metric, error=self.error),
            "cost": lambda: cost(cells, styles, cost=self.metric or "fit_seconds"),
            "boost": lambda: performance_boost(cells, styles),
            "attack": lambda: attack_trade(cells, styles),
            "instance-loss": lambda: loss_curves(cells, styles),
            "best-k": lambda: optimal_k(cells, metric=metric),
            "gallery": lambda: gallery(cells, styles, pictures),
        }
        return kinds[self.kind]()


def drawings_of(
    frame: pd.DataFrame, styles: Mapping[str, Style], study: Mapping[str, Any], folders: Sequence[Path] = ()
) -> list[Drawing]:
    """The figures of a study, each name once.

    Args:
        frame: its finished cells, as `placed` gives them.
        styles: how its labels are drawn.
        study: the study, resolved.
        folders: where its files are looked for, for the pictures behind public rows.
    """
    pictures = pictures_of(study, folders)
    found: dict[str, Drawing] = {}
    for entry in entries_of(study, "figure", FigureEntry) or _fitting(frame):
        for drawing in entry.drawn(frame, styles, pictures):
            found.setdefault(drawing.name, drawing)
    return list(found.values())


def _fitting(frame: pd.DataFrame) -> list[FigureEntry]:
    """What the results may have: each drawing function gives nothing where there is nothing to show."""
    over = "imbalance" if frame["imbalance"].nunique() > 1 else None
    variants = frame.groupby("method")["label"].nunique().gt(1).any()
    return [
        FigureEntry(kind="curves", over=over),
        FigureEntry(kind="curves", over=over, metric="minority_accuracy"),
        FigureEntry(kind="best"),
        *([FigureEntry(kind="ablation")] if variants else []),
        FigureEntry(kind="cost"),
        FigureEntry(kind="cost", metric="peak_mib"),
        FigureEntry(kind="boost"),
        FigureEntry(kind="instance-loss"),
        FigureEntry(kind="best-k"),
        FigureEntry(kind="gallery"),
    ]
