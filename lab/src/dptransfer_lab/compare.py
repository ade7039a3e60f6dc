"""Two runs: which groups of cells changed beyond their noise, and which exist in one only.

Cells of the same seed had the same rows and the same noise stream, so their differences are tested where the
runs have at least two seeds in common (paired t test); otherwise the two sets of seeds are (Welch's test).
Holm's correction keeps the chance of a single false alarm, over all groups, at or below `level`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dptransfer.base.types import JsonObject
from dptransfer.errors import ArgumentError
from dptransfer_lab.results import COST, METRICS, PLACE, SIZES
from dptransfer_lab.statistics import holm, one_per_seed, paired_chance

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Change:
    """One group of cells in two runs.

    Attributes:
        where: the group's coordinates.
        before: mean in the first run.
        after: mean in the second.
        seeds: numbers of seeds in the first run, in the second, and in common.
        p: p value of "no change"; None where one seed tells nothing about noise.
        beyond_noise: whether the change survives Holm's correction.
        test: which test was made, in words.
        same_data: whether both runs read the same bytes.
        other_settings: settings of the method that differ between the runs, by name.
    """

    where: JsonObject
    before: float
    after: float
    seeds: tuple[int, int, int]
    p: float | None
    beyond_noise: bool
    test: str
    same_data: bool
    other_settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs.

    Attributes:
        metric: what was compared.
        level: chance of a single false alarm.
        shared: every group in both, those that changed first.
        only_first: coordinates of groups in the first run only.
        only_second: likewise.
        other_status: groups that have the number in one run only, with what happened in the other.
    """

    metric: str
    level: float
    shared: tuple[Change, ...]
    only_first: tuple[JsonObject, ...]
    only_second: tuple[JsonObject, ...]
    other_status: tuple[tuple[JsonObject, str, str], ...]

    @property
    def changed(self) -> tuple[Change, ...]:
        """The groups that changed beyond their noise."""
        return tuple(change for change in self.shared if change.beyond_noise)


def compare_runs(
    first: pd.DataFrame, second: pd.DataFrame, *, metric: str = "balanced_accuracy", level: float = 0.05
) -> Comparison:
    """Compare two runs by one metric.

    Settings do not tell groups apart: a new default of the library's is a change to be seen.

    Args:
        first: cells of the first run, as `read_results` gives them.
        second: cells of the second.
        metric: a metric or a cost.
        level: chance of a single false alarm, over all groups.
    """
    if metric not in (*METRICS, *COST):
        raise ArgumentError(f"metric must be one of {', '.join((*METRICS, *COST))}; got '{metric}'.")
    if not 0 < level < 1:
        raise ArgumentError(f"level must be above 0 and below 1; got {level:g}.")
    before, after = _by_place(first), _by_place(second)
    tested: list[Change] = []
    other: list[tuple[JsonObject, str, str]] = []
    for place in before:
        if place in after:
            old, new = (side[place].dropna(subset=metric) for side in (before, after))
            if len(old) and len(new):
                tested.append(_tested(old, new, metric))
            elif len(old) or len(new):
                other.append((coordinates(after[place]), _status(before[place]), _status(after[place])))
    standing = holm([math.nan if change.p is None else change.p for change in tested], level)
    corrected = [replace(change, beyond_noise=real) for change, real in zip(tested, standing, strict=True)]
    return Comparison(
        metric=metric,
        level=level,
        shared=tuple(sorted(corrected, key=lambda one: (not one.beyond_noise, -abs(one.after - one.before)))),
        only_first=tuple(coordinates(before[place]) for place in before if place not in after),
        only_second=tuple(coordinates(after[place]) for place in after if place not in before),
        other_status=tuple(other),
    )


def coordinates(cells: pd.DataFrame) -> JsonObject:
    """Where a group of cells stands, JSON-ready; sizes are those of its first cell."""
    first = json.loads(cells.head(1).drop(columns=["extra", "per_class"]).to_json(orient="records"))[0]
    budget = {name: first[name] for name in ("flavour", "epsilon", "delta", "rho", "mu", "relation")}
    names = [name for name in (*PLACE, *SIZES) if name not in budget and not name.startswith("asked_")]
    settings = json.loads(first["settings"])
    return {**{name: first[name] for name in names}, "budget": budget, "settings": settings}


def _by_place(frame: pd.DataFrame) -> dict[tuple[object, ...], pd.DataFrame]:
    import pandas as pd

    groups = one_per_seed(frame, PLACE).groupby(PLACE, dropna=False, sort=False)
    return {  # a missing value is not equal to itself
        tuple(None if pd.isna(value) else value for value in place): cells for place, cells in groups
    }


def _tested(old: pd.DataFrame, new: pd.DataFrame, metric: str) -> Change:
    from scipy import stats

    before, after = old.set_index("seed")[metric], new.set_index("seed")[metric]
    gaps = (after - before).dropna()
    p: float | None = None
    if len(gaps) >= 2:
        test, p = f"paired t test over {len(gaps)} seeds", paired_chance(gaps)
    elif len(before) >= 2 and len(after) >= 2:
        test = "Welch's test"
        if np.ptp(before) == 0 == np.ptp(after):
            p = float(before.iloc[0] == after.iloc[0])
        else:
            p = float(stats.ttest_ind(before, after, equal_var=False).pvalue)
    elif len(gaps) and not gaps.any():
        test, p = "the same number", 1.0
    else:
        test = "one seed: its noise is not known"
    one, other = (json.loads(side["settings"].iloc[0]) for side in (old, new))
    return Change(
        where=coordinates(new),
        before=float(before.mean()),
        after=float(after.mean()),
        seeds=(len(before), len(after), len(gaps)),
        p=p,
        beyond_noise=False,
        test=test,
        same_data=len({*old["data_fingerprint"], *new["data_fingerprint"]}) == 1,
        other_settings=tuple(sorted(name for name in {*one, *other} if one.get(name) != other.get(name))),
    )


def _status(cells: pd.DataFrame) -> str:
    unfinished = cells["status"][cells["status"] != "done"]
    return str(unfinished.iloc[0]) if len(unfinished) else "done"
