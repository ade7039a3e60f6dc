"""The same steps under another relation, or as a group of units meets them."""

from __future__ import annotations

from dptransfer import _check
from dptransfer.errors import RelationMismatch
from dptransfer.privacy.event import Event
from dptransfer.privacy.relation import Relation


def in_relation(event: Event, relation: Relation) -> Event:
    """The same step stated under `relation`, safely.

    Add/remove becomes replace-one by taking two steps (remove, then add), so distances double: half the noise
    multiplier, twice the ε. A sampled step keeps its numbers, which say what one row contributes, and is
    priced by the relation itself; only the lattice's share doubles. A cut tail is the same for any data.
    Replace-one says nothing about data sets of different sizes, so the other direction raises.
    """
    if event.relation is relation:
        return event
    if relation is Relation.ADD_REMOVE:
        raise RelationMismatch(
            "A replace-one guarantee does not imply an add/remove one; "
            f"got a {event.kind} step under replace-one. Keep a separate replace-one budget for it."
        )
    return event.under_replace_one()


def for_group(event: Event, size: int) -> Event:
    """The same step as a group of `size` units (examples, or persons) meets it, under the same relation.

    Every distance and every ε is `size` times as large. A sampled step meets some of the group with
    probability 1 − (1 − q)^size, and then at most `size` times the distance; to assume the largest distance
    whenever it meets any is a bound (`accounting.sampled` shows that larger distances cost more). The
    lattice's share grows like the square of the distance (`noise.lattice_epsilon`: with w = 40 + 40·size
    in place of 80, 1 + w² ≤ size²(1 + 85²)).

    >>> from dptransfer.privacy import SelectionEvent
    >>> for_group(SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential"), 4).epsilon
    2.0
    """
    size = _check.whole("size", size)
    return event if size == 1 else event.of_group(size)
