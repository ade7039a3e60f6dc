"""Descriptions of noisy steps, as plain frozen data.

An event says what happened in enough detail to compute its privacy loss, and nothing else: no data, no
budget, no behaviour beyond unit conversions. The meaning of a field never changes once released, because
old releases are verified by recomputing their guarantee from recorded events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeAlias

from dptransfer import _check
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.privacy.relation import Relation

SMALLEST_NOISE_MULTIPLIER = 1 / 40
"""Below it `noise.lattice_epsilon` does not bound what integer noise costs: a neighbour is too far away."""


@dataclass(frozen=True)
class GaussianEvent:
    """Gaussian noise of standard deviation `scale` on a query of L2 sensitivity `sensitivity`.

    Attributes:
        noise_multiplier: scale ÷ sensitivity; with z its value the step is (1/z)-GDP and 1/(2z²)-zCDP.
        relation: the neighbouring relation under which `sensitivity` holds.
        sensitivity: L2 sensitivity in the units of the answer.
        label: what was released, in words.
        numeric_epsilon: ε to add because the noise that ran is an integer lattice's
            (see `noise.lattice_epsilon`).
    """

    noise_multiplier: float
    relation: Relation
    sensitivity: float = 1.0
    label: str = ""
    numeric_epsilon: float = 0.0
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        """Refuse what would void the accounting."""
        for name, check in (
            ("noise_multiplier", _check.positive),
            ("sensitivity", _check.positive),
            ("numeric_epsilon", _check.non_negative),
        ):
            object.__setattr__(self, name, check(name, getattr(self, name)))  # NumPy's become Python's
        _check_relation(self.relation)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise in the units of the answer."""
        return self.noise_multiplier * self.sensitivity


@dataclass(frozen=True)
class SelectionEvent:
    """A choice among public candidates that is `epsilon`-DP as a whole.

    The choices for all declared classes together are one event: an example has one label, so it moves the
    scores of one class (add/remove), or of at most two (replace-one); `epsilon` already says which.

    Attributes:
        epsilon: pure ε of the whole step under `relation`.
        relation: the neighbouring relation.
        bounded_range: whether the privacy loss also lies in an interval of length `epsilon`, which makes
            the step (ε²/8)-zCDP. True of the exponential mechanism, not of permute-and-flip or Laplace.
        mechanism: its name.
        label: what was chosen, in words.
    """

    epsilon: float
    relation: Relation
    bounded_range: bool
    mechanism: str
    label: str = ""
    kind: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        """Refuse what would void the accounting."""
        object.__setattr__(self, "epsilon", _check.positive("epsilon", self.epsilon))
        _check_relation(self.relation)
        if not isinstance(self.bounded_range, bool):  # "False" is true, and would cost privacy
            raise ArgumentError(f"bounded_range must be True or False; got {self.bounded_range!r}.")


Event: TypeAlias = GaussianEvent | SelectionEvent
_KINDS: dict[str, type[GaussianEvent] | type[SelectionEvent]] = {
    GaussianEvent.kind: GaussianEvent,
    SelectionEvent.kind: SelectionEvent,
}
_SCALE_ROUNDING = 1e-9


def same_relation(events: Iterable[Event]) -> Relation:
    """The relation all events share; mixing relations raises."""
    found = {event.relation for event in events}
    if len(found) != 1:
        names = " and ".join(sorted(relation.value for relation in found)) or "no events at all"
        raise RelationMismatch(
            f"Events must share one neighbouring relation; got {names}. "
            "Re-plan the mechanisms under a single relation."
        )
    return found.pop()


def in_relation(event: Event, relation: Relation) -> Event:
    """The same step stated under `relation`, safely.

    Add/remove becomes replace-one by taking two steps (remove, then add), so distances double: half the noise
    multiplier, twice the ε. Replace-one says nothing about data sets of different sizes, so the
    other direction raises.
    """
    if event.relation is relation:
        return event
    if relation is Relation.ADD_REMOVE:
        raise RelationMismatch(
            "A replace-one guarantee does not imply an add/remove one; "
            f"got a {event.kind} step under replace-one. Keep a separate replace-one budget for it."
        )
    if isinstance(event, GaussianEvent):
        return replace(
            event,
            relation=relation,
            sensitivity=2 * event.sensitivity,
            noise_multiplier=event.noise_multiplier / 2,
            numeric_epsilon=2 * event.numeric_epsilon,
        )
    return replace(event, relation=relation, epsilon=2 * event.epsilon)


def event_to_dict(event: Event) -> dict[str, Any]:
    """JSON-ready form; `event_from_dict` reads it back."""
    fields = {"kind": event.kind, **asdict(event), "relation": event.relation.value}
    if isinstance(event, GaussianEvent):
        fields["scale"] = event.scale
    return fields


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Read what `event_to_dict` wrote; unknown kinds and fields are refused, not skipped.

    A stored `scale` must be the product of noise multiplier and sensitivity, to one part in 10⁹: whoever
    reads the file may have looked at either.
    """
    values = dict(fields)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ArgumentError(f"An event's kind must be one of {', '.join(_KINDS)}; got {kind!r}.")
    try:
        scale = values.pop("scale", None) if kind == GaussianEvent.kind else None
        values["relation"] = Relation(values["relation"])
        event = _KINDS[kind](**values)
        if isinstance(event, GaussianEvent) and scale is not None:
            _check_scale(event, scale)
    except (KeyError, TypeError, ValueError) as problem:
        raise ArgumentError(f"A {kind} event could not be read: {problem}") from None
    return event


def _check_scale(event: GaussianEvent, scale: float) -> None:
    stored = _check.positive("scale", scale)
    if not math.isclose(stored, event.scale, rel_tol=_SCALE_ROUNDING):
        raise ArgumentError(
            f"scale must be noise_multiplier × sensitivity, {event.scale!r}; got {stored!r}. "
            "One of the three was changed after it was written."
        )


def _check_relation(relation: object) -> None:
    if not isinstance(relation, Relation):
        raise ArgumentError(
            f"relation must be a Relation; got {relation!r}. For example: Relation.ADD_REMOVE."
        )
