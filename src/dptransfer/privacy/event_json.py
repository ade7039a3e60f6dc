"""Events as JSON: what releases and ledgers keep.

The form of an event never changes once written: files are compared byte for byte and chained by hashes. A
field that came later is left out where it has the value that it used to have.
"""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any, cast

from dptransfer.base.plugins import Registry
from dptransfer.errors import ArgumentError, UnknownEvent
from dptransfer.privacy.event import KINDS, Event
from dptransfer.privacy.relation import Relation, Unit

_DEEPEST = 8


def _accepted(name: str, found: Any) -> type[Event]:
    """The class that an installed package adds under the name of its kind."""
    if found is not KINDS.get(name):
        raise ArgumentError(f"it is no class that derives from Event and has kind = '{name}'")
    return KINDS[name]


EVENTS: Registry[type[Event]] = Registry("event kind", "dptransfer.events", {}, _accepted)
"""Kinds that installed packages add; each is loaded when a file that has such a step is read."""


def event_to_dict(event: Event) -> dict[str, Any]:
    """JSON-ready form; `event_from_dict` reads it back.

    >>> from dptransfer.privacy.events import SelectionEvent
    >>> event_to_dict(SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential"))["kind"]
    'selection'
    """
    own = {
        field.name: getattr(event, field.name) for field in dataclass_fields(cast(Any, event)) if field.init
    }
    kept = {
        name: value for name, value in own.items() if name not in event.later or value != event.later[name]
    }
    kept.pop("unit", None)
    unit = {} if event.unit is Unit.ROW else {"unit": event.unit.value}
    return {"kind": event.kind, **kept, "relation": event.relation.value, **event.also_written(), **unit}


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Read what `event_to_dict` wrote; unknown kinds and fields are refused, not skipped."""
    return _read(_DEEPEST, fields)


def _read(depth: int, fields: dict[str, Any]) -> Event:
    values = dict(fields)
    kind = values.pop("kind", None)
    if not isinstance(kind, str):
        raise ArgumentError(f"An event's kind must be a word, such as {', '.join(KINDS)}; got {kind!r}.")
    known = _kind(kind)
    if depth < 0:
        raise ArgumentError("Events are nested at most so deep; these are nested too deeply.")
    try:
        values["relation"] = Relation(values["relation"])
        values["unit"] = Unit(values.get("unit", Unit.ROW))
        return known.read(values, partial(_read, depth - 1))
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
            if name not in KINDS:  # else its module defined the class before it broke
                raise UnknownEvent(str(problem), name) from None
    return KINDS[name]
