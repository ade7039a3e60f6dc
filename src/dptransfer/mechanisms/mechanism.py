"""Base class of mechanisms: a query plus noise, which describes itself as an event and knows no budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from dptransfer.base.types import AnyArray, Integers, Labels, Owners
from dptransfer.errors import BudgetError
from dptransfer.noise import NoiseSource
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Event
from dptransfer.queries.query import Query

ROUND_UP = 1 + 2.0**-40
"""Noise scales are multiplied by it, so that the rounding of a float product errs on the private side."""


def require_noise(multiplier: float) -> None:
    """Refuse noise so small that the lattice bound does not cover it."""
    if not multiplier >= SMALLEST_NOISE_MULTIPLIER:
        raise BudgetError(
            f"The noise multiplier must be at least {SMALLEST_NOISE_MULTIPLIER:g}; got {multiplier!r}. "
            "A budget that large protects nobody: lower epsilon."
        )


class Step(Protocol):
    """Anything a plan lists and a ledger charges for."""

    @property
    def event(self) -> Event:
        """What it costs, known before any row is read."""


class Mechanism(Step, Protocol):
    """A noisy answer about private rows."""

    def release(
        self, rows: AnyArray, labels: Labels, people: Owners = None, *, noise: NoiseSource
    ) -> AnyArray:
        """The noisy answer; the only thing that leaves."""


def exact_answer(query: Query, rows: AnyArray, labels: Labels, people: Owners) -> Integers:
    """The query's answer about rows, or about the persons they are from."""
    asked: Callable[..., Integers] = query
    return asked(rows, labels) if people is None else asked(rows, labels, people)


def at_noise_of(recorded: Event, step: Step) -> Step:
    """The same step with the noise of a recorded event in place of its own, where that is of its kind.

    A step that does more than to set the event's `noise_field` has a method `at_noise_of(recorded)` for it.
    """
    if type(recorded) is not type(step.event):
        return step
    own: Any = step
    found: Step
    if hasattr(step, "at_noise_of"):
        found = own.at_noise_of(recorded)
    else:
        found = replace(own, **{recorded.noise_field: getattr(recorded, recorded.noise_field)})
    return found
