"""Tables of a report: means over seeds, privacy losses, cost, and what printed mechanisms promise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from dptransfer.base.document import Bullets, Note, Section, Table
from dptransfer.base.types import JsonObject
from dptransfer.privacy import number, typeset
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.cell_privacy import losses_by_size
from dptransfer_lab.figures.instance import NOT_FOR_RELEASE
from dptransfer_lab.figures.style import Style, shown_in
from dptransfer_lab.points import (
    METRIC_WORDS,
    cells_with,
    held_fixed,
    opening,
    seeds_words,
    span_words,
    split,
    thin_ticks,
)
from dptransfer_lab.statistics import Mean, mean_of, winner_of
from dptransfer_lab.true_epsilon import MECHANISMS, PrintedClaim, printed_claims
from dptransfer_lab.unprotected import PREFIX

_OTHER = ("accuracy", "worst_class", "macro_f1", "calibration_error", "attack_auc")
_BEST = (
    "Bold: the best private label of a column, and those that a paired t test over seeds with Holm's "
    "correction cannot tell from it"
)


def accuracy_tables(
    frame: pd.DataFrame, styles: Mapping[str, Style], metric: str = "balanced_accuracy"
) -> list[Table]:
    """One table per setting: a line per ratio and label, a column per ε."""
    return [
        _accuracy_table(cells, styles, metric)
        for cells in split(frame[frame[metric].notna()], over=("imbalance",))
    ]


def _accuracy_table(cells: pd.DataFrame, styles: Mapping[str, Style], metric: str) -> Table:
    budgets = sorted(cells["at_epsilon"].unique())
    uneven = " to " in seeds_words(cells)
    rows: list[tuple[str, ...]] = []
    marked: set[int | tuple[int, int]] = set()
    first = 2 if cells["imbalance"].nunique() > 1 else 1  # the first column of numbers
    for ratio, there in cells.groupby("imbalance"):
        parts = [there[there["at_epsilon"] == budget] for budget in budgets]
        winners = [winner_of(part, metric) for part in parts]
        for style in shown_in(there, styles):
            found = [mean_of(part.loc[part["label"] == style.label, metric]) for part in parts]
            words = (["as they are" if ratio == 0 else f"{ratio:g}"] if first == 2 else []) + [style.words]
            marked |= {
                (len(rows), first + place)
                for place, winner in enumerate(winners)
                if winner and style.label in winner.level
            }
            rows.append((*words, *(format_mean(point, seeds=uneven) for point in found)))
    vary = ("imbalance", "rows") if first == 2 else ()
    header = (*(["ratio"] if first == 2 else []), "method", *(f"ε = {budget:.3g}" for budget in budgets))
    caption = f"{opening(METRIC_WORDS[metric])} in percent: {over_seeds(cells)} {_BEST}. "
    caption += f"Held fixed: {held_fixed(cells, vary=vary)}."
    return Table(header, tuple(rows), caption, "l" * first + "r" * len(budgets), frozenset(marked))


def over_seeds(cells: pd.DataFrame) -> str:
    """What a number of these tables is, and of how many seeds."""
    return f"mean over seeds, in brackets its 95 % interval; {seeds_words(cells)}."


def format_mean(point: Mean, *, scale: float = 100.0, digits: int = 1, seeds: bool = False) -> str:
    """A mean with its interval, and perhaps its number of seeds.

    >>> format_mean(Mean(3, 0.5, 0.45, 0.55)), format_mean(Mean(1, 0.5, math.nan, math.nan), seeds=True)
    ('50.0 [45.0, 55.0]', '50.0 n=1')
    """
    if not point.n:
        return "–"
    mean, low, high = (f"{scale * number:.{digits}f}" for number in point[1:])
    text = mean if math.isnan(point.low) else f"{mean} [{low}, {high}]"
    return f"{text} n={point.n}" if seeds else text


def by_label(
    cells: pd.DataFrame, styles: Mapping[str, Style], key: str
) -> Iterator[tuple[Any, Style, pd.DataFrame]]:
    """The cells of each value of a column and each label, in the order of tables."""
    for value, group in cells.groupby(key):
        for style in shown_in(group, styles):
            yield value, style, group[group["label"] == style.label]


def other_metrics(frame: pd.DataFrame, styles: Mapping[str, Style]) -> list[Table]:
    """Every other metric that was measured, by label, at the smallest and largest budget of each setting."""
    tables = []
    for cells in split(frame):
        names = [name for name in _OTHER if cells[name].notna().any()]
        ends = cells[cells["at_epsilon"].isin((cells["at_epsilon"].min(), cells["at_epsilon"].max()))]
        rows = tuple(
            (f"{epsilon:.3g}", style.words, *(_other(some[name], name) for name in names))
            for epsilon, style, some in by_label(ends, styles, "at_epsilon")
        )
        area = ", areas under the attack's curve as they are" if "attack_auc" in names else ""
        caption = f"Other measures at the smallest and the largest budget, in percent{area}: "
        caption += f"{over_seeds(ends)} Held fixed: {held_fixed(cells)}."
        header = ("ε", "method", *(METRIC_WORDS[name] for name in names))
        tables.append(Table(header, rows, caption, "rl" + "r" * len(names)))
    return tables


def _other(values: pd.Series, name: str) -> str:
    area = name == "attack_auc"
    return format_mean(mean_of(values), scale=1.0 if area else 100.0, digits=3 if area else 1)


def excess_table(frame: pd.DataFrame, styles: Mapping[str, Style]) -> Table | None:
    """Increase of the error over the paragon's, as a mean over data sets; None without a paragon.

    Golatkar et al. (2022) print it in their abstract: 167 to 311 % before them, 68 to 92 % with AdaMix.
    """
    keys = ["data", "encoder", "pool", "unit", "imbalance", "shots", "at_epsilon"]
    errors = 1 - frame.groupby(["method", "label", *keys], dropna=False)["accuracy"].mean()
    is_paragon = errors.index.get_level_values("method") == PREFIX + "paragon"
    if not is_paragon.any() or is_paragon.all():
        return None
    best = errors[is_paragon].groupby(keys, dropna=False).first().rename("paragon")
    others = errors[~is_paragon].rename("error").reset_index().merge(best.reset_index(), on=keys)
    others["excess"] = others["error"] / others["paragon"].clip(lower=1e-6) - 1
    budgets = sorted(others["at_epsilon"].unique())
    rows = []
    for shots, style, some in by_label(others, styles, "shots"):
        means = some.groupby("at_epsilon")["excess"].mean()
        told = (f"{100 * means[one]:+.0f}" if one in means else "–" for one in budgets)
        rows.append((f"{shots:g}", style.words, *told))
    caption = "Increase of the error over that of the paragon, which has all rows and no privacy, in percent "
    caption += "of the latter: the mean over data sets and everything else that is not in the line."
    header = ("shots", "method", *(f"ε = {one:.3g}" for one in budgets))
    return Table(header, tuple(rows), caption, "rl" + "r" * len(budgets))


def cost_table(frame: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """Time and memory by data set, unit and label, over everything else."""
    unit = frame["unit"].map({"row": ""}).fillna(", per " + frame["unit"])
    where = frame.assign(where=frame["data"] + " (" + frame["encoder"] + ")" + unit)
    rows = tuple(
        (
            data,
            style.words,
            span_words(some["rows"]),
            _cost(some["fit_seconds"], 1.0, 3),
            _cost(some["peak_mib"], 1.0, 1),
            _cost(some["overhead_seconds"], 1000.0, 1),
        )
        for data, style, some in by_label(where, styles, "where")
    )
    cores = " or ".join(map(str, sorted(frame["host_cores"].unique())))
    caption = (
        "Cost over all cells of a method, seeds, ratios and budgets together: the mean, in brackets the "
        "smallest and the largest. Overhead is what the laboratory adds to a cell beyond fit, test and "
        f"attack. Machine with {cores} usable cores."
    )
    header = ("data", "method", "private rows", "fit, seconds", "peak memory, MiB", "overhead, ms")
    return Table(header, rows, caption, "llrrrr")


def _cost(values: pd.Series, scale: float, digits: int) -> str:
    known = scale * values.dropna()
    if known.empty:
        return "–"
    return f"{known.mean():.{digits}f} [{known.min():.{digits}f}, {known.max():.{digits}f}]"


def unfinished_table(frame: pd.DataFrame, styles: Mapping[str, Style]) -> Table | None:
    """Refused and failed cells, by reason."""
    unfinished = frame[frame["status"] != "done"].fillna({"message": "no reason was recorded"})
    rows = tuple(
        (
            status,
            styles[label].words,
            ", ".join(sorted(cells["data"].unique())),
            span_words(cells["at_epsilon"], digits=".3g"),
            reason,
            str(len(cells)),
        )
        for (status, label, reason), cells in unfinished.groupby(["status", "label", "message"])
    )
    caption = (
        "Cells without a result. Refused: the library said no, which is a result; failed: something went "
        "wrong twice. None of them is in any mean above."
    )
    header = ("status", "method", "data", "ε", "reason", "cells")
    return Table(header, rows, caption, "lllllr") if rows else None


def settings_table(frame: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """What each label is: its method, settings and marks."""
    rows = []
    cells = frame.drop_duplicates("label").set_index("label")
    for label in styles:
        cell = cells.loc[label]
        settings = ", ".join(
            f"{name} = {_plain(value)}" for name, value in json.loads(cell["settings"]).items()
        )
        marks = {"oracle_tuned": "oracle tuned", "seeded": "seeded", "not_private": "NOT PRIVATE"}
        marked = ", ".join(words for name, words in marks.items() if cell[name])
        rows.append((label, cell["method"], settings or "–", marked or "–"))
    caption = "Every label: the method behind it, all of its settings, defaults included, and its marks."
    return Table(("label", "method", "settings", "marks"), tuple(rows), caption)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name} {_plain(item)}" for name, item in value.items() if name != "type")
        return f"{value.get('type', '')}({inner})"
    return f"{value:g}" if isinstance(value, float) else str(value)


_LOSSES = (
    "ε", "method", "promised", "mean", "median", "95 % of examples below", "largest",
    "below half of it, % of examples", "small classes", "large classes",
)  # fmt: skip
_CLAIMS = ("mechanism", "where", "claimed ε", "true ε on a worst pair", "audited ε at least", "verdict")
_MOST_BUDGETS = 2


def loss_section(frame: pd.DataFrame, styles: Mapping[str, Style]) -> Section | None:
    """Each example's own ε against the promised one, by budget and label; None where nobody measured it."""
    usable = cells_with(frame, "instance_loss")
    if usable.empty:
        return None
    tables = []
    for cells in split(usable):
        many = "people" if cells.iloc[0]["unit"] == "person" else "examples"
        rows = tuple(
            (f"{epsilon:.3g}", style.words, *_loss_numbers(some["extra"]))
            for epsilon, style, some in by_label(cells, styles, "at_epsilon")
        )
        caption = (
            f"Privacy loss ε of the {many}, each its own, at the δ of the promise: {over_seeds(cells)} "
            "Small and large classes: medians within classes, averaged over the smallest and the largest "
            f"quarter of the classes. Held fixed: {held_fixed(cells)}."
        )
        header = tuple(words.replace("examples", many) for words in _LOSSES)
        tables.append(Table(header, rows, caption, "rl" + "r" * 8))
    return Section("Per-instance privacy loss", (Note(NOT_FOR_RELEASE, "bad"), *tables))


