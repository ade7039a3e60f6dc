"""Private tuning: a random number of trials, of which only the best is released."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from dptransfer import _check
from dptransfer.errors import ArgumentError
from dptransfer.privacy.event import Event, same_relation
from dptransfer.privacy.event_json import event_to_dict
from dptransfer.privacy.numbers import number
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit

_LAWS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}
_POISSON = "poisson"  # JSON has no infinity
_MOST_SHOWN = 5  # candidates in a table's row


@dataclass(frozen=True)
class BestOfManyEvent(Event):
    """Private tuning: a random number of trials, of which only the best is released.

    Each trial runs one candidate, drawn uniformly, and yields a result with a score; the result of highest
    score is released with its candidate, and everything else is forgotten, the number of trials included. A
    candidate's events cover its whole trial, **the score too** where that is computed from private rows.

    Attributes:
        candidates: for each candidate, the events of one trial.
        mean_trials: the expected number of trials, at least 1.
        shape: the law of the number of trials: a truncated negative binomial of this shape (above −1; 1 is
            geometric, 0 logarithmic), or Poisson when it is infinite, where no trial at all may happen.
        label: what was chosen, in words.
        relation: that of all candidates.
        unit: that of all candidates.
        numeric_delta: trials add up, on average over their number, and the worst candidate counts. What the
            lattice costs is paid inside each trial.
    """

    candidates: tuple[tuple[Event, ...], ...]
    mean_trials: float
    shape: float
    label: str = ""
    relation: Relation = field(init=False)
    unit: Unit = field(init=False)
    numeric_delta: float = field(init=False, repr=False, compare=False)
    kind: ClassVar[str] = "best-of-many"
    checks: ClassVar[_check.Checks] = {"mean_trials": _check.positive}

    def __post_init__(self) -> None:
        """Refuse what is no fixed list of trials with a law of their number."""
        try:
            candidates = tuple(tuple(events) for events in self.candidates)
        except TypeError:
            candidates = ()
        if not candidates or not all(candidates):
            raise ArgumentError(
                "candidates must hold the events of at least one candidate, and each at least one event; "
                f"got {self.candidates!r}."
            )
        object.__setattr__(self, "candidates", candidates)
        object.__setattr__(self, "relation", same_relation(one for events in candidates for one in events))
        object.__setattr__(self, "unit", candidates[0][0].unit)
        super().__post_init__()
        if self.mean_trials < 1:
            raise ArgumentError(f"mean_trials must be at least 1; got {self.mean_trials!r}.")
        shape = self.shape
        known = isinstance(shape, int | float) and not isinstance(shape, bool)
        if not known or not (-1 < shape <= sys.float_info.max or shape == math.inf):
            raise ArgumentError(f"shape must be a number above -1, or infinity for Poisson; got {shape!r}.")
        object.__setattr__(self, "shape", float(shape))
        worst = max(math.fsum(one.numeric_delta for one in events) for events in candidates)
        object.__setattr__(self, "numeric_delta", min(1.0, self.mean_trials * worst * (1 + 1e-12)))

    @property
    def law(self) -> str:
        """That of the number of trials, in words."""
        return _LAWS.get(self.shape, f"negative binomial, shape {number(self.shape)}")

    def words(self, digits: int = 5) -> str:
        """How many trials, of how many candidates."""
        count = len(self.candidates)
        tried = f"{count} candidate{'s' * (count != 1)}"
        return f"best of about {number(self.mean_trials, digits)} trials ({self.law}) of {tried}"

    def table_row(self) -> tuple[str, str]:
        """The law of the trials, and what the first candidates do in one of them."""
        trials = [" and ".join(one.words() for one in trial) for trial in self.candidates]
        shown = [f"({n}) {words}" for n, words in enumerate(trials[:_MOST_SHOWN], start=1)]
        more = len(trials) - len(shown)
        return self.words(6), "; ".join(shown) + (f"; and {more} more" if more else "")

    def further(self, distance: float, lattice: float = 1) -> Self:
        """Every step of every trial."""
        return self._each(lambda one: one.further(distance, lattice))

    def under_replace_one(self) -> Self:
        """Every step of every trial."""
        return self._each(lambda one: one.under_replace_one())

    def of_group(self, size: int) -> Self:
        """Every step of every trial."""
        return self._each(lambda one: one.of_group(size))

    def for_rows(self, relation: Relation) -> Self:
        """Every step of every trial."""
        return self._each(lambda one: one.for_rows(relation))

    def for_people(self, most_rows: int) -> Self:
        """Every step of every trial."""
        return self._each(lambda one: one.for_people(most_rows))

    def trials(self) -> tuple[tuple[Event, ...], ...]:
        """Those of its candidates."""
        return self.candidates

    def also_written(self) -> Mapping[str, Any]:
        """Candidates as JSON, and a name for infinity."""
        inner = [[event_to_dict(one) for one in trial] for trial in self.candidates]
        return {"candidates": inner, "shape": _POISSON if math.isinf(self.shape) else self.shape}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[Any], Event]) -> Event:
        """Its relation and unit must be those of its candidates."""
        relation, unit, shape = (values.pop(name) for name in ("relation", "unit", "shape"))
        if isinstance(shape, float) and math.isinf(shape):
            raise ArgumentError(f"an infinite shape is written {_POISSON!r}")
        trials = tuple(tuple(read_event(one) for one in trial) for trial in values.pop("candidates"))
        event = cls(trials, shape=math.inf if shape == _POISSON else shape, **values)
        if (event.relation, event.unit) != (relation, unit):
            raise ArgumentError("its relation or unit is not that of its candidates")
        return event

    def _each(self, change: Callable[[Event], Event]) -> Self:
        return replace(self, candidates=tuple(tuple(map(change, trial)) for trial in self.candidates))
