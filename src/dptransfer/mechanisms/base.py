"""What a mechanism is: a query plus noise, which says what it did as an event and knows no budget."""

from __future__ import annotations

from typing import Any, Protocol

from dptransfer.data.embeddings import Labels
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Event
from dptransfer.queries.base import RawRows

ROUND_UP = 1 + 2.0**-40
"""Noise scales are multiplied by it, so that the rounding of a float product errs on the private side."""


class Step(Protocol):
    """Anything a plan lists and a ledger charges for."""

    @property
    def event(self) -> Event:
        """What it costs, known before any row is read."""
        ...


class Mechanism(Step, Protocol):
    """A noisy answer about private rows."""

    def release(self, rows: RawRows, labels: Labels, *, noise: NoiseSource) -> Any:
        """The noisy answer; the only thing that leaves."""
        ...
