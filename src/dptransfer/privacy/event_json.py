"""Events as JSON: what releases and ledgers keep.

The form of an event never changes once written: files are compared byte for byte and chained by hashes. A
field that came later is left out where it has the value that it used to have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from typing import Any

from dptransfer import _check
from dptransfer.errors import ArgumentError
from dptransfer.privacy.event import (
    BestOfManyEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    SelectionEvent,
)
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit

_PLAIN: dict[str, Callable[..., Event]] = {
    kind.kind: kind for kind in (GaussianEvent, SelectionEvent, SampledGaussianEvent)
}
_KINDS = (*_PLAIN, BestOfManyEvent.kind)
_LATER: dict[str, dict[str, Any]] = {GaussianEvent.kind: {"times": 1, "numeric_delta": 0.0}}
_SCALE_ROUNDING = 1e-9
_POISSON = "poisson"  # JSON has no infinity
_DEEPEST = 8


def event_to_dict(event: Event) -> dict[str, Any]:
    """JSON-ready form; `event_from_dict` reads it back.

    >>> event_to_dict(SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential"))["kind"]
    'selection'
    """
    later = _LATER.get(event.kind, {})
    own = {field.name: getattr(event, field.name) for field in dataclass_fields(event)}
    values = {name: value for name, value in own.items() if name not in later or value != later[name]}
    values.pop("unit", None)
    written = {"kind": event.kind, **values, "relation": event.relation.value}
    if isinstance(event, BestOfManyEvent):
        written["candidates"] = [[event_to_dict(one) for one in trial] for trial in event.candidates]
        written["shape"] = _POISSON if math.isinf(event.shape) else event.shape
    elif not isinstance(event, SelectionEvent):
        written["scale"] = event.scale
    return written if event.unit is Unit.ROW else {**written, "unit": event.unit.value}


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Read what `event_to_dict` wrote; unknown kinds and fields are refused, not skipped.

    A stored `scale` must be the product of noise multiplier and sensitivity, to one part in 10⁹: whoever
    reads the file may have looked at either.
    """
    return _read(fields, _DEEPEST)


def _read(fields: dict[str, Any], depth: int) -> Event:
    values = dict(fields)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ArgumentError(f"An event's kind must be one of {', '.join(_KINDS)}; got {kind!r}.")
    try:
        relation, unit = Relation(values.pop("relation")), Unit(values.pop("unit", Unit.ROW))
        if kind == BestOfManyEvent.kind:
            return _best_of_many(values, relation, unit, depth)
        scale = None if kind == SelectionEvent.kind else values.pop("scale", None)
        event = _PLAIN[kind](**values, relation=relation, unit=unit)
        if scale is not None and not isinstance(event, SelectionEvent | BestOfManyEvent):
            _check_scale(event, scale)
    except (KeyError, TypeError, ValueError) as problem:
        raise ArgumentError(f"A {kind} event could not be read: {problem}") from None
    return event


def _best_of_many(values: dict[str, Any], relation: Relation, unit: Unit, depth: int) -> BestOfManyEvent:
    if depth == 0:
        raise ArgumentError("tuned steps are nested too deeply")
    trials = tuple(tuple(_read(one, depth - 1) for one in trial) for trial in values.pop("candidates"))
    shape = values.pop("shape")
    if isinstance(shape, float) and math.isinf(shape):
        raise ArgumentError(f"an infinite shape is written {_POISSON!r}")
    event = BestOfManyEvent(trials, shape=math.inf if shape == _POISSON else shape, **values)
    if (event.relation, event.unit) != (relation, unit):
        raise ArgumentError("its relation or unit is not that of its candidates")
    return event


def _check_scale(event: GaussianEvent | SampledGaussianEvent, scale: float) -> None:
    stored = _check.positive("scale", scale)
    if not math.isclose(stored, event.scale, rel_tol=_SCALE_ROUNDING):
        raise ArgumentError(
            f"scale must be noise_multiplier × sensitivity, {event.scale!r}; got {stored!r}. "
            "One of the three was changed after it was written."
        )
