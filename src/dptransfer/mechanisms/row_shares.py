"""Record how much of a release's privacy cost each row uses, and let an audit watch what is asked.

For reports about single rows (`dptransfer.audit`), which are private themselves, and for audits on made-up
rows. Nothing is computed unless somebody is recording, and what is recorded never influences an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dptransfer.base.types import AnyArray, Floats, Integers, Labels, Owners
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms.mechanism import Step, exact_answer
from dptransfer.privacy import Event, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent
from dptransfer.queries.query import Query, contribution_norms, contribution_ranges, largest_contribution


@dataclass(frozen=True, eq=False)
class RowShares:
    """One release.

    Attributes:
        event: what it costs at worst.
        shares: how far each row can move the answer, as a share of what `event` pays for. Add/remove: by its
            own contribution. Replace-one: by exchange for the worst other row.
        is_part: whether other releases share its price: the worst other row is then not the worst for all.
    """

    event: Event
    shares: Floats
    is_part: bool = False


_Value = TypeVar("_Value")
_RECORD: ContextVar[list[RowShares] | None] = ContextVar("row shares", default=None)


@contextmanager
def set_inside(variable: ContextVar[_Value], value: _Value) -> Iterator[None]:
    """Give a context variable this value for the calls inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


class Watcher:
    """Is told what mechanisms are asked inside of `watch`."""

    def step(self, step: Step, query: Query, rows: AnyArray, labels: Labels, people: Owners) -> None:
        """A release begins: what it costs, and the question about all rows."""

    def answer(self, exact: Integers) -> None:
        """Its exact answer, before the noise; of sampled rows, where it is about a sample."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of the releases of the calls inside; for made-up rows alone."""
    with set_inside(_WATCHER, watcher):
        yield


def answer_told(query: Query, rows: AnyArray, labels: Labels, people: Owners) -> Integers:
    """The exact answer, which a watcher is told."""
    exact = exact_answer(query, rows, labels, people)
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher.answer(exact)
    return exact


@contextmanager
def recording() -> Iterator[list[RowShares]]:
    """The releases of the calls inside, in order; in this thread, and no other."""
    record: list[RowShares] = []
    with set_inside(_RECORD, record):
        yield record


def not_recording() -> AbstractContextManager[None]:
    """Write down nothing of the calls inside: for runs that release nothing."""
    return set_inside(_RECORD, None)


def note(step: Step, query: Query, rows: AnyArray, labels: Labels, people: Owners = None) -> None:
    """Record a release if recording is on; `step` costs what this one release does."""
    record, watcher = _RECORD.get(), _WATCHER.get()
    if watcher is not None:
        watcher.step(step, query, rows, labels, people)
    if record is not None:
        event = step.event
        shares = shares_of(event, query, rows, labels, people)
        record.append(RowShares(event, shares, getattr(step, "is_part", False)))


def shares_of(event: Event, query: Any, rows: AnyArray, labels: Labels, people: Owners = None) -> Floats:
    """Each unit's share in a release of this kind."""
    replaced = event.relation is Relation.REPLACE_ONE
    if isinstance(event, SelectionEvent):
        ranges = contribution_ranges(query, rows, labels, people)
        # Two rows exchanged: scores of one class move by both, or those of two classes by one each.
        return (ranges + 1) / 2 if replaced else ranges
    if not isinstance(event, GaussianEvent | SampledGaussianEvent):
        raise ArgumentError(f"A {event.kind} step has no losses by row; use a method without one.")
    norms = contribution_norms(query, rows, labels, people)
    if replaced:
        largest = largest_contribution(query)
        if isinstance(event, SampledGaussianEvent):  # priced by the longer of the two
            return np.maximum(norms, largest) / event.sensitivity
        exchanged = np.minimum(norms + largest, query.l2_sensitivity(event.relation))
        # A contribution that is too long is a fault, which must not be hidden by the minimum.
        norms = np.where(norms <= largest * (1 + 1e-9), exchanged, norms + largest)
    return norms / event.sensitivity
