"""The part of a report that says how much of the promise each example really uses up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dptransfer_lab.figures.instance import NOT_FOR_RELEASE
from dptransfer_lab.figures.points import axis_epsilon, by, by_label, done, held_fixed, split
from dptransfer_lab.figures.style import Style
from dptransfer_lab.instance_loss import losses_by_size
from dptransfer_lab.page import Block, Paragraph, Section, Table
from dptransfer_lab.report_tables import shown
from dptransfer_lab.results import Record
from dptransfer_lab.summary import over_seeds

_HEADER = [
    "ε", "method", "promised", "mean", "median", "95 % of examples below", "largest",
    "below half of it, % of examples", "small classes", "large classes",
]  # fmt: skip


def loss_section(records: Sequence[Record], styles: Mapping[str, Style]) -> Section | None:
    """Each example's own ε against the promised one, by budget and label; None where nobody measured it."""
    usable = [record for record in done(records) if record["extra"].get("instance_loss")]
    blocks: list[Block] = [Paragraph(NOT_FOR_RELEASE, alarm=True)]
    for members in split(usable):
        lines = []
        for epsilon, some in by(members, lambda record: axis_epsilon(record["budget"])).items():
            labels = by_label(some)
            for label, style in styles.items():
                if label in labels:
                    found = [record["extra"]["instance_loss"] for record in labels[label]]
                    lines.append([f"{epsilon:.3g}", style.words, *_numbers(found)])
        caption = (
            "Privacy loss ε of the examples, each its own, at the δ of the promise: mean over seeds [95 % "
            "interval] n = number of seeds. Small and large classes: medians within classes, averaged over "
            f"the smallest and the largest quarter of the classes. Held fixed: {held_fixed(members)}."
        )
        blocks.append(Table(caption, _HEADER, lines, 2))
    return Section("Per-instance privacy loss", blocks) if usable else None


def _numbers(found: Sequence[Mapping[str, Any]]) -> list[str]:
    groups = [losses_by_size(one) for one in found]
    columns: list[list[float | None]] = [
        [one["mean"] for one in found],
        [one["percentiles"][50] for one in found],
        [one["percentiles"][95] for one in found],
        [one["largest"] for one in found],
        [100 * one["share_below_half"] for one in found],
        [group[0] if group else None for group in groups],
        [group[-1] if group else None for group in groups],
    ]
    return [f"{max(one['promised'] for one in found):.3g}", *(_over_seeds(column) for column in columns)]


def _over_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return shown(over_seeds(known) if known else None, scale=1.0, digits=2)
