"""Events as JSON: what releases and ledgers keep.

The form of an event never changes once written: files are compared byte for byte and chained by hashes. A
field that came later is left out where it has the value that it used to have.
"""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any, cast

from dptransfer.errors import ArgumentError
from dptransfer.privacy.event import KINDS, Event
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit

_DEEPEST = 8


def event_to_dict(event: Event) -> dict[str, Any]:
    """JSON-ready form; `event_from_dict` reads it back.

    >>> from dptransfer.privacy import SelectionEvent
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
    if not isinstance(kind, str) or kind not in KINDS:
        raise ArgumentError(f"An event's kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    if depth < 0:
        raise ArgumentError("Events are nested at most so deep; these are nested too deeply.")
    try:
        values["relation"] = Relation(values["relation"])
        values["unit"] = Unit(values.get("unit", Unit.ROW))
        return KINDS[kind].read(values, partial(_read, depth - 1))
    except (KeyError, TypeError, ValueError) as problem:
        raise ArgumentError(f"A {kind} event could not be read: {problem}") from None
