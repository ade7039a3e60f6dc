"""A claim on results: confirmed here, not confirmed here, or not tested here, and why.

Means over seeds are compared, cell by cell: the same data, sizes and budget on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dptransfer_lab.claims import Claim
from dptransfer_lab.figures.best_k import best_k
from dptransfer_lab.figures.boost import boosts
from dptransfer_lab.figures.points import FACTORS, axis_epsilon, by, currency, done, spread, value_of
from dptransfer_lab.results import Record
from dptransfer_lab.summary import over_seeds


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

    @property
    def line(self) -> str:
        """One line, as reports print it."""
        return f"{self.claim.text} ({self.claim.source}): {self.outcome}, because {self.because}."


def check(claim: Claim, records: Sequence[Record]) -> Verdict:
    """Test one claim on results."""
    usable = [r for r in done(records) if claim.where.holds(r) and value_of(r, claim.metric) is not None]
    tests: dict[str, Callable[[Claim, list[Record]], tuple[bool, str] | None]] = {
        "above": _sides,
        "below": _sides,
        "close": _close,
        "rises": _trend,
        "falls": _trend,
        "best-k-rises": _best_k,
        "boost-falls": _boost,
    }
    found = tests[claim.kind](claim, usable)
    if found is None:
        return Verdict(claim, "not tested here", f"no finished cells compare {_names(claim)}")
    holds, because = found
    return Verdict(claim, "confirmed" if holds else "not confirmed here", because)


@dataclass(frozen=True)
class _Difference:
    """Left minus right in one cell."""

    where: str
    value: float
    seeds: int
    left: float
    right: float


def _sides(claim: Claim, records: list[Record]) -> tuple[bool, str] | None:
    found = _differences(claim, records)
    if not found:
        return None
    sign = 1 if claim.kind == "above" else -1
    agree = sum(sign * one.value > 0 for one in found)
    worst = min(found, key=lambda one: sign * one.value)
    word = "ahead" if claim.kind == "above" else "below"
    text = f"{_and(claim.left)} is {word} in {agree} of {len(found)} cells; {_average(claim, found)}"
    text += f"; least so at {worst.where}: {_number(claim, worst.left)} against {_number(claim, worst.right)}"
    return agree >= claim.share * len(found), f"{text} ({_seeds(found)})"


def _close(claim: Claim, records: list[Record]) -> tuple[bool, str] | None:
    found = _differences(claim, records)
    if not found:
        return None
    near = sum(abs(one.value) <= claim.tolerance for one in found)
    worst = max(found, key=lambda one: abs(one.value))
    most = _points(claim, claim.tolerance)
    text = f"{near} of {len(found)} cells differ by at most {most}; {_average(claim, found)}"
    text += f"; the largest difference is {_points(claim, abs(worst.value))} at {worst.where}"
    return near >= claim.share * len(found), f"{text} ({_seeds(found)})"


def _differences(claim: Claim, records: list[Record]) -> list[_Difference]:
    free = {claim.compare, *(("pool_rows",) if claim.compare == "pool" else ())}

    def cell(record: Record) -> tuple[str, ...]:
        fixed = [record[name] for name in FACTORS if name not in free]
        fixed += [record["label"]] if claim.compare != "label" else []
        return tuple(map(repr, [*fixed, *currency(record), axis_epsilon(record["budget"])]))

    found = []
    for members in by(records, cell).values():
        left, right = (_best(claim, members, names) for names in (claim.left, claim.right))
        if left is not None and right is not None:
            seeds = min(left["n"], right["n"])
            gap = left["mean"] - right["mean"]
            found.append(_Difference(_place(members[0], records), gap, seeds, left["mean"], right["mean"]))
    return found


def _best(claim: Claim, records: Iterable[Record], names: Sequence[str]) -> dict[str, Any] | None:
    """The best of the named; where small is good, the smallest."""
    groups = by(records, lambda record: str(record[claim.compare]))
    points = [point for name in names if name in groups and (point := spread(groups[name], claim.metric))]
    small = claim.metric in ("fit_seconds", "peak_mib", "cell_seconds", "attack_auc", "calibration_error")
    return min(points, key=lambda point: point["mean"] * (1 if small else -1), default=None)


def _trend(claim: Claim, records: list[Record]) -> tuple[bool, str] | None:
    def place(record: Record) -> float:
        return axis_epsilon(record["budget"]) if claim.axis == "epsilon" else float(record[claim.axis])

    def setting(record: Record) -> tuple[str, ...]:
        free = {claim.axis, *(("rows",) if claim.axis in ("imbalance", "shots") else ())}
        fixed = [record[name] for name in FACTORS if name not in free]
        budget = () if claim.axis == "epsilon" else (axis_epsilon(record["budget"]),)
        return tuple(map(repr, [*fixed, *currency(record), *budget, record["label"]]))

    named = [record for record in records if record["label"] in claim.left]
    found: list[_Difference] = []
    ends: list[tuple[float, float]] = []
    for members in by(named, setting).values():
        groups = by(members, place)
        first, last = (spread(groups[end], claim.metric) for end in (min(groups), max(groups)))
        if len(groups) > 1 and first and last:
            gap, seeds = last["mean"] - first["mean"], min(first["n"], last["n"])
            found.append(_Difference(_place(members[0], records), gap, seeds, last["mean"], first["mean"]))
            ends.append((min(groups), max(groups)))
    if not found:
        return None
    sign = 1 if claim.kind == "rises" else -1
    agree = sum(sign * one.value > 0 for one in found)
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    axis = "ε" if claim.axis == "epsilon" else claim.axis.replace("_", " ")
    text = f"{_and(claim.left)} {claim.kind} from {axis} = {low:g} to {high:g}"
    text += f" in {agree} of {len(found)} settings; {_average(claim, found)} ({_seeds(found)})"
    return agree >= claim.share * len(found), text


def _best_k(claim: Claim, records: list[Record]) -> tuple[bool, str] | None:
    def setting(record: Record) -> tuple[str, ...]:
        return tuple(map(repr, [*(record[name] for name in FACTORS), *currency(record)]))

    told, agree = [], 0
    for members in by(records, setting).values():
        found = best_k(members, metric=claim.metric)
        if len(found) > 1:
            low, high = min(found), max(found)
            agree += found[high][0] > found[low][0]
            told.append(
                f"K = {found[low][0]} at ε = {low:.3g} and {found[high][0]} at {high:.3g} "
                f"({_place(members[0], records, budget=False)})"
            )
    if not told:
        return None
    return agree >= claim.share * len(
        told
    ), f"the best K grows in {agree} of {len(told)} settings: {'; '.join(told)}"


def _boost(claim: Claim, records: list[Record]) -> tuple[bool, str] | None:
    told, agree = [], 0
    settings = by(records, lambda record: (record["data"], record["encoder"], record["imbalance"]))
    for (data, _, _), members in settings.items():
        found = boosts(members)
        for label, epsilon in sorted({(name, epsilon) for name, _, epsilon in found if name in claim.left}):
            shots = sorted(count for name, count, e in found if (name, e) == (label, epsilon))
            if len(shots) > 1:
                first, last = (found[label, count, epsilon]["median"] for count in (shots[0], shots[-1]))
                agree += last < first
                told.append(
                    f"{first:.2f} with {shots[0]} shots, {last:.2f} with {shots[-1]} ({data}, ε = "
                    f"{epsilon:.3g})"
                )
    if not told:
        return None
    return agree >= claim.share * len(
        told
    ), f"the median boost falls in {agree} of {len(told)} settings: {'; '.join(told)}"


def _average(claim: Claim, found: Sequence[_Difference]) -> str:
    point = over_seeds([one.value for one in found])
    text = f"mean difference {_points(claim, point['mean'], signed=True)}"
    if point["low"] is not None:
        low, high = (_points(claim, point[end], signed=True) for end in ("low", "high"))
        text += f" (95 % interval over cells {low} to {high})"
    return text


def _points(claim: Claim, value: float, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if claim.metric == "fit_seconds":
        return f"{value:{sign}.3g} s"
    if claim.metric == "peak_mib":
        return f"{value:{sign}.3g} MiB"
    return f"{value:{sign}.3f}" if claim.metric == "attack_auc" else f"{100 * value:{sign}.1f} points"


def _number(claim: Claim, value: float) -> str:
    whole = claim.metric in ("fit_seconds", "peak_mib", "attack_auc")
    return _points(claim, value) if whole else f"{100 * value:.1f} %"


def _place(record: Record, records: Sequence[Record], *, budget: bool = True) -> str:
    """Where a cell is, by what differs between cells."""
    words = [record["data"]]
    for name, text in (
        ("encoder", "{}"),
        ("pool", "pool {}"),
        ("imbalance", "ratio {:g}"),
        ("shots", "{} shots"),
    ):
        if len({repr(one[name]) for one in records}) > 1:
            words.append(text.format(record[name]))
    if budget:
        words.append(f"ε = {axis_epsilon(record['budget']):.3g}")
    return ", ".join(map(str, words))


def _seeds(found: Sequence[_Difference]) -> str:
    counts = sorted({one.seeds for one in found})
    span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return f"n = {span} runs per mean"


def _names(claim: Claim) -> str:
    return f"{_and(claim.left)} with {_and(claim.right)}" if claim.right else _and(claim.left)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"the best of {', '.join(names)}"
