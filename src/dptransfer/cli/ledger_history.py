"""Rows of `dptransfer ledger history`: charges with what they cost and how they ended, and limits.

Entries are numbered in one series. How a charge ended is an entry of its own, and stands in the charge's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.errors import DPTransferError, UnknownCharge
from dptransfer.privacy import Unit, number, rounded_up

if TYPE_CHECKING:
    from dptransfer.ledger import BudgetChange, Charge, Entry

HEADER = ("Entry", "Time (UTC)", "User", "Data set", "What", "Epsilon (delta)", "Total", "Outcome or note")
FOOTNOTE = (
    "Epsilon: each charge by itself, at the delta in brackets. Total: all charges of its data set so far. "
    "Both as stated when it was charged. How a charge ended is an entry of its own, in brackets."
)


def history_rows(
    entries: Sequence[Entry], *, steps: bool, releases: Mapping[str, str], last: int
) -> list[tuple[object, ...]]:
    """A row for each charge and each change of a limit, in order.

    Args:
        entries: charges and limits of the ledger, oldest first.
        steps: whether to say what noise each charge was for.
        releases: words for the releases that charges made, by the head that the charge had.
        last: how many rows, counted from the end.
    """
    from dptransfer.ledger import BudgetChange, Charge

    currencies: dict[str, str] = {}
    rows: list[tuple[object, ...]] = []
    for place, entry in enumerate(entries, start=last - len(entries)):
        if isinstance(entry, BudgetChange):
            currencies[entry.dataset.id] = entry.budget.currency
        if place < 0:
            continue
        shared = (entry.number, entry.time[:19].replace("T", " "), entry.user)
        name = entry.dataset.name or entry.dataset.short
        if isinstance(entry, BudgetChange):
            rows.append((*shared, name, _limit_words(entry), "", "", entry.note))
        elif isinstance(entry, Charge):
            currency = currencies.get(entry.dataset.id, "epsilon")
            costs = (_amount(entry.cost, currency), _amount(entry.total, currency))
            ended = "; ".join(filter(None, (_outcome(entry), releases.get(entry.hash))))
            rows.append((*shared, name, charge_words(entry, steps=steps), *costs, ended))
    return rows


def charge_words(charge: Charge, *, steps: bool = True) -> str:
    """What was charged for: the label, with `steps` what noise, and always what cannot be read here."""
    told = [charge.label]
    try:
        if steps:
            words = (
                "; ".join(event.words() for event in charge.events) or "no private row used, nothing spent"
            )
            by = charge.events[0].unit if charge.events else Unit.ROW
            told = [f"{charge.label}: {words}" + ("" if by is Unit.ROW else f"; by {by.value}")]
        else:
            charge.events  # noqa: B018  # to tell whether it can be read
    except UnknownCharge:
        told = [f"{charge.label}: steps of the kind {', '.join(charge.kinds)}, not all of which is installed"]
    if charge.apart_from:
        told.append(f"said to be other people than {', '.join(one[:12] for one in charge.apart_from)}")
    return "; ".join(told)


def entry_json(entry: Entry) -> dict[str, Any]:
    """One entry of the record, whatever its kind; what only the ledger needs is left out."""
    from dptransfer.ledger import BudgetChange, Charge

    found: dict[str, Any] = {"dataset": asdict(entry.dataset)}
    names = ["number", "time", "user", "version", "process", "hash"]
    if isinstance(entry, Charge):
        found |= {"kind": "charge", "events": list(entry.steps)}
        names += ["apart_from", "label", "rule", "cost", "total", "outcome", "status", "detail", "closed_by"]
    elif isinstance(entry, BudgetChange):
        found |= {"kind": "budget", "budget": entry.budget.to_dict(), "unit": entry.unit.value}
        names += ["note", "rule", "most_rows_per_person"]
    else:
        found["kind"] = "closing"
        names += ["charge", "outcome", "detail"]
    return {**found, **{name: getattr(entry, name) for name in names}}


def release_heads(model: Path) -> dict[str, str]:
    """The heads that a release keeps of the charges behind it, with words for what each of them made."""
    from dptransfer.release import read_release

    released = read_release(model)
    called = f"{model}" + (f" ('{released.provenance.title}')" if released.provenance.title else "")
    found = {released.provenance.ledger_head: called}
    if released.charged is not None:
        found.setdefault(released.charged.ledger_head, f"test results of {called}")
    return {head: words for head, words in found.items() if head is not None}


def entry_of_release(model: Path) -> str | None:
    """Which entry of the user's ledger a release came from, in words; None where none is known here."""
    from dptransfer.ledger import Ledger

    where = Ledger.default_path()
    with suppress(DPTransferError, OSError):  # a ledger that cannot be read is no concern of a release
        heads = release_heads(model) if where.is_file() else {}
        numbers = [entry.number for entry in Ledger(where).history() if entry.hash in heads] if heads else []
        if numbers:
            of = "entry" if len(numbers) == 1 else "entries"
            return f"Charged as {of} {' and '.join(map(str, numbers))} of your ledger {where}."
    return None


def _outcome(charge: Charge) -> str:
    if charge.outcome is None:
        return "open: interrupted or running"
    return f"{charge.outcome}{f': {charge.detail}' if charge.detail else ''} ({charge.closed_by})"


def _amount(stated: Mapping[str, Any] | None, currency: str) -> str:
    """What is spent, in the currency of the limit where it has an amount in that."""
    if stated is None:
        return "not stated"
    if currency != "epsilon" and currency in stated:
        return f"{currency} {rounded_up(stated[currency])}"
    if "epsilon" not in stated:
        return "unbounded"
    at = f" ({number(stated['delta'])})" if stated.get("delta") else ""
    return f"{rounded_up(stated['epsilon'])}{at}"


def _limit_words(change: BudgetChange) -> str:
    by = "" if change.unit is Unit.ROW else f", by {change.unit.value}"
    most = change.most_rows_per_person
    by += "" if most is None else f", nobody having more than {most} rows"
    rule = "" if change.rule is None else f", counted by '{change.rule}'"
    return f"limit set to {change.budget}{by}{rule}"
