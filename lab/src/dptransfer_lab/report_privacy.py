"""The parts of a report about privacy itself: what each example loses, what printed mechanisms promise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from dptransfer.base.document import Bullets, Note, Section, Table
from dptransfer.privacy import number, typeset
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.figures.instance import NOT_FOR_RELEASE
from dptransfer_lab.figures.style import Style
from dptransfer_lab.instance_loss import losses_by_size
from dptransfer_lab.intervals import mean_of
from dptransfer_lab.points import held_fixed, split, telling, thinned
from dptransfer_lab.report_tables import by_label, over_seeds, shown
from dptransfer_lab.true_epsilon import MECHANISMS, PrintedClaim, printed_claims

_LOSSES = (
    "ε", "method", "promised", "mean", "median", "95 % of examples below", "largest",
    "below half of it, % of examples", "small classes", "large classes",
)  # fmt: skip
_CLAIMS = ("mechanism", "where", "claimed ε", "true ε on a worst pair", "audited ε at least", "verdict")
_MOST_BUDGETS = 2


def loss_section(frame: pd.DataFrame, styles: Mapping[str, Style]) -> Section | None:
    """Each example's own ε against the promised one, by budget and label; None where nobody measured it."""
    usable = telling(frame, "instance_loss")
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


def _loss_numbers(extras: Iterable[Mapping[str, Any]]) -> list[str]:
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
    losses = [shown(mean_of(column, top=max([promised, *column])), scale=1.0, digits=2) for column in columns]
    below = shown(mean_of(one["share_below_half"] for one in found), digits=0)
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
        for epsilon in thinned(printed["at_epsilon"], most=_MOST_BUDGETS)
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
