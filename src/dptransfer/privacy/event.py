"""What a noisy step is: frozen data from which its privacy loss follows, and all there is to say about it.

An event says what happened in enough detail to compute its privacy loss, and nothing else: no data, no
budget. The meaning of a field never changes once released, because old releases are verified by recomputing
their guarantee from recorded events.

A kind of event is one frozen dataclass that derives from `Event`. It says once how it reads in words, as
JSON, under another relation and for a group; `accounting.steps` says in what terms it is accounted for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from dptransfer import _check
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit

KINDS: dict[str, type[Event]] = {}
"""Every kind there is, by the name that it has in files."""

_ALL_HAVE = {"relation": Relation, "unit": Unit, "label": str}


class Event(ABC):
    """A noisy step: what every kind has in common, and what each has to say about itself.

    Two numbers say how the noise that runs differs from the ideal one. `numeric_epsilon` bounds a likelihood
    ratio (the noise lives on integers), `numeric_delta` a total variation distance (a sampler cuts the far
    tails off); `accounting.compose` says what either costs.

    Attributes:
        kind: its name in files.
        noise_field: which field says how much noise there is; the step's mechanism calls it the same, or has
            an `at_noise_of` of its own (`mechanisms.base`).
        checks: the function of `_check` for each number.
        later: fields that came after files were written, with the value they had before: left out where
            they have it, because files are compared byte for byte and chained by hashes.
        relation: the neighbouring relation under which its numbers hold.
        unit: what one neighbour has more.
        label: what was released, in words.
    """

    kind: ClassVar[str]
    noise_field: ClassVar[str]
    checks: ClassVar[_check.Checks]
    later: ClassVar[Mapping[str, Any]] = {}
    relation: Relation
    unit: Unit
    label: str
    numeric_epsilon: float = 0.0
    numeric_delta: float = 0.0

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls) and KINDS.setdefault(cls.kind, cls) is not cls:
            raise TypeError(f"A kind of event has a name of its own; {cls.kind!r} is taken.")

    def __post_init__(self) -> None:
        """Refuse what would void the accounting; NumPy's numbers become Python's."""
        for name, check in self.checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        for name, kind in _ALL_HAVE.items():
            if not isinstance(getattr(self, name), kind):
                raise ArgumentError(f"{name} must be a {kind.__name__}; got {getattr(self, name)!r}.")

    @abstractmethod
    def words(self, digits: int = 5) -> str:
        """What was done, in a few words and without the label."""

    @abstractmethod
    def table_row(self) -> tuple[str, str]:
        """The noise, and a detail, for a table that has the label already."""

    @abstractmethod
    def further(self, distance: float, lattice: float = 1) -> Self:
        """The same noise, neighbours `distance` times as far apart, and `lattice` times the lattice's ε."""

    def under_replace_one(self) -> Self:
        """An add/remove step for data sets that differ in one unit: remove one, then add one."""
        moved: Any = self.further(2, lattice=2)  # every kind is a dataclass
        changed: Self = replace(moved, relation=Relation.REPLACE_ONE)
        return changed

    def of_group(self, size: int) -> Self:
        """As a group of `size` units meets it; `restate.for_group` says why."""
        return self.further(size, lattice=size * size)

    def for_rows(self, relation: Relation) -> Self:
        """A step that protects persons, as single rows meet it; `restate.for_rows` says why."""
        persons = (2 if self.relation is Relation.ADD_REMOVE else 1) * (
            2 if relation is Relation.REPLACE_ONE else 1
        )
        moved: Any = self.further(persons, lattice=persons * persons)
        changed: Self = replace(moved, relation=relation, unit=Unit.ROW)
        return changed

    def for_people(self, most_rows: int) -> Self:
        """A step that protects rows, as persons with at most so many rows meet it."""
        group: Any = self if most_rows == 1 else self.of_group(most_rows)
        changed: Self = replace(group, unit=Unit.PERSON)
        return changed

    def trials(self) -> tuple[tuple[Event, ...], ...]:
        """The events of each candidate, where the step is a choice among several."""
        return ()

    def inner(self) -> tuple[tuple[Event, ...], ...]:
        """The events it is made of, in groups: candidates, or parts of the data; none for a plain step."""
        return self.trials()

    def also_written(self) -> Mapping[str, Any]:
        """What its JSON holds beside its fields, or in other words than they do."""
        return {}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[Any], Event]) -> Event:
        """The event from its JSON, where relation and unit are enums already; inner ones by `read_event`."""
        return cls(**values)


def event_words(event: Event, digits: int = 5) -> str:
    """What was done, in a few words and without the label.

    >>> from dptransfer.privacy import GaussianEvent
    >>> event_words(GaussianEvent(20.0, Relation.ADD_REMOVE, times=28))
    'noise multiplier 20, 28 times'
    """
    return event.words(digits)


def same_relation(events: Iterable[Event]) -> Relation:
    """The relation all events share; mixing relations raises, and so does mixing units."""
    events = tuple(events)
    same_unit(events)
    if any(event.relation is not events[0].relation for event in events):
        raise RelationMismatch(
            "Events must share one neighbouring relation; got add/remove and replace-one. "
            "Re-plan the mechanisms under a single relation."
        )
    return events[0].relation


def same_unit(events: Sequence[Event]) -> Unit:
    """The unit all events share; mixing units raises."""
    if not events:
        raise RelationMismatch("Events must share one neighbouring relation; got no events at all. Name it.")
    if any(event.unit is not events[0].unit for event in events):
        raise RelationMismatch(
            "Events must protect one unit; got person and row. Ask all queries for the unit of the data."
        )
    return events[0].unit
