"""Which records belong to one point, one line and one panel; and the words a caption says of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer_lab.results import Record
from dptransfer_lab.summary import over_seeds

Point = dict[str, Any]
FACTORS = ("data", "encoder", "pool", "pool_rows", "classes", "dimension", "rows", "shots", "imbalance")
METRIC_WORDS = {
    "balanced_accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "minority_accuracy": "accuracy on the smallest 25 % of classes",
    "worst_class": "recall of the worst class",
    "macro_f1": "macro F1",
    "calibration_error": "expected calibration error",
    "attack_auc": "membership-attack AUC",
    "instance_loss": "median per-instance loss, share of the promised ε",
    "instance_loss_spread": "quartile distance of per-instance losses, share of the promised ε",
}
AXIS_WORDS = {
    **METRIC_WORDS,
    "minority_accuracy": "accuracy, smallest 25 %",
    "calibration_error": "calibration error",
    "instance_loss": "median loss ÷ promised ε",
    "instance_loss_spread": "quartile distance ÷ promised ε",
}
"""The same, short enough to stand beside an axis."""
_WORDS = {"pool_rows": "public rows", "rows": "private rows", "dimension": "dimensions", "classes": "classes"}


def done(records: Iterable[Record]) -> list[Record]:
    """The records that have a result."""
    return [record for record in records if record["status"] == "done"]


def amount(budget: Mapping[str, Any]) -> float:
    """The budget's number in its own currency."""
    return float(next(budget[name] for name in ("epsilon", "rho", "mu") if budget[name] is not None))


def axis_epsilon(budget: Mapping[str, Any]) -> float:
    """Where a budget stands on an axis in ε: its own ε, or that of Gaussian noise at its ρ or μ.

    >>> axis_epsilon({"epsilon": 2.0, "rho": None, "mu": None, "delta": 1e-5})
    2.0
    >>> round(axis_epsilon({"epsilon": None, "rho": 0.125, "mu": None, "delta": 1e-5}), 2)
    1.99
    """
    if budget["epsilon"] is not None:
        return float(budget["epsilon"])
    mu = budget["mu"] if budget["mu"] is not None else math.sqrt(2 * budget["rho"])
    return float(epsilon_of_mu(mu, budget["delta"]))


def axis_rho(budget: Mapping[str, Any]) -> float:
    """The same place on an axis in ρ: of Gaussian noise, or ε²/8 of a selection where the budget is pure.

    >>> round(axis_rho({"epsilon": 1.99, "rho": None, "mu": None, "delta": 1e-5}), 3)
    0.125
    >>> axis_rho({"epsilon": 2.0, "rho": None, "mu": None, "delta": 0.0})
    0.5
    """
    if budget["rho"] is not None:
        return float(budget["rho"])
    if budget["mu"] is not None:
        return float(budget["mu"]) ** 2 / 2
    if not budget["delta"]:
        return float(budget["epsilon"]) ** 2 / 8
    return mu_for(budget["epsilon"], budget["delta"]) ** 2 / 2


def currency(record: Record) -> tuple[str, float, str]:
    """What two records must share to stand on one axis: flavour, δ and relation."""
    budget = record["budget"]
    return budget["flavour"], budget["delta"], budget["relation"]


def split(records: Iterable[Record], *, over: Sequence[str] = ()) -> list[list[Record]]:
    """Records by everything that one figure holds fixed; what is in `over` may vary within a figure.

    Budgets vary in their amount only: another relation, δ or flavour is another figure.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_fixed(record, over), []).append(record)
    return list(groups.values())


def _fixed(record: Record, over: Sequence[str]) -> tuple[Any, ...]:
    free = {*over, *(("rows",) if {"imbalance", "shots"} & set(over) else ())}
    return (*(record[name] for name in FACTORS if name not in free), *currency(record))


def figure_name(kind: Sequence[object], records: Sequence[Record], *, over: Sequence[str] = ()) -> str:
    """A name for a figure of records that `split` put together: another for every other setting."""
    place = hashlib.sha256(repr(_fixed(records[0], over)).encode()).hexdigest()[:6]
    return slug(*kind, "all" if "data" in over else records[0]["data"], place)


def by(records: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    """Records by a key, in increasing order of the key."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return {name: groups[name] for name in sorted(groups)}


