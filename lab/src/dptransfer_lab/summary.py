"""Results over seeds: mean, interval, median and quartiles for each group of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dptransfer_lab.intervals import mean_of
from dptransfer_lab.results import GROUP, METRICS, SIZES

if TYPE_CHECKING:
    import pandas as pd


def one_per_seed(frame: pd.DataFrame, by: Sequence[str] = GROUP) -> pd.DataFrame:
    """Each group with one cell per seed: the last, where two versions of the library made the same one."""
    return frame.drop_duplicates([*by, "seed"], keep="last")


def summarise(
    frame: pd.DataFrame, metric: str = "balanced_accuracy", *, by: Sequence[str] = GROUP
) -> pd.DataFrame:
    """One row per group of cells, in the order they come.

    Columns: those of `by`; `n`, how many cells have the number; `mean`, with its interval `low` and `high`;
    `median`, `q25` and `q75`; the sizes of a typical cell; and `message`, why a cell is not done. Numbers are
    NaN where a group has none.

    Args:
        frame: cells, as `read_results` gives them.
        metric: a metric or a cost.
        by: the columns that a group shares.
    """
    top = 1.0 if metric in METRICS else math.inf
    return (
        one_per_seed(frame)
        .groupby(list(by), dropna=False, sort=False)
        .agg(
            n=(metric, "count"),
            mean=(metric, "mean"),
            low=(metric, lambda values: mean_of(values, top=top).low),
            high=(metric, lambda values: mean_of(values, top=top).high),
            median=(metric, "median"),
            q25=(metric, lambda values: values.quantile(0.25)),
            q75=(metric, lambda values: values.quantile(0.75)),
            **{name: (name, "first") for name in SIZES if name not in by},
            message=("message", "first"),
        )
        .reset_index()
    )
