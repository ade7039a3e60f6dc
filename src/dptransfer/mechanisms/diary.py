"""While a diary is open, mechanisms write down how far each row can move their answers.

For reports about single rows (`dptransfer.audit`), which are private themselves. Nothing is written unless
somebody has opened a diary, and what is written never influences an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.data.embeddings import Labels
from dptransfer.mechanisms.base import Step
from dptransfer.privacy import Event, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent
from dptransfer.queries.base import RawRows
from dptransfer.queries.contributions import contribution_norms, contribution_ranges, largest_contribution

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Entry:
    """One release.

    Attributes:
        event: what it costs at worst.
        shares: how far each row can move the answer, as a share of what `event` pays for. Add/remove: by its
            own contribution. Replace-one: by exchange for the worst other row.
        is_part: whether other releases share its price: the worst other row is then not the worst for all.
    """

    event: Event
    shares: FloatArray
    is_part: bool = False


@dataclass(eq=False)
class Diary:
    """The releases of a run, in order."""

    entries: list[Entry] = field(default_factory=list)


_OPEN: ContextVar[Diary | None] = ContextVar("diary", default=None)


@contextmanager
def recording() -> Iterator[Diary]:
    """Open a diary for the calls inside; in this thread, and no other."""
    diary = Diary()
    token = _OPEN.set(diary)
    try:
        yield diary
    finally:
        _OPEN.reset(token)


def note(step: Step, query: Any, rows: RawRows, labels: Labels) -> None:
    """Write a release down, if somebody asked for it; `step` costs what this one release does."""
    diary = _OPEN.get()
    if diary is not None:
        event = step.event
        shares = _shares(event, query, rows, labels)
        diary.entries.append(Entry(event, shares, getattr(step, "is_part", False)))


def _shares(event: Event, query: Any, rows: RawRows, labels: Labels) -> FloatArray:
    replaces = event.relation is Relation.REPLACE_ONE
    if isinstance(event, SelectionEvent):
        ranges = contribution_ranges(query, rows, labels)
        # Two rows exchanged: scores of one class move by both, or those of two classes by one each.
        return (ranges + 1) / 2 if replaces else ranges
    assert isinstance(event, GaussianEvent | SampledGaussianEvent)
    norms = contribution_norms(query, rows, labels)
    if replaces:
        largest = largest_contribution(query)
        if isinstance(event, SampledGaussianEvent):  # priced by the longer of the two
            norms = np.maximum(norms, largest)
        else:
            exchanged = np.minimum(norms + largest, query.l2_sensitivity(event.relation))
            # A contribution that is too long is a fault, which must not be hidden by the minimum.
            norms = np.where(norms <= largest * (1 + 1e-9), exchanged, norms + largest)
    shares: FloatArray = norms / event.sensitivity
    return shares
