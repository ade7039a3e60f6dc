"""Which figures a report draws: those a study asks for, or those that its results make sense of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from dptransfer.errors import DataError
from dptransfer_lab.claims import Where, entries_of
from dptransfer_lab.figures.ablation import ablation
from dptransfer_lab.figures.attack import attack_trade
from dptransfer_lab.figures.best import best_methods
from dptransfer_lab.figures.best_k import optimal_k
from dptransfer_lab.figures.boost import performance_boost
from dptransfer_lab.figures.cost import cost
from dptransfer_lab.figures.curves import curves
from dptransfer_lab.figures.drawing import Drawing
from dptransfer_lab.figures.gallery import Picture, Pictures, gallery, picture_file
from dptransfer_lab.figures.instance import loss_curves
from dptransfer_lab.figures.points import done
from dptransfer_lab.figures.style import Style
from dptransfer_lab.results import Record

Kind = Literal["curves", "best", "ablation", "cost", "boost", "attack", "instance-loss", "best-k", "gallery"]


class FigureEntry(BaseModel):
    """One `[[figure]]` of a study.

    Attributes:
        kind: which figure.
        metric: which number it shows, for curves, best, ablation and cost.
        over: a factor with one panel for each of its values, for curves.
        error: show 1 − the metric, for curves and ablation.
        where: which cells; default all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Kind
    metric: str = ""
    over: str | None = None
    error: bool = False
    where: Where = Where()


def drawings_of(
    records: Sequence[Record],
    styles: Mapping[str, Style],
    study: Mapping[str, Any],
    folders: Sequence[Path] = (),
) -> list[Drawing]:
    """The figures of a study, each name once.

    Args:
        records: its records.
        styles: how its labels are drawn.
        study: the study, resolved.
        folders: where its files are looked for, for the pictures behind public rows.
    """
    entries = entries_of(study, "figure", FigureEntry) or _fitting(records)
    found: dict[str, Drawing] = {}
    for entry in entries:
        some = [record for record in records if entry.where.holds(record)]
        for drawing in _drawn(entry, some, styles, pictures_of(study, folders)):
            found.setdefault(drawing.name, drawing)
    return list(found.values())


def _fitting(records: Sequence[Record]) -> list[FigureEntry]:
    """What the results have: each drawing function gives nothing where there is nothing to show."""
    usable = done(records)
    over = "imbalance" if len({record["imbalance"] for record in usable}) > 1 else None
    entries = [
        FigureEntry(kind="curves", over=over),
        FigureEntry(kind="curves", over=over, metric="minority_accuracy"),
        FigureEntry(kind="best"),
        FigureEntry(kind="cost"),
        FigureEntry(kind="cost", metric="peak_mib"),
        FigureEntry(kind="boost"),
        FigureEntry(kind="instance-loss"),
        FigureEntry(kind="best-k"),
        FigureEntry(kind="gallery"),
    ]
    variants: dict[str, set[str]] = {}
    for record in usable:
        variants.setdefault(record["method"], set()).add(record["label"])
    if any(len(labels) > 1 for labels in variants.values()):
        entries.insert(3, FigureEntry(kind="ablation"))
    return entries


def _drawn(
    entry: FigureEntry, records: Sequence[Record], styles: Mapping[str, Style], pictures: Pictures
) -> list[Drawing]:
    metric = entry.metric or "balanced_accuracy"
    if entry.kind == "curves":
        return curves(records, styles, metric=metric, over=entry.over, error=entry.error)
    if entry.kind == "best":
        return best_methods(records, styles, metric=metric)
    if entry.kind == "ablation":
        return ablation(records, styles, metric=metric, error=entry.error)
    if entry.kind == "cost":
        return cost(records, styles, cost=entry.metric or "fit_seconds")
    if entry.kind == "boost":
        return performance_boost(records, styles)
    if entry.kind == "attack":
        return attack_trade(records, styles)
    if entry.kind == "instance-loss":
        return loss_curves(records, styles)
    return optimal_k(records, metric=metric) if entry.kind == "best-k" else gallery(records, styles, pictures)


def pictures_of(study: Mapping[str, Any], folders: Sequence[Path]) -> Pictures:
    """The pictures behind the study's pools: drawn glyphs, or files that the pool names; otherwise none."""
    sources = {pool["name"]: pool["source"] for pool in study.get("pool", ())}
    known: dict[tuple[str, str], list[Any] | None] = {}

    def look(pool: str, encoder: str, size: int, row: int) -> Picture | None:
        if (pool, encoder) not in known:
            known[pool, encoder] = _rows(sources.get(pool, {}).get(encoder), folders)
        rows = known[pool, encoder]
        if rows is None or len(rows) != size:  # of a part of a pool, row 3 is not row 3 of the pool
            return None
        found = rows[row]
        return picture_file(found) if isinstance(found, str) else found

    return look


def _rows(source: Any, folders: Sequence[Path]) -> list[Any] | None:
    """A picture or a file name for each row of the pool."""
    name = source.get("train") if isinstance(source, Mapping) else source
    if name == "demo":
        from dptransfer_lab.demo_data import demo_glyphs

        rows = demo_glyphs("pixels").rows
        side = round(rows.shape[1] ** 0.5)
        return list((255 * rows).astype(np.uint8).reshape(len(rows), side, side))
    if not isinstance(name, str):
        return None
    from dptransfer.data import read_public

    path = next((folder / name for folder in folders if (folder / name).exists()), None)
    try:
        pool = None if path is None else read_public(path)
    except DataError:
        return None
    return None if pool is None or pool.sources is None else list(pool.sources)
