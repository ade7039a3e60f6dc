"""What notebooks show of a plan: its promise, its noisy steps and the reasons for choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dptransfer.base.document import Block, Bullets, Document, Paragraph, Section, Table
from dptransfer.privacy import Event

if TYPE_CHECKING:
    from dptransfer.methods.method import Plan

_MOST = 10  # steps that are listed before the rest is counted


def plan_summary(plan: Plan) -> Document:
    """A plan in a few lines."""
    blocks: list[Block] = [_steps(plan.events)]
    if plan.notes:
        blocks.append(Bullets(plan.notes))
    return Document(
        f"Plan of '{plan.method.name}'",
        plan.guarantee.in_short,
        sections=(Section("What would run", tuple(blocks)),),
        footer="No private row was read, and nothing is charged.",
    )


def _steps(events: Sequence[Event]) -> Block:
    if not events:
        return Paragraph("No private row is used: there is no noisy step.")
    rows = [(event.label, *event.table_row()) for event in events[:_MOST]]
    if len(events) > _MOST:
        rows.append((f"and {len(events) - _MOST} more", "", ""))
    return Table(("Releases", "Noise", "Detail"), tuple(rows))
