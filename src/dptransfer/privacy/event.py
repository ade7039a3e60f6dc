"""Base class of events: noisy steps as frozen data, restated for another relation or unit (group privacy).

An event says what happened in enough detail to compute its privacy loss, and nothing else: no data, no
budget. The meaning of a field never changes once released, because old releases are verified by recomputing
their guarantee from recorded events.

A kind of event is one frozen dataclass that derives from `Event`. It says once how it reads in words, as
JSON, under another relation and for a group; `accounting.steps` says in what terms it is accounted for.

One argument carries all of it. If data sets that differ by one unit cost a step some distance, then those
that are m such changes apart, one after another, cost at most m times the distance: Gaussian answers are m
times as far apart, the ε and the ranges of selections add up. So a restatement counts changes.

| From | to | row add/remove | row replace-one |
|---|---|---|---|
| row add/remove | | 1 | 2: remove a row, add a row |
| row replace-one | | never: sizes differ | 1 |
| person add/remove | | 2: remove the person, add them with a row more | 4: in two persons |
| person replace-one | | 1: replace the person by the same with a row more | 2: in two persons |

**A row of a person who has others** moves that person's contribution from one vector within the bound B to
another, by up to 2B, while adding the person moves it by B. Hence 2, not 1, and for B of half an example or
less it is reached (`tests/privacy/test_restate.py`). A row whose person has no other is that person, and
costs 1. **A replaced row** may also change hands: one person loses a row and another gains one. **Under
replace-one** the number of people is public, and a person may have no example (`Relation`), so the row of a
new person replaces such a one.

**Rows as persons.** A person with at most k rows is k changes of one row: a group (`for_group`). That k is
the owner's to declare, as a public promise about the data; nothing here infers it. Without it there is no
way, and from replace-one steps on rows there is none at all: two persons may have different numbers of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields, replace
from functools import partial
from typing import Any, ClassVar, Self

from dptransfer.base import checks
from dptransfer.base.plugins import Registry
from dptransfer.errors import ArgumentError, RelationMismatch, UnknownEvent
from dptransfer.privacy.relation import Relation, Unit

KINDS: dict[str, type[Event]] = {}
"""Every kind there is, by the name that it has in files."""


class Event(ABC):
    """A noisy step: what every kind has in common, and what each has to say about itself.

    Two numbers say how the noise that runs differs from the ideal one. `numeric_epsilon` bounds a likelihood
    ratio (the noise lives on integers), `numeric_delta` a total variation distance (a sampler cuts the far
    tails off); `accounting.compose` says what either costs.

    Attributes:
        kind: its name in files.
        noise_field: which field says how much noise there is; the step's mechanism calls it the same, or has
            an `at_noise_of` of its own (`mechanisms.mechanism`).
        field_checks: the function of `base.checks` for each number.
        field_types: the type of each other field.
        later: fields that came after files were written, with the value they had before: left out where
            they have it, because files are compared byte for byte and chained by hashes.
        relation: the neighbouring relation under which its numbers hold.
        unit: what one neighbour has more.
        label: what was released, in words.
    """

    kind: ClassVar[str]
    noise_field: ClassVar[str]
    field_checks: ClassVar[checks.Checks]
    field_types: ClassVar[Mapping[str, type]] = {"relation": Relation, "unit": Unit, "label": str}
    later: ClassVar[Mapping[str, object]] = {}
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every kind is a dataclass
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
        for name, check in self.field_checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        for name, kind in self.field_types.items():
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
        return replace(self.further(2, lattice=2), relation=Relation.REPLACE_ONE)

    def of_group(self, size: int) -> Self:
        """As a group of `size` units meets it; `for_group` says why."""
        return self.further(size, lattice=size * size)

    def for_rows(self, relation: Relation) -> Self:
        """A step that protects persons, as single rows meet it; the function `for_rows` says why."""
        changes = 2 if self.relation is Relation.ADD_REMOVE else 1
        changes *= 2 if relation is Relation.REPLACE_ONE else 1
        return replace(self.further(changes, lattice=changes * changes), relation=relation, unit=Unit.ROW)

    def for_people(self, most_rows: int) -> Self:
        """A step that protects rows, as persons with at most so many rows meet it."""
        return replace(self if most_rows == 1 else self.of_group(most_rows), unit=Unit.PERSON)

    def trials(self) -> tuple[tuple[Event, ...], ...]:
        """The events of each candidate, where the step is a choice among several."""
        return ()

    def inner(self) -> tuple[tuple[Event, ...], ...]:
        """The events it is made of, in groups: candidates, or parts of the data; none for a plain step."""
        return self.trials()

    def also_written(self) -> Mapping[str, object]:
        """What its JSON holds beside its fields, or in other words than they do."""
        return {}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[dict[str, Any]], Event]) -> Event:
        """The event from its JSON, where relation and unit are enums already; inner ones by `read_event`."""
        return cls(**values)


def same_relation(events: Iterable[Event]) -> Relation:
    """The relation all events share; mixing relations raises, and so does mixing units."""
    events = tuple(events)
    same_unit(events)
    if any(event.relation is not events[0].relation for event in events):
        raise RelationMismatch(
            "Events must share one relation; got add/remove and replace-one. Plan them under one."
        )
    return events[0].relation


def same_unit(events: Sequence[Event]) -> Unit:
    """The unit all events share; mixing units raises."""
    if not events:
        raise RelationMismatch("Events must share one neighbouring relation; got no events at all. Name it.")
    if any(event.unit is not events[0].unit for event in events):
        raise RelationMismatch("Events must protect one unit; got person and row. Ask for the data's unit.")
    return events[0].unit


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
            f"Replace-one does not imply add/remove; got a {event.kind} step. Keep a budget of its own."
        )
    return event.under_replace_one()


def for_rows(event: Event, relation: Relation) -> Event:
    """The same step as single rows meet it, under `relation`; the table above says how far apart they are.

    The lattice's share grows like the square of the distance, as for a group. A step on Poisson samples of
    persons raises: given who is in a sample, one person contributes this or that, and add/remove prices this
    or nothing.

    >>> from dptransfer.privacy.events import GaussianEvent
    >>> sums = GaussianEvent(8.0, Relation.ADD_REMOVE, unit=Unit.PERSON)
    >>> [for_rows(sums, relation).noise_multiplier for relation in Relation]
    [4.0, 2.0]
    """
    return in_relation(event, relation) if event.unit is Unit.ROW else event.for_rows(relation)


def for_people(event: Event, relation: Relation, most_rows: int | None = None) -> Event:
    """The same step as persons with at most `most_rows` rows each meet it, under `relation`.

    Args:
        event: the step; one that protects persons already needs no bound.
        relation: the relation to state it under.
        most_rows: the declared, public bound on rows per person.

    >>> from dptransfer.privacy.events import GaussianEvent
    >>> for_people(GaussianEvent(8.0, Relation.ADD_REMOVE), Relation.ADD_REMOVE, 4).noise_multiplier
    2.0
    """
    if event.unit is Unit.PERSON:
        return in_relation(event, relation)
    if most_rows is None:
        raise RelationMismatch(
            f"Persons need a declared bound on rows per person; got a {event.kind} step on rows. Declare one."
        )
    if event.relation is Relation.REPLACE_ONE:
        raise RelationMismatch(
            f"Replaced rows say nothing of persons; got a {event.kind} step. Plan it under add/remove."
        )
    return in_relation(event.for_people(checks.whole("most_rows_per_person", most_rows)), relation)


def for_group(event: Event, size: int) -> Event:
    """The same step as a group of `size` units (examples, or persons) meets it, under the same relation.

    Every distance and every ε is `size` times as large. A sampled step meets some of the group with
    probability 1 − (1 − q)^size, and then at most `size` times the distance; to assume the largest distance
    whenever it meets any is a bound (`accounting.sampled` shows that larger distances cost more). The
    lattice's share grows like the square of the distance (`noise.lattice_epsilon`: with w = 40 + 40·size
    in place of 80, 1 + w² ≤ size²(1 + 85²)).

    >>> from dptransfer.privacy.events import SelectionEvent
    >>> for_group(SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential"), 4).epsilon
    2.0
    """
    size = checks.whole("size", size)
    return event if size == 1 else event.of_group(size)


_DEEPEST = 8


def _accepted(name: str, found: object) -> type[Event]:
    """The class that an installed package adds under the name of its kind."""
    if found is not KINDS.get(name):
        raise ArgumentError(f"it is no class that derives from Event and has kind = '{name}'")
    return KINDS[name]


EVENTS: Registry[type[Event]] = Registry("event kind", "dptransfer.events", {}, _accepted)
"""Kinds that installed packages add; each is loaded when a file that has such a step is read."""


def event_to_dict(event: Event) -> dict[str, Any]:
    """JSON-ready form, which releases and ledgers keep; `event_from_dict` reads it back.

    It never changes once written, because files are compared byte for byte and chained by hashes.

    >>> from dptransfer.privacy.events import SelectionEvent
    >>> event_to_dict(SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential"))["kind"]
    'selection'
    """
    own = {field.name: getattr(event, field.name) for field in fields(event) if field.init}
    later = event.later
    kept = {name: value for name, value in own.items() if name not in later or value != later[name]}
    kept.pop("unit", None)
    unit = {} if event.unit is Unit.ROW else {"unit": event.unit.value}
    return {"kind": event.kind, **kept, "relation": event.relation.value, **event.also_written(), **unit}


def event_from_dict(values: dict[str, Any], deepest: int = _DEEPEST) -> Event:
    """Read what `event_to_dict` wrote; unknown kinds and fields are refused, not skipped.

    Args:
        values: the JSON.
        deepest: how many levels of events may be nested in it.
    """
    values = dict(values)
    kind = values.pop("kind", None)
    if not isinstance(kind, str):
        raise ArgumentError(f"An event's kind must be a word, such as {', '.join(KINDS)}; got {kind!r}.")
    known = _kind(kind)
    if deepest < 0:
        raise ArgumentError("Events are nested at most so deep; these are nested too deeply.")
    try:
        values["relation"] = Relation(values["relation"])
        values["unit"] = Unit(values.get("unit", Unit.ROW))
        return known.read(values, partial(event_from_dict, deepest=deepest - 1))
    except UnknownEvent:  # of a step within this one
        raise
    except (KeyError, TypeError, ValueError) as problem:
        raise ArgumentError(f"A {kind} event could not be read: {problem}") from None


def _kind(name: str) -> type[Event]:
    """The class with this name; one of another package is imported now."""
    if name not in KINDS:
        try:
            EVENTS[name]  # defining the class puts it among KINDS
        except KeyError:
            raise UnknownEvent(
                f"A step that is read must be of a known kind; '{name}' is none of {', '.join(KINDS)}. "
                "Install the package that adds it, or a newer dptransfer.",
                name,
            ) from None
        except ArgumentError as problem:  # a package that is broken
            if name not in KINDS:  # pragma: no branch — else its module defined the class before it broke
                raise UnknownEvent(str(problem), name) from None
    return KINDS[name]
