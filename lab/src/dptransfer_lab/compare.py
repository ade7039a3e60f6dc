"""Two runs: which groups of cells changed beyond their noise, and which exist in one only.

Cells of the same seed had the same rows and the same noise stream, so their differences are tested where the
runs have at least two seeds in common (paired t test); otherwise the two sets of seeds are (Welch's test).
Holm's correction keeps the chance of a single false alarm, over all groups, at or below `level`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer_lab.measure import METRICS
from dptransfer_lab.results import Record, canonical
from dptransfer_lab.summary import COST, SIZES, coordinates, grouped

# Settings are left out: a new default of the library's is a change to be seen, not another cell.
_NAMED = ("data", "encoder", "pool", "shots", "imbalance", "budget", "method", "label")


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

    where: Mapping[str, Any]
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
    only_first: tuple[Mapping[str, Any], ...]
    only_second: tuple[Mapping[str, Any], ...]
    other_status: tuple[tuple[Mapping[str, Any], str, str], ...]

    @property
    def changed(self) -> tuple[Change, ...]:
        """The groups that changed beyond their noise."""
        return tuple(change for change in self.shared if change.beyond_noise)


def compare_runs(
    first: Iterable[Record],
    second: Iterable[Record],
    *,
    metric: str = "balanced_accuracy",
    level: float = 0.05,
) -> Comparison:
    """Compare two runs by one metric.

    Args:
        first: records of the first run.
        second: records of the second.
        metric: a name in the records' metrics, or in their cost.
        level: chance of a single false alarm, over all groups.
    """
    _check.one_of("metric", metric, (*METRICS, *COST))
    _check.fraction("level", level)
    before, after = _by_place(first), _by_place(second)
    tested: list[Change] = []
    other: list[tuple[Mapping[str, Any], str, str]] = []
    for place in before:
        if place in after:
            old, new = _values(before[place], metric), _values(after[place], metric)
            where = coordinates(after[place][0])
            if old and new:
                prints = {record["made"]["data_fingerprint"] for record in (*before[place], *after[place])}
                found = _tested(where, old, new, len(prints) == 1)
                tested.append(replace(found, other_settings=_other_settings(before[place], after[place])))
            elif old or new:
                other.append((where, _status(before[place]), _status(after[place])))
    return Comparison(
        metric=metric,
        level=level,
        shared=tuple(sorted(_corrected(tested, level), key=_order)),
        only_first=tuple(coordinates(before[place][0]) for place in before if place not in after),
        only_second=tuple(coordinates(after[place][0]) for place in after if place not in before),
        other_status=tuple(other),
    )


def _by_place(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Groups by what a study asks for, so that a setting's new default is the same place."""
    found: dict[str, list[Record]] = {}
    for members in grouped(records).values():
        first = members[0]
        cut = first["extra"].get("cut", {name: first[name] for name in SIZES})
        place = canonical({**{name: first[name] for name in _NAMED}, **cut})
        found.setdefault(place, []).extend(members)
    return found


def _values(members: Sequence[Record], metric: str) -> dict[int, float]:
    numbers = {record["seed"]: {**record["cost"], **record["metrics"]}.get(metric) for record in members}
    return {seed: float(number) for seed, number in numbers.items() if number is not None}


def _tested(
    where: Mapping[str, Any], old: Mapping[int, float], new: Mapping[int, float], same: bool
) -> Change:
    from scipy import stats

    common = sorted(set(old) & set(new))
    p: float | None = None
    if len(common) >= 2:
        test = f"paired t test over {len(common)} seeds"
        gaps = np.array([new[seed] - old[seed] for seed in common])
        if np.ptp(gaps) == 0:  # no spread: equal, or moved by the same amount in every seed
            p = 1.0 if gaps[0] == 0 else 0.0
        else:
            p = float(stats.ttest_1samp(gaps, 0.0).pvalue)
    elif len(old) >= 2 and len(new) >= 2:
        test = "Welch's test"
        sides = [np.array(list(side.values())) for side in (old, new)]
        if all(np.ptp(side) == 0 for side in sides):
            p = 1.0 if sides[0][0] == sides[1][0] else 0.0
        else:
            p = float(stats.ttest_ind(*sides, equal_var=False).pvalue)
    elif [old[seed] for seed in common] == [new[seed] for seed in common] and common:
        test, p = "the same number", 1.0
    else:
        test = "one seed: its noise is not known"
    return Change(
        where=where,
        before=float(np.mean(list(old.values()))),
        after=float(np.mean(list(new.values()))),
        seeds=(len(old), len(new), len(common)),
        p=p,
        beyond_noise=False,
        test=test,
        same_data=same,
    )


def _corrected(changes: Sequence[Change], level: float) -> list[Change]:
    """Holm (1979): the i-th smallest of m p values must be below level/(m − i), and all before it too."""
    order = sorted((change for change in changes if change.p is not None), key=lambda change: change.p or 0.0)
    standing = True
    marked = [change for change in changes if change.p is None]
    for place, change in enumerate(order):
        assert change.p is not None
        standing = standing and change.p <= level / (len(order) - place)
        marked.append(replace(change, beyond_noise=standing))
    return marked


def _order(change: Change) -> tuple[bool, float]:
    return not change.beyond_noise, -abs(change.after - change.before)


def _other_settings(before: Sequence[Record], after: Sequence[Record]) -> tuple[str, ...]:
    old, new = before[0]["settings"], after[0]["settings"]
    return tuple(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))


def _status(members: Sequence[Record]) -> str:
    return next((record["status"] for record in members if record["status"] != "done"), "done")