def by_label(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records by label."""
    return by(records, lambda record: record["label"])


def value_of(record: Record, metric: str) -> float | None:
    """A number of the record: a metric, or a cost."""
    found = record["metrics"].get(metric, record["cost"].get(metric))
    return None if found is None else float(found)


def spread(records: Iterable[Record], metric: str) -> Point | None:
    """The metric over seeds, as `over_seeds` gives it; None where no record has it."""
    values = [value for record in records if (value := value_of(record, metric)) is not None]
    return over_seeds(values) if values else None


def line(records: Iterable[Record], metric: str, x: Callable[[Record], float]) -> list[tuple[float, Point]]:
    """Points of one line, from left to right."""
    found = ((place, spread(members, metric)) for place, members in by(records, x).items())
    return [(float(place), point) for place, point in found if point is not None]


def seeds_words(records: Iterable[Record]) -> str:
    """How many seeds a point has.

    >>> seeds_words([])
    'no seeds'
    """
    key = (
        "label",
        "budget",
        "data",
        "encoder",
        "pool",
        "pool_rows",
        "imbalance",
        "shots",
        "rows",
        "classes",
        "dimension",
    )
    groups = by(records, lambda record: repr([record[name] for name in key]))
    counts = sorted({len({record["seed"] for record in members}) for members in groups.values()})
    if not counts:
        return "no seeds"
    span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return f"{span} seed{'' if span == '1' else 's'} per point"


def held_fixed(records: Sequence[Record], *, vary: Iterable[str] = ()) -> str:
    """What all these records share, in words; a number that differs although it is not varied is a range."""
    loose = set(vary)
    words = []
    for name in FACTORS:
        values = sorted({record[name] for record in records if record[name] is not None}, key=str)
        if name in loose or not values or (name in ("shots", "pool_rows") and values == [0]):
            continue
        words.append(_said(name, values))
    flavour, delta, relation = currency(records[0])
    kind = {"approximate": f"(ε, δ) budgets with δ = {delta:g}", "pure": "pure ε budgets"}
    kind |= {
        "zcdp": f"zCDP budgets, ε quoted at δ = {delta:g}",
        "gdp": f"GDP budgets, ε quoted at δ = {delta:g}",
    }
    return ", ".join([*words, kind[flavour], f"neighbours by {relation}"])


def _said(name: str, values: list[Any]) -> str:
    if name == "imbalance":
        known = ["class sizes as they are" if v == 0 else f"imbalance ratio {v:g}" for v in values]
        return " and ".join(known)
    if name in _WORDS:
        numbers = sorted(values)
        span = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
        return f"{span} {_WORDS[name]}"
    if name == "shots":
        return f"{' and '.join(map(str, values))} public shots per class"
    return f"{name} {' and '.join(map(str, values))}"


def caption(what: str, records: Sequence[Record], *, bands: str = "", vary: Iterable[str] = ()) -> str:
    """A whole caption: what is shown, seeds and bands, what is held fixed, and what is marked."""
    parts = [what.rstrip(".") + ".", f"{seeds_words(records).capitalize()}{'; ' + bands if bands else ''}."]
    parts.append(f"Held fixed: {held_fixed(records, vary=vary)}.")
    marks = {name for record in records for name, on in record["marks"].items() if on}
    if "not_private" in marks:
        parts.append("Labels with NOT PRIVATE have no guarantee at all and are shown for comparison.")
    if "oracle_tuned" in marks:
        parts.append("Labels with oracle-tuned had settings chosen by looking at test results.")
    if "seeded" in marks:
        parts.append("Noise is seeded: nothing here may be released.")
    return " ".join(parts)


def opening(text: str) -> str:
    """The text as it begins a sentence.

    >>> opening("peak memory, MiB")
    'Peak memory, MiB'
    """
    return text[:1].upper() + text[1:]


def slug(*words: object) -> str:
    """A name for files and anchors.

    >>> slug("curve", "CIFAR-10 (lite0)", 10.0)
    'curve-cifar-10-lite0-10'
    """
    text = "-".join(f"{word:g}" if isinstance(word, float) else str(word) for word in words)
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)
