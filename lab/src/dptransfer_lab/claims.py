"""Claims of papers, as tables of a study, and whether results confirm them.

Means over seeds are compared, cell by cell: the same data, sizes and budget on both sides.
A claim is a table of a study:

    [[claim]]
    text = "Public prototypes beat linear probing in imbalanced settings at small ε."
    source = "Wahdany et al. (2025), Section 5.1"
    kind = "above"                    # above, below, close, rises, falls, best-k-rises, boost-falls
    left = "public prototypes"        # labels; of several the best one counts
    right = "linear probing"
    where = { imbalance = [10, 100], epsilon_max = 1 }

"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import pandas as pd
from pydantic import ValidationError

from dptransfer.errors import DataError
from dptransfer_lab.figures.best import best_k
from dptransfer_lab.figures.curves import boosts
from dptransfer_lab.points import CURRENCY, FACTORS, SETTING, span_words
from dptransfer_lab.statistics import student
from dptransfer_lab.study import Only, Part, Words

if TYPE_CHECKING:
    import pandas as pd

    from dptransfer.base.types import JsonObject


_Entry = TypeVar("_Entry", bound=Part)

Kind = Literal["above", "below", "close", "rises", "falls", "best-k-rises", "boost-falls"]


class Where(Only):
    """Which cells a claim is about; empty means all."""

    relation: Words = ()
    epsilon_min: float = 0.0
    epsilon_max: float = float("inf")

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Those of these cells, which `place_cells` has put on the axis in ε."""
        room = 1e-9  # a budget in ρ or μ stands at a computed ε
        inside = frame["at_epsilon"].between(self.epsilon_min * (1 - room), self.epsilon_max * (1 + room))
        for name in (*Only.model_fields, "relation"):
            if allowed := getattr(self, name):
                inside &= frame[name].isin(allowed)
        return frame[inside]


class Claim(Part):
    """One claim.

    Attributes:
        text: the claim, in words.
        source: where it is printed.
        kind: how it is tested: 'above' and 'below' compare left and right; 'close' asks for a small
            difference; 'rises' and 'falls' compare the ends of `axis` for left; 'best-k-rises' and
            'boost-falls' are about the best number of prototypes and the performance boost.
        left: labels, or whatever `compare` names.
        right: what left is compared with.
        compare: what left and right name: 'label', or a factor such as 'pool'.
        axis: what rises: 'epsilon', or a factor such as 'pool_rows'.
        metric: which number; a metric or a cost.
        tolerance: for 'close', how far apart two means may be.
        share: which share of the cells must agree.
        where: which cells it is about.
    """

    text: str
    source: str
    kind: Kind
    left: Words
    right: Words = ()
    compare: str = "label"
    axis: str = "epsilon"
    metric: str = "balanced_accuracy"
    tolerance: float = 0.01
    share: float = 0.75
    where: Where = Where()


def entries_of(study: JsonObject, table: str, model: type[_Entry]) -> list[_Entry]:
    """A resolved study's tables of that name, read and checked."""
    found = []
    for place, fields in enumerate(study.get(table, ())):
        try:
            found.append(model.model_validate(fields))
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            at = ".".join(map(str, first["loc"]))
            raise DataError(
                f"{table.capitalize()} {place + 1} of the study cannot be read; at {at}: {first['msg']}."
            ) from None
    return found


