"""What notebooks show of a ledger: each data set with what is spent and allowed. For its owner's eyes."""

from __future__ import annotations

from collections.abc import Sequence

from dptransfer.document import Block, Document, Paragraph, Section, Table
from dptransfer.ledger.entry import DatasetSummary

_MOST = 20  # data sets that are listed before the rest is counted


def ledger_summary(where: str, datasets: Sequence[DatasetSummary]) -> Document:
    """A ledger in a line for each data set.

    Args:
        where: what the ledger is called.
        datasets: what is on record.
    """
    return Document(f"Ledger {where}", sections=(Section("Data sets", (_accounts(datasets),)),))


def _accounts(datasets: Sequence[DatasetSummary]) -> Block:
    if not datasets:
        return Paragraph("Nothing is on record yet.")
    rows = [(one.dataset.name or one.dataset.short, str(one.charges), one.sentence) for one in datasets]
    more = f"The first {_MOST} of {len(rows)}." if len(rows) > _MOST else ""
    return Table(("Data set", "Charges", "Account"), tuple(rows[:_MOST]), more, "lr")
