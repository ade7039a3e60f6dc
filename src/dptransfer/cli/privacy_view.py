"""Noisy steps, what they promise and what was charged for them, as commands show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import dptransfer as dpt
from dptransfer.cli.screen import say, show_table
from dptransfer.privacy import Event, Guarantee, Relation, Unit, event_to_dict, rounded_up

if TYPE_CHECKING:
    from dptransfer.base.types import JsonObject
    from dptransfer.ledger import DatasetSummary

_RATES = (0.01, 0.001)
_MOST = 20


def privacy_json(method: str, guarantee: Guarantee, events: Sequence[Event]) -> JsonObject:
    """The fields that every command's JSON has in common, with the attacker's view."""
    return {
        "method": method,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": guarantee.relation.value,
        "unit": guarantee.unit.value,
        "events": [event_to_dict(event) for event in events],
        "guarantee": guarantee.to_dict(),
        "attack": attack_limits(events),
    }


def attack_limits(events: Sequence[Event]) -> JsonObject:
    """Upper limits on any membership attack."""
    return {
        "true_positive_rate": {
            f"{rate:g}": dpt.accounting.true_positive_rate(events, rate) for rate in _RATES
        },
        "membership_advantage": dpt.accounting.membership_advantage(events),
    }


def show_events(events: Sequence[Event]) -> None:
    """One line per noisy step."""
    if not events:
        say("No private row is used: there is no noisy step, and nothing is spent.")
        return
    rows = [(str(n), event.label, *event.table_row()) for n, event in enumerate(events[:_MOST], start=1)]
    if len(events) > _MOST:
        rows.append(("", f"and {len(events) - _MOST} more", "", ""))
    show_table(("#", "Releases", "Noise", "Detail"), rows, numbers=(0,))


def attack_sentence(events: Sequence[Event]) -> str:
    """The attacker's view in words; percentages are rounded up."""
    rates = attack_limits(events)["true_positive_rate"]
    replaced = bool(events) and events[0].relation is Relation.REPLACE_ONE
    attack = "attack that tells members from their replacements" if replaced else "membership attack"
    who = "members" if not events or events[0].unit is Unit.ROW else "the people in the data"
    found = [f"{rounded_up(100 * rates[f'{rate:g}'], 3)}% of {who} at {100 * rate:g}%" for rate in _RATES]
    return f"any {attack} finds at most {found[0]} false alarms, and {found[1]}"


def charge_record(book: dpt.Ledger, head: str | None) -> tuple[JsonObject, dict[str, object]]:
    """A charge and the account it was made to, as JSON and as facts for people.

    Args:
        book: where it was charged.
        head: of the charge.
    """
    charge, account = book.charge_of(head)
    entry = {"path": str(book.path), "entry": charge.number, "head": charge.hash}
    return {"ledger": entry, "account": summary_json(account)}, {
        "Charged": f"{account.dataset}, entry {charge.number} of the ledger {book.path}",
        "Account": account.sentence,
    }


def summary_json(summary: DatasetSummary) -> JsonObject:
    """One data set's account."""
    plain = ("charges", "unfinished", "rule", "sentence", "most_rows_per_person")
    return {
        **asdict(summary.dataset),
        "spent": None if summary.spent is None else summary.spent.to_dict(),
        "budget": None if summary.budget is None else summary.budget.to_dict(),
        "unit": None if summary.unit is None else summary.unit.value,
        **{name: getattr(summary, name) for name in plain},
    }


def warn_if_seeded(seeded: bool) -> None:
    """Say in capitals that noise which can be repeated protects nobody."""
    if seeded:
        say("NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed.", style="bold red")
