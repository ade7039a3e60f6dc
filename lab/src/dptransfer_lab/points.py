"""Cells that share a figure, their place on its axis, and the words of its caption."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer.base.document import one_line
from dptransfer.privacy import Unit, number, typeset

FACTORS = ["data", "encoder", "pool", "pool_rows", "classes", "dimension", "rows", "shots", "imbalance"]
CURRENCY = ["flavour", "delta", "relation", "unit", "person_bound"]
"""What two cells must share to stand on one axis."""
SETTING = [*FACTORS, *CURRENCY, "at_epsilon"]
"""What two cells must share to compete with each other."""
BUDGET = ["epsilon", "rho", "mu", "delta"]
METRIC_WORDS = {
    "balanced_accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "minority_accuracy": "accuracy, smallest 25 % of classes",
    "worst_class": "recall of the worst class",
    "macro_f1": "macro F1",
    "calibration_error": "expected calibration error",
    "attack_auc": "membership-attack AUC",
    "instance_loss": "median loss of an example ÷ promised ε",
    "instance_loss_spread": "quartile distance of losses ÷ promised ε",
}
"""Short enough to stand beside an axis."""
UNIT_WORDS = {
    "row": Unit.ROW.words,
    "person": Unit.PERSON.words,
    "group": "group of as many examples as the person with most has",
}
"""What is protected as a whole, after 'one'."""
SIZE_WORDS = {
    "rows": "private rows",
    "classes": "classes",
    "dimension": "dimensions",
    "pool_rows": "public rows",
}


def place_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells with `at_epsilon` and `at_rho`: where their budgets stand on either axis."""
    budgets = frame[BUDGET].drop_duplicates()
    known = list(budgets.itertuples(index=False))
    places = {
        "at_epsilon": [axis_epsilon(*one) for one in known],
        "at_rho": [axis_rho(*one) for one in known],
    }
    return frame.merge(budgets.assign(**places), on=BUDGET, how="left")


def finished_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells that have a result."""
    return frame[frame["status"] == "done"]


def axis_epsilon(epsilon: Any, rho: Any, mu: Any, delta: float) -> float:
    """Where a budget stands on an axis in ε: its own ε, or that of Gaussian noise at its ρ or μ.

    What a budget does not give is None or NaN.

    >>> axis_epsilon(2.0, None, None, 1e-5), round(axis_epsilon(None, 0.125, None, 1e-5), 2)
    (2.0, 1.99)
    """
    if pd.notna(epsilon):
        return float(epsilon)
    return float(epsilon_of_mu(mu if pd.notna(mu) else math.sqrt(2 * rho), delta))


def axis_rho(epsilon: Any, rho: Any, mu: Any, delta: float) -> float:
    """The same place on an axis in ρ: of Gaussian noise, or ε²/8 of a selection where the budget is pure.

    >>> round(axis_rho(1.99, None, None, 1e-5), 3), axis_rho(2.0, None, None, 0.0)
    (0.125, 0.5)
    """
    if pd.notna(rho):
        return float(rho)
    if pd.notna(mu):
        return float(mu) ** 2 / 2
    return float(mu_for(epsilon, delta) ** 2 / 2 if delta else epsilon**2 / 8)


def cells_with(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The cells that tell this of themselves in `extra`."""
    return frame[frame["extra"].map(lambda extra: bool(extra.get(name))).astype(bool)]


def split(frame: pd.DataFrame, *, over: Iterable[str] = ()) -> list[pd.DataFrame]:
    """Cells by everything that one figure holds fixed; what is in `over` may vary within a figure.

    Budgets vary in their amount only: another relation, δ or flavour is another figure.
    """
    return [cells for _, cells in frame.groupby(_fixed(over), dropna=False, sort=False)]


