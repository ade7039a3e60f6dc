"""Ledgers as commands open and show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError
from dptransfer.privacy import event_to_dict, event_words

if TYPE_CHECKING:
    from dptransfer.ledger import DatasetSummary, Entry, Ledger


def open_ledger(path: Path | None, *, must_exist: bool = False, strict_names: bool = False) -> Ledger:
    """The ledger at `path`, the user's own without one; with `must_exist` no new one is made.

    Who only wants to read must not be shown an empty ledger because a path was mistyped.
    """
    from dptransfer.ledger import Ledger

    where = Ledger.default_path() if path is None else path
    if must_exist and not where.exists():
        raise ArgumentError(
            f"A ledger is made by the first budget or charge; there is none at '{where}'. "
            "Check --ledger, or without it the environment variable DPTRANSFER_LEDGER."
        )
    return Ledger(where, strict_names=strict_names)


def summary_json(summary: DatasetSummary) -> dict[str, Any]:
    """One data set's account."""
    return {
        "id": summary.dataset.id,
        "name": summary.dataset.name,
        "charges": summary.charges,
        "unfinished": summary.unfinished,
        "spent": None if summary.spent is None else summary.spent.to_dict(),
        "budget": None if summary.budget is None else summary.budget.to_dict(),
        "rule": summary.rule,
        "sentence": summary.sentence,
        "merged": list(summary.merged),
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """One entry of the record, whatever its kind."""
    from dptransfer.ledger import BudgetChange, Charge, Closing

    shared = {
        "number": entry.number,
        "time": entry.time,
        "dataset": {"id": entry.dataset.id, "name": entry.dataset.name},
        "version": entry.version,
        "process": entry.process,
        "hash": entry.hash,
    }
    if isinstance(entry, Charge):
        own: dict[str, Any] = {
            "kind": "charge",
            "label": entry.label,
            "events": [event_to_dict(event) for event in entry.events],
            "rule": entry.rule,
            "apart_from": list(entry.apart_from),
            "outcome": entry.outcome,
            "status": entry.status,
            "detail": entry.detail,
        }
    elif isinstance(entry, BudgetChange):
        own = {
            "kind": "budget",
            "budget": entry.budget.to_dict(),
            "note": entry.note,
            "rule": entry.rule,
        }
    else:
        assert isinstance(entry, Closing)
        own = {"kind": "closing", "charge": entry.charge, "outcome": entry.outcome, "detail": entry.detail}
    return {**shared, **own}


def entry_words(entry: Entry) -> tuple[str, str]:
    """What an entry did and how it ended, in words."""
    from dptransfer.ledger import BudgetChange, Charge

    if isinstance(entry, Charge):
        steps = "; ".join(map(event_words, entry.events)) or "no private row used, nothing spent"
        if entry.apart_from:
            steps += f"; said to be other people than {', '.join(one[:12] for one in entry.apart_from)}"
        return f"{entry.label}: {steps}", entry.status + (f" ({entry.detail})" if entry.detail else "")
    if isinstance(entry, BudgetChange):
        rule = "" if entry.rule is None else f", counted by '{entry.rule}'"
        return f"budget set to {entry.budget}{rule}", entry.note
    return "", ""