_SMALL_IS_GOOD = ("fit_seconds", "peak_mib", "cell_seconds", "attack_auc", "calibration_error")
_PLACE = {
    "encoder": "{}", "pool": "pool {}", "imbalance": "ratio {:g}", "shots": "{} shots",
    "unit": "per {}", "person_bound": "B = {:g}",
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Attributes:
        claim: the claim.
        outcome: 'confirmed', 'not confirmed here' or 'not tested here'.
        because: the reason, with numbers.
    """

    claim: Claim
    outcome: str
    because: str


def check(claim: Claim, frame: pd.DataFrame) -> Verdict:
    """Test one claim on finished cells, as `place_cells` gives them."""
    cells = claim.where.of(frame[frame[claim.metric].notna()])
    tests = {
        "close": _close,
        "best-k-rises": _best_k,
        "boost-falls": _boost,
        "rises": _trend,
        "falls": _trend,
    }
    agree, because = tests.get(claim.kind, _sides)(claim, cells)
    if not agree:
        names = f"{_and(claim.left)} with {_and(claim.right)}" if claim.right else _and(claim.left)
        return Verdict(claim, "not tested here", f"no finished cells compare {names}")
    holds = sum(agree) >= claim.share * len(agree)
    return Verdict(claim, "confirmed" if holds else "not confirmed here", because)


def _sides(claim: Claim, cells: pd.DataFrame) -> tuple[list[bool], str]:
    found = _compared(claim, cells)
    if found.empty:
        return [], ""
    sign = 1 if claim.kind == "above" else -1
    agree = list(sign * found["gap"] > 0)
    worst = found.loc[(sign * found["gap"]).idxmin()]
    word = "ahead" if claim.kind == "above" else "below"
    text = f"{_and(claim.left)} is {word} in {sum(agree)} of {len(found)} cells; {_average(claim, found)}"
    left, right = (_number(claim, worst[side]) for side in ("left", "right"))
    text += f"; least so at {_place(worst, cells)}: {left} against {right}"
    return agree, f"{text} ({_seeds(found)})"


def _close(claim: Claim, cells: pd.DataFrame) -> tuple[list[bool], str]:
    found = _compared(claim, cells)
    if found.empty:
        return [], ""
    gap = found["gap"].abs()
    near = list(gap <= claim.tolerance)
    worst = found.loc[gap.idxmax()]
    text = f"{sum(near)} of {len(found)} cells differ by at most {_points(claim, claim.tolerance)}; "
    text += f"{_average(claim, found)}; the largest difference is {_points(claim, gap.max())} at "
    return near, f"{text}{_place(worst, cells)} ({_seeds(found)})"


def _compared(claim: Claim, cells: pd.DataFrame) -> pd.DataFrame:
    """The means on both sides in each cell, their `gap` and the smaller number of runs `n` behind one."""
    free = {claim.compare, *(("pool_rows",) if claim.compare == "pool" else ())}
    keys, means = _means(claim, cells, claim.compare, free)
    means = means.sort_values("mean", ascending=claim.metric in _SMALL_IS_GOOD)  # of several, the best counts
    left, right = (
        means[means[claim.compare].isin(names)].drop_duplicates(keys)[[*keys, "mean", "count"]]
        for names in (claim.left, claim.right)
    )
    both = left.merge(right, on=keys, suffixes=("_left", "_right")).sort_values(keys, ignore_index=True)
    n = both[["count_left", "count_right"]].min(axis=1)
    both = both.rename(columns={"mean_left": "left", "mean_right": "right"})
    return both.assign(n=n, gap=both["left"] - both["right"])


def _means(
    claim: Claim, cells: pd.DataFrame, along: str, free: Collection[str]
) -> tuple[list[str], pd.DataFrame]:
    """What is held fixed, and `mean` and `count` of the metric for each value of `along` at each of these."""
    keys = [name for name in (*SETTING, "label") if name not in free]
    groups = cells.groupby([*keys, along], dropna=False)[claim.metric]
    return keys, groups.agg(["mean", "count"]).reset_index()


def _trend(claim: Claim, cells: pd.DataFrame) -> tuple[list[bool], str]:
    axis = "at_epsilon" if claim.axis == "epsilon" else claim.axis
    free = {axis, *(("rows",) if axis in ("imbalance", "shots") else ())}
    keys, means = _means(claim, cells[cells["label"].isin(claim.left)], axis, free)
    lines = means.sort_values(axis).groupby(keys, dropna=False)
    first, last = (lines[["mean", "count", axis]].nth(end).reset_index(drop=True) for end in (0, -1))
    found = pd.DataFrame({"gap": last["mean"] - first["mean"], "n": first["count"].clip(upper=last["count"])})
    several = first[axis] < last[axis]
    found, ends = found[several], [*first.loc[several, axis], *last.loc[several, axis]]
    if found.empty:
        return [], ""
    agree = list((1 if claim.kind == "rises" else -1) * found["gap"] > 0)
    words = "ε" if claim.axis == "epsilon" else claim.axis.replace("_", " ")
    text = f"{_and(claim.left)} {claim.kind} from {words} = {span_words(ends, digits='g')}"
    text += f" in {sum(agree)} of {len(found)} settings; {_average(claim, found)} ({_seeds(found)})"
    return agree, text


def _best_k(claim: Claim, cells: pd.DataFrame) -> tuple[list[bool], str]:
    told, agree = [], []
    for _, members in cells.groupby([*FACTORS, *CURRENCY], dropna=False):
        found = best_k(members, metric=claim.metric)
        if len(found) > 1:
            low, high = found.iloc[0], found.iloc[-1]
            agree.append(bool(high["k"] > low["k"]))
            told.append(
                f"K = {low['k']:.0f} at ε = {low['at_epsilon']:.3g} and {high['k']:.0f} at "
                f"{high['at_epsilon']:.3g} ({_place(members.iloc[0].drop('at_epsilon'), cells)})"
            )
    return agree, f"the best K grows in {sum(agree)} of {len(told)} settings: {'; '.join(told)}"


def _boost(claim: Claim, cells: pd.DataFrame) -> tuple[list[bool], str]:
    told, agree = [], []
    found = boosts(cells).dropna(subset=["boost"])
    found = found[found["label"].isin(claim.left)].sort_values("shots")
    keys = ["data", "unit", "person_bound", "encoder", "imbalance", "label", "at_epsilon"]
    for key, line in found.groupby(keys):
        first, last = line.iloc[0], line.iloc[-1]
        if first["shots"] < last["shots"]:
            agree.append(bool(last["boost"] < first["boost"]))
            ends = (f"{end['boost']:.2f} with {end['shots']}" for end in (first, last))
            told.append(f"{' shots, '.join(ends)} ({key[0]}, ε = {key[-1]:.3g})")
    return agree, f"the boost falls in {sum(agree)} of {len(told)} settings: {'; '.join(told)}"


def _average(claim: Claim, found: pd.DataFrame) -> str:
    """The mean difference over cells and Student's interval: a difference may be of either sign."""
    gaps = found["gap"]
    text = f"mean difference {_points(claim, gaps.mean(), signed=True)}"
    if len(gaps) > 1:
        reach = student(len(gaps)) * gaps.std() / math.sqrt(len(gaps))
        low, high = (_points(claim, gaps.mean() + side * reach, signed=True) for side in (-1, 1))
        text += f" (95 % interval over cells {low} to {high})"
    return text


def _points(claim: Claim, value: float, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    units = {"fit_seconds": f"{value:{sign}.3g} s", "peak_mib": f"{value:{sign}.3g} MiB"}
    units["attack_auc"] = f"{value:{sign}.3f}"
    return units.get(claim.metric, f"{100 * value:{sign}.1f} points")


def _number(claim: Claim, value: float) -> str:
    return _points(claim, value).replace(" points", " %")


def _place(cell: pd.Series, cells: pd.DataFrame) -> str:
    """Where a cell is, by what differs between cells."""
    words = [cell["data"]]
    differ = [name for name in _PLACE if name in cell and cells[name].nunique(dropna=False) > 1]
    words += [_PLACE[name].format(cell[name]) for name in differ]
    words += [f"ε = {cell['at_epsilon']:.3g}"] if "at_epsilon" in cell else []
    return ", ".join(words)


def _seeds(found: pd.DataFrame) -> str:
    return f"n = {span_words(found['n'])} runs per mean"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"the best of {', '.join(names)}"
