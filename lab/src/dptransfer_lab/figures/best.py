"""A heat map of the best method in each cell of the grid, with the margin to the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dptransfer_lab.figures.drawing import Drawing, labelled, legend, sheet
from dptransfer_lab.figures.points import (
    METRIC_WORDS,
    axis_epsilon,
    by,
    by_label,
    caption,
    done,
    figure_name,
    slug,
    split,
    spread,
)
from dptransfer_lab.figures.style import INK, PAPER, Style
from dptransfer_lab.results import Record

_WHOLE = ("data", "encoder", "classes", "dimension", "rows", "pool", "pool_rows", "imbalance")


@dataclass(frozen=True)
class Winner:
    """Who is best in one cell.

    Attributes:
        label: the label with the largest mean over seeds.
        mean: that mean.
        margin: the distance to the second best mean; None where there is no second.
        clear: whether the 95 % intervals of the two means do not overlap.
    """

    label: str
    mean: float
    margin: float | None
    clear: bool


def winner_of(records: Sequence[Record], metric: str) -> Winner | None:
    """The best private label among these records; what is not private does not compete."""
    rivals = [record for record in done(records) if not record["marks"]["not_private"]]
    found = {label: spread(members, metric) for label, members in by_label(rivals).items()}
    ranked = sorted(((point["mean"], label, point) for label, point in found.items() if point), reverse=True)
    if not ranked:
        return None
    best, label, first = ranked[0]
    if len(ranked) == 1:
        return Winner(label, best, None, False)
    second = ranked[1][2]
    known = first["low"] is not None and second["high"] is not None
    return Winner(label, best, best - second["mean"], bool(known and first["low"] > second["high"]))


def best_methods(
    records: Sequence[Record], styles: Mapping[str, Style], *, metric: str = "balanced_accuracy"
) -> list[Drawing]:
    """One map per currency: data sets and imbalance ratios down, ε across; two methods or more are needed."""
    figures = []
    for members in split(done(records), over=_WHOLE):
        rivals = {record["label"] for record in members if not record["marks"]["not_private"]}
        if len(rivals) > 1 and len({axis_epsilon(record["budget"]) for record in members}) > 1:
            figures.append(_figure(members, styles, metric))
    return figures


def _figure(records: list[Record], styles: Mapping[str, Style], metric: str) -> Drawing:
    lines = by(
        records, lambda record: (record["data"], record["encoder"], record["pool"] or "", record["imbalance"])
    )
    budgets = sorted({axis_epsilon(record["budget"]) for record in records})
    winners: dict[tuple[Any, float], Winner] = {}
    for line, members in lines.items():
        for budget, cell in by(members, lambda record: axis_epsilon(record["budget"])).items():
            if (found := winner_of(cell, metric)) is not None:
                winners[line, budget] = found
    figure, [[axes]] = sheet(width=1.6 + 0.7 * len(budgets), height=0.42 * len(lines) + 0.5)
    axes.grid(False)
    for row, line in enumerate(lines):
        for column, budget in enumerate(budgets):
            _cell(axes, row, column, winners.get((line, budget)), styles)
    axes.set_xlim(-0.5, len(budgets) - 0.5)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xticks(range(len(budgets)), [f"{budget:.3g}" for budget in budgets])
    axes.set_yticks(range(len(lines)), [_words(line, list(lines)) for line in lines])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    labelled(axes, x="ε (smaller promises more)")
    shown = {winner.label for winner in winners.values()}
    legend(figure, [style for label, style in styles.items() if label in shown], bars=True)
    words = METRIC_WORDS[metric]
    what = (
        f"Which label has the largest mean {words} in each cell: the large number is that mean in percent, "
        "the small one its lead over the second best in points, with a star where the two 95 % intervals do "
        "not overlap"
    )
    what += (
        "; what is not private does not compete" if any(r["marks"]["not_private"] for r in records) else ""
    )
    return Drawing(
        name=figure_name(("best", metric), records, over=_WHOLE),
        title=f"Best method per cell by {words}",
        caption=caption(what, records, bands="means over seeds", vary=_WHOLE),
        figure=figure,
    )


def _cell(axes: Any, row: int, column: int, winner: Winner | None, styles: Mapping[str, Style]) -> None:
    from matplotlib.patches import Rectangle

    if winner is None:
        axes.text(column, row, "–", ha="center", va="center", fontsize=8, color=INK)
        return
    style = styles[winner.label]
    box = Rectangle(
        (column - 0.48, row - 0.46),
        0.96,
        0.92,
        facecolor=style.colour.light,
        hatch=style.hatch,
        edgecolor=PAPER,
        gid=slug("cell", row, column, winner.label),
    )
    axes.add_patch(box)
    plate = {"facecolor": PAPER, "edgecolor": "none", "boxstyle": "round,pad=0.12", "alpha": 0.92}
    lead = "" if winner.margin is None else f"+{100 * winner.margin:.1f}{'*' if winner.clear else ''}"
    text = f"{100 * winner.mean:.1f}\n{lead}" if lead else f"{100 * winner.mean:.1f}"
    axes.text(
        column, row, text, ha="center", va="center", fontsize=7.5, color=INK, bbox=plate, linespacing=0.95
    )


def _words(line: tuple[Any, ...], lines: list[tuple[Any, ...]]) -> str:
    """The line's own data and ratio; encoder and pool only where they tell lines apart."""
    data, encoder, pool, imbalance = line
    words = [str(data)]
    words += [str(encoder)] if len({other[1] for other in lines if other[0] == data}) > 1 else []
    words += [str(pool or "no pool")] if len({other[2] for other in lines if other[0] == data}) > 1 else []
    return ", ".join(words) + (f", ratio {imbalance:g}" if imbalance else "")