def each_setting(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """Cells by everything but label and seed: those that compete with each other."""
    return [cells for _, cells in frame.groupby(SETTING, dropna=False, sort=False)]


def _fixed(over: Iterable[str]) -> list[str]:
    free = {*over, *(("rows",) if {"imbalance", "shots"} & set(over) else ())}
    return [name for name in (*FACTORS, *CURRENCY) if name not in free]


def figure_name(*kind: object, cells: pd.DataFrame, over: Iterable[str] = ()) -> str:
    """A name for a figure of cells that `split` put together: another for every other setting."""
    over = list(over)
    first = cells.iloc[0]
    fixed = hashlib.sha256(repr([str(first[name]) for name in _fixed(over)]).encode()).hexdigest()[:6]
    return slug(*kind, "all" if "data" in over else first["data"], fixed)


def seeds_words(cells: pd.DataFrame) -> str:
    """How many seeds a point has, such as '3 to 5 seeds per point'."""
    counts = cells.groupby(["label", *SETTING], dropna=False)["seed"].nunique()
    if counts.empty:
        return "no seeds"
    span = span_words([counts.min(), counts.max()])
    return f"{span} seed{'' if span == '1' else 's'} per point"


def span_words(values: Iterable[float], *, digits: str = "") -> str:
    """Numbers as 'least to most', or the one there is.

    >>> span_words([3, 1, 2]), span_words([4000]), span_words([0.5, 2.0], digits=".3g")
    ('1 to 3', '4,000', '0.5 to 2')
    """
    numbers = sorted(set(values))
    ends = numbers if len(numbers) < 2 else [numbers[0], numbers[-1]]
    return " to ".join(format(number, digits or ",") for number in ends) or "–"


def held_fixed(cells: pd.DataFrame, *, vary: Iterable[str] = ()) -> str:
    """What all these cells share, in words; a number that differs although it is not varied is a range."""
    loose, words = set(vary), []
    for name in FACTORS:
        values = sorted(cells[name].dropna().unique().tolist())
        if name in loose or not values or (name in ("shots", "pool_rows") and values == [0]):
            continue
        if name == "imbalance":
            words.append(" and ".join(ratio_words(ratio) for ratio in values))
        elif name == "shots":
            words.append(f"{' and '.join(map(str, values))} public shots per class")
        elif isinstance(values[0], str):
            words.append(f"{name} {' and '.join(values)}")
        else:
            words.append(f"{span_words(values)} {SIZE_WORDS[name]}")
    flavour, delta = cells.iloc[0][["flavour", "delta"]]
    at = f"δ = {typeset(number(delta))}"
    kind = {
        "approximate": f"(ε, δ) budgets with {at}",
        "pure": "pure ε budgets",
        "zcdp": f"zCDP budgets, ε quoted at {at}",
        "gdp": f"GDP budgets, ε quoted at {at}",
    }
    return ", ".join([*words, kind[flavour], _neighbours(cells, loose)])


def _neighbours(cells: pd.DataFrame, loose: set[str]) -> str:
    """Which data sets the guarantee keeps from being told apart, and of how many people they are."""
    relation, unit, bound = cells.iloc[0][["relation", "unit", "person_bound"]]
    words = f"neighbours by {relation}" + ("" if "unit" in loose else f" of one {UNIT_WORDS[unit]}")
    words += f", who counts as {bound:g} at most" if unit == "person" and bound != 1 else ""
    people = cells["people"].dropna().unique()
    return words + (f", {span_words(people)} people" if len(people) and unit != "row" else "")


def ratio_words(ratio: float) -> str:
    """An imbalance ratio in words."""
    return "class sizes as they are" if ratio == 0 else f"imbalance ratio {ratio:g}"


def caption(what: str, cells: pd.DataFrame, *, bands: str = "", vary: Iterable[str] = ()) -> str:
    """A whole caption: what is shown, seeds and bands, what is held fixed, and what is marked."""
    parts = [f"{what.rstrip('.')}.", f"{opening(seeds_words(cells))}{'; ' + bands if bands else ''}."]
    parts.append(f"Held fixed: {held_fixed(cells, vary=vary)}.")
    if cells["not_private"].any():
        parts.append("Labels with NOT PRIVATE have no guarantee at all and are shown for comparison.")
    if cells["oracle_tuned"].any():
        parts.append("Labels with oracle-tuned had settings chosen by looking at test results.")
    return " ".join([*parts, "Noise is seeded: nothing here may be released."])


def thin_ticks(values: Sequence[float], most: int = 8) -> list[float]:
    """At most so many of the values: the ends, and others about equally far apart on a log scale.

    >>> thin_ticks([0.1, 0.2, 0.3, 1.0, 10.0], most=3)
    [0.1, 1.0, 10.0]
    """
    ordered = sorted({float(value) for value in values})
    if len(ordered) <= most:
        return ordered
    low, high = math.log(ordered[0]), math.log(ordered[-1])
    places = [low + (high - low) * step / (most - 1) for step in range(most)]
    return sorted({min(ordered, key=lambda value: abs(math.log(value) - place)) for place in places})


def brief(text: object, most: int = 60) -> str:
    """Words that fit into a figure: on one line, nothing hidden, and at most so many letters.

    >>> brief("forget-me-not", most=9), brief("cat")
    ('forget-m…', 'cat')
    """
    words = one_line(text)
    return words if len(words) <= most else f"{words[: most - 1]}…"


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
    text = "-".join(f"{word:g}" if isinstance(word, float) else brief(word) for word in words)
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)
