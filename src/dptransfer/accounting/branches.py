"""Steps on disjoint parts, taken apart: every sequence of plain steps that one unit may meet.

A unit is in one part of each `DisjointEvent`, so what it meets is one choice of a part per event, with all
other steps; the event says why the worst choice bounds the whole, for every ε. Curves are compared at each
ε, since none of them need be above the others everywhere.

Equal events are interchangeable: k of them with two parts have k + 1 choices that differ, not 2^k. A part
that only repeats steps of another is never worse and is left out. Where more than `MOST` choices remain, the
last events count with all their parts at once, which is at least as much as any of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement, product

from dptransfer.privacy import DisjointEvent, Event

MOST = 256
"""Choices that are looked at."""

Branch = tuple[Event, ...]


def branches(events: Sequence[Event]) -> list[Branch]:
    """The choices that matter, each without any `DisjointEvent`; one, the events themselves, without them.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> fit, check, later = (GaussianEvent(z, Relation.ADD_REMOVE) for z in (4.0, 8.0, 2.0))
    >>> [[one.noise_multiplier for one in branch]
    ...  for branch in branches([DisjointEvent(((fit,), (check,))), later])]
    [[2.0, 4.0], [2.0, 8.0]]
    """
    always = tuple(event for event in events if not isinstance(event, DisjointEvent))
    found = [always]
    for event, times in Counter(event for event in events if isinstance(event, DisjointEvent)).items():
        parts = _undominated(branch for steps in event.parts for branch in branches(steps))
        if len(found) * math.comb(len(parts) + times - 1, times) > MOST:
            parts = [plain_steps([event])]
        choices = combinations_with_replacement(parts, times)
        found = [before + sum(chosen, ()) for before, chosen in product(found, choices)]
    return found


def one_by_one(events: Sequence[Event]) -> list[list[Branch]]:
    """The choices of each event by itself, all plain events first and as one.

    What adds up over steps, such as ρ, is worst where each event is: choices need not be tried together.
    """
    parted = [event for event in events if isinstance(event, DisjointEvent)]
    plain = tuple(event for event in events if not isinstance(event, DisjointEvent))
    return [[plain], *(branches([event]) for event in parted)]


def plain_steps(events: Iterable[Event]) -> Branch:
    """The steps of all parts, one after another, as if one unit met them all."""
    found: list[Event] = []
    for event in events:
        parts = event.parts if isinstance(event, DisjointEvent) else None
        found += (event,) if parts is None else plain_steps(one for steps in parts for one in steps)
    return tuple(found)


def _undominated(parts: Iterable[Branch]) -> list[Branch]:
    """Those whose steps are not all among the steps of another."""
    kept: list[Branch] = []
    for part in sorted(parts, key=len, reverse=True):
        if not any(Counter(part) <= Counter(other) for other in kept):
            kept.append(part)
    return kept
