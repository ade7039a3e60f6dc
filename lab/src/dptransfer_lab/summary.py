"""Results over seeds: mean, median, quantiles and a confidence interval for each group of cells.

The interval is Student's: mean ± t · s/√n at 95 %, over the n seeds, each with its own tail, rows and noise,
cut to the range that the number has. It covers what changes with the seed, and not the choice of the data set
or of its test rows. With one seed there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer_lab.results import GROUP, METRICS, SIZES

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.05, 0.25, 0.75, 0.95)
LEVEL = 0.95


def one_per_seed(frame: pd.DataFrame, by: Sequence[str] = GROUP) -> pd.DataFrame:
    """Each group with one cell per seed: the last, where two versions of the library made the same one."""
    return frame.drop_duplicates([*by, "seed"], keep="last")


def summarise(
    frame: pd.DataFrame, metric: str = "balanced_accuracy", *, by: Sequence[str] = GROUP
) -> pd.DataFrame:
    """One row per group of cells, in the order they come.

    Columns: those of `by`; `n`, how many cells have the number; `mean`, `median`, `deviation`, `low` and
    `high` (the interval), `q05`, `q25`, `q75`, `q95`; the sizes of a typical cell; and
    `message`, why a cell is not done. Numbers are NaN where a group has none.

    Args:
        frame: cells, as `read_results` gives them.
        metric: a metric or a cost.
        by: the columns that a group shares.
    """
    groups = one_per_seed(frame).groupby(list(by), dropna=False, sort=False)
    quantiles = {f"q{100 * level:02.0f}": _quantile(metric, level) for level in QUANTILES}
    sizes = {name: (name, "first") for name in SIZES if name not in by}
    table = groups.agg(
        n=(metric, "count"),
        mean=(metric, "mean"),
        median=(metric, "median"),
        deviation=(metric, "std"),
        **quantiles,
        **sizes,
        message=("message", "first"),
    ).reset_index()
    reach = _t(table["n"]) * table["deviation"] / np.sqrt(table["n"])
    most = 1.0 if metric in METRICS else np.inf
    table["low"], table["high"] = ((table["mean"] + side * reach).clip(0.0, most) for side in (-1, 1))
    return table


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Mean, median, spread, quantiles and the 95 % t interval of the mean, of one group's numbers.

    >>> found = over_seeds([0.5, 0.7, 0.6])
    >>> found["n"], round(found["mean"], 3), round(found["low"], 3), round(found["high"], 3)
    (3, 0.6, 0.352, 0.848)
    """
    numbers = np.asarray(values, dtype=np.float64)
    count, mean = len(numbers), float(numbers.mean())
    deviation = float(numbers.std(ddof=1)) if count > 1 else None
    reach = None if deviation is None else float(_t(count)) * deviation / np.sqrt(count)
    return {
        "n": count,
        "mean": mean,
        "median": float(np.median(numbers)),
        "deviation": deviation,
        "low": None if reach is None else mean - reach,
        "high": None if reach is None else mean + reach,
        "quantiles": {f"{level:g}": float(np.quantile(numbers, level)) for level in QUANTILES},
        "values": numbers.tolist(),
    }


def _quantile(metric: str, level: float) -> tuple[str, Any]:
    return metric, lambda values: values.quantile(level)


def _t(count: Any) -> Any:
    """Student's t of a two-sided interval over so many numbers; NaN for fewer than two."""
    from scipy.stats import t

    return t.ppf((1 + LEVEL) / 2, np.where(np.asarray(count) > 1, np.asarray(count) - 1, np.nan))
