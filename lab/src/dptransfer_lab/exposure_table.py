"""The part of a report that says what printed mechanisms cost in true ε."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.exposure import MECHANISMS, Exposure, exposures
from dptransfer_lab.figures.curves import thinned
from dptransfer_lab.figures.points import axis_epsilon
from dptransfer_lab.page import Block, Paragraph, Section, Table
from dptransfer_lab.results import Record

_MOST_BUDGETS = 2


def exposure_section(records: Sequence[Record]) -> Section | None:
    """Claimed against true ε of the printed mechanisms in these records, at their budgets and sizes."""
    printed = [r for r in records if r["method"] in AS_PUBLISHED and r["budget"]["delta"] and r["dimension"]]
    shown = {record["method"] for record in printed} & set(MECHANISMS)
    if not shown:
        return None
    delta = printed[0]["budget"]["delta"]
    dimension = max(record["dimension"] for record in printed)
    candidates = max((record["pool_rows"] for record in printed), default=0) or 50_000
    budgets = thinned(sorted({axis_epsilon(record["budget"]) for record in printed}), most=_MOST_BUDGETS)
    found = [
        one
        for epsilon in budgets
        for one in exposures(shown, epsilon=epsilon, delta=delta, dimension=dimension, candidates=candidates)
    ]
    rows = [_row(one) for one in found]
    caption = (
        f"What was claimed and what is true on one worst pair of neighbours (add/remove), at δ = {delta:g} "
        "unless it is pure. Exact: computed from the law of the mechanism, so there are no seeds and no "
        "interval. Audited: a lower bound from running the mechanism on both neighbours, at 95 % "
        "confidence; it cannot exceed what so many runs can show."
    )
    why = [f"{name}: {AS_PUBLISHED[name].why}." for name in AS_PUBLISHED if name in shown]
    table = Table(
        caption,
        ["mechanism", "where", "claimed ε", "true ε on a worst pair", "audited ε at least", "verdict"],
        rows,
        2,
    )
    blocks: list[Block] = [table, *(Paragraph(text) for text in why)]
    return Section("What the printed mechanisms really promise", blocks)


def _row(one: Exposure) -> list[str]:
    true = "unbounded" if math.isinf(one.exact) else f"{one.exact:.2f}"
    bound = (
        "–"
        if one.audited is None
        else f"{one.audited:.2f}{f' ({one.audited_where})' if one.audited_where else ''}"
    )
    verdict = (
        "NOT PRIVATE as claimed"
        if one.unsafe
        else "holds, and wastes budget"
        if one.exact < 0.9 * one.claimed
        else "holds"
    )
    return [one.mechanism, one.where, f"{one.claimed:.3g}", true, bound, verdict]
