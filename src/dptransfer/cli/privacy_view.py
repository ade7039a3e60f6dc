"""Noisy steps and what they promise, as `plan`, `fit` and `verify` show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dptransfer.cli.screen import say, show_table
from dptransfer.privacy import Event, Guarantee, Relation, Unit, event_to_dict, rounded_up

_RATES = (0.01, 0.001)
_MOST = 20


def privacy_json(method: str, guarantee: Guarantee, events: Sequence[Event]) -> dict[str, Any]:
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


def attack_limits(events: Sequence[Event]) -> dict[str, Any]:
    """Upper limits on any membership attack."""
    from dptransfer.accounting import membership_advantage, true_positive_rate

    return {
        "true_positive_rate": {f"{rate:g}": true_positive_rate(events, rate) for rate in _RATES},
        "membership_advantage": membership_advantage(events),
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
