"""Results over seeds: mean, median, quantiles and a confidence interval for each group of cells.

The interval is Student's: mean ± t · s/√n at 95 %, over the n seeds, each with its own tail, rows and noise.
It covers what changes with the seed, and not the choice of the data set or of its test rows. With one seed
there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dptransfer_lab.measure import METRICS
from dptransfer_lab.results import Record, canonical

SIZES = ("rows", "classes", "pool_rows", "dimension")
COST = ("fit_seconds", "cell_seconds", "overhead_seconds", "peak_mib")
QUANTILES = (0.05, 0.25, 0.75, 0.95)
LEVEL = 0.95
_COORDINATES = (
    "data",
    "encoder",
    "classes",
    "dimension",
    "rows",
    "pool",
    "pool_rows",
    "shots",
    "imbalance",
    "budget",
    "method",
    "label",
    "settings",
)


def coordinates(record: Mapping[str, Any]) -> dict[str, Any]:
    """Where a record stands in the grid, but for its seed."""
    return {name: record[name] for name in _COORDINATES}


def group_key(record: Mapping[str, Any]) -> str:
    """The same text for records that differ in their seed only.

    Sizes count as they were asked for: what a cut leaves may depend on which classes the seed chose.
    """
    found = {name: record[name] for name in SIZES}
    return canonical({**coordinates(record), **record["extra"].get("cut", found)})


def grouped(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by group, one per seed: the last one, where two versions of the library made the same cell."""
    groups: dict[str, dict[int, Record]] = {}
    for record in records:
        groups.setdefault(group_key(record), {})[record["seed"]] = record
    return {key: [seeds[seed] for seed in sorted(seeds)] for key, seeds in groups.items()}


def summarise(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One dict per group of cells: its coordinates, marks, counts by status, and each metric over seeds.

    `metrics` and `cost` hold, by name, what `over_seeds` gives, or None where no cell has the number.
    """
    return [
        {
            **coordinates(_typical(members)),
            "marks": _marks(members),
            "seeds": [record["seed"] for record in members],
            "status": {
                status: sum(record["status"] == status for record in members)
                for status in ("done", "refused", "failed")
            },
            "message": next((record["message"] for record in members if record["message"]), None),
            "guarantee": _typical(members)["guarantee"],
            "metrics": {name: _column(members, "metrics", name) for name in METRICS},
            "cost": {name: _column(members, "cost", name) for name in COST},
        }
        for members in grouped(records).values()
    ]


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Mean, median, spread, quantiles and the 95 % t interval of the mean.

    >>> found = over_seeds([0.5, 0.7, 0.6])
    >>> found["n"], round(found["mean"], 3), round(found["low"], 3), round(found["high"], 3)
    (3, 0.6, 0.352, 0.848)
    """
    numbers = np.asarray(values, dtype=np.float64)
    count = len(numbers)
    mean = float(numbers.mean())
    deviation = float(numbers.std(ddof=1)) if count > 1 else None
    reach = None if deviation is None else _t(count - 1) * deviation / math.sqrt(count)
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


def _typical(members: Sequence[Record]) -> Record:
    """The first member that came to an end; the others may not know their sizes."""
    return next((record for record in members if record["status"] == "done"), members[0])


def _column(members: Sequence[Record], part: str, name: str) -> dict[str, Any] | None:
    values = [record[part][name] for record in members if record[part].get(name) is not None]
    return over_seeds(values) if values else None


def _marks(members: Sequence[Record]) -> dict[str, bool]:
    return {name: any(record["marks"][name] for record in members) for name in members[0]["marks"]}


def _t(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, freedom))