def _loss_numbers(extras: Iterable[JsonObject]) -> list[str]:
    found = [extra["instance_loss"] for extra in extras]
    promised = max(one["promised"] for one in found)
    groups = [group for one in found if (group := losses_by_size(one))]
    columns = [
        [one["mean"] for one in found],
        [one["percentiles"][50] for one in found],
        [one["percentiles"][95] for one in found],
        [one["largest"] for one in found],
        [group[0] for group in groups],
        [group[-1] for group in groups],
    ]
    losses = [
        format_mean(mean_of(column, top=max([promised, *column])), scale=1.0, digits=2) for column in columns
    ]
    below = format_mean(mean_of(one["share_below_half"] for one in found), digits=0)
    return [f"{promised:.3g}", *losses[:4], below, *losses[4:]]


def printed_section(frame: pd.DataFrame) -> Section | None:
    """Claimed against true ε of the printed mechanisms in these cells, at their budgets and sizes."""
    printed = frame[frame["method"].isin(AS_PUBLISHED) & frame["delta"].gt(0) & frame["dimension"].notna()]
    shown_here = set(printed["method"]) & set(MECHANISMS)
    if not shown_here:
        return None
    delta = printed.iloc[0]["delta"]
    at = typeset(number(delta))
    rows = tuple(
        _claim_row(claim)
        for epsilon in thin_ticks(printed["at_epsilon"], most=_MOST_BUDGETS)
        for claim in printed_claims(
            shown_here,
            epsilon=epsilon,
            delta=delta,
            dimension=int(printed["dimension"].max()),
            candidates=int(printed["pool_rows"].max()) or 50_000,
        )
    )
    caption = (
        f"What was claimed and what is true on one worst pair of neighbours (add/remove), at δ = {at} "
        "unless it is pure. Exact: computed from the law of the mechanism, so there are no seeds and no "
        "interval. Audited: a lower bound from running the mechanism on both neighbours, at 95 % "
        "confidence; it cannot exceed what so many runs can show."
    )
    why = Bullets(tuple(f"{name}: {one.why}." for name, one in AS_PUBLISHED.items() if name in shown_here))
    table = Table(_CLAIMS, rows, caption, "llrrrl")
    return Section("What the printed mechanisms really promise", (table, why))


def _claim_row(one: PrintedClaim) -> tuple[str, ...]:
    true = "unbounded" if math.isinf(one.exact) else f"{one.exact:.2f}"
    bound = "–" if one.audited is None else f"{one.audited:.2f}"
    bound += f" ({one.audited_where})" if one.audited_where else ""
    wasteful = "holds, and wastes budget" if one.exact < 0.9 * one.claimed else "holds"
    verdict = "NOT PRIVATE as claimed" if one.unsafe else wasteful
    return one.mechanism, one.where, f"{one.claimed:.3g}", true, bound, verdict
