"""Steps on disjoint parts of the data, such as a fit and its hold-out: each unit pays for its own part."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from dptransfer import _check
from dptransfer.errors import ArgumentError
from dptransfer.privacy.event import Event, same_relation
from dptransfer.privacy.event_json import event_to_dict
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit


@dataclass(frozen=True)
class DisjointEvent(Event):
    """Every unit is in exactly one part, by a coin of its own; the steps of a part see that part alone.

    The coins are independent of each other and of what the units are: the part of a unit is drawn, and never
    follows from its contents or its id.

    **Why the dearer part is the price.** Write two neighbours next to each other and pair their units: each
    with itself, and under replace-one the replaced unit with its successor. (Under add/remove one unit has no
    partner; so has one under replace-one whose partner is a person without any row.) The law of the answers
    on either data set is a mixture over assignments of parts to its units, with product weights. So it does
    not matter in which order units are numbered and coins are drawn, a coin that nobody uses changes nothing,
    and the assignment that gives both of a pair the same part has the same weight on both sides. Let P and Q
    be the two laws, and P_c and Q_c the same given one such assignment c to all pairs. With c given, the
    units that differ are in one part, say i. The steps of every other part see the same units in both; they
    may use earlier answers, which the outcome holds already. So P_c and Q_c are as far apart as the steps of
    part i make them: their hockey-stick divergence H_ε is at most δ_i(ε). H_ε is jointly convex, so for every
    ε

        H_ε(P‖Q) ≤ E_c H_ε(P_c‖Q_c) ≤ max_i δ_i(ε),

    and likewise with P and Q exchanged. Beside other steps, and other events of this kind with coins of their
    own, c holds the coins of all of them: what counts is the worst over all choices of one part per event, of
    everything else composed with the chosen parts (`accounting.branches`). The same holds for Rényi
    divergences, of which e^((α−1)r) is jointly convex. It does not hold for trade-off curves point by point:
    the larger of two of them need not be concave, and a mixture reaches its concave hull.

    **Where a neighbour may touch several parts** there is one part that holds all steps, and all are paid:
    for a group of units, each with a coin of its own, and for a row that goes from one person to another.

    Attributes:
        parts: the steps of each part; one part may have none.
        label: what is kept apart, in words.
        relation: that of all steps.
        unit: that of all steps, and what a coin is thrown for.
        numeric_epsilon: that of the part where it is largest.
        numeric_delta: likewise.
    """

    parts: tuple[tuple[Event, ...], ...]
    label: str = ""
    relation: Relation = field(init=False)
    unit: Unit = field(init=False)
    numeric_epsilon: float = field(init=False, repr=False, compare=False)
    numeric_delta: float = field(init=False, repr=False, compare=False)
    kind: ClassVar[str] = "disjoint"
    checks: ClassVar[_check.Checks] = {}

    def __post_init__(self) -> None:
        """Refuse what has no steps."""
        try:
            parts = tuple(tuple(steps) for steps in self.parts)
        except TypeError:
            parts = ()
        inner = [one for steps in parts for one in steps]
        if not inner or not all(isinstance(one, Event) for one in inner):
            raise ArgumentError(f"parts must hold the events of each part; got {self.parts!r}.")
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "relation", same_relation(inner))
        object.__setattr__(self, "unit", inner[0].unit)
        super().__post_init__()
        for name in ("numeric_epsilon", "numeric_delta"):
            most = max(math.fsum(getattr(one, name) for one in steps) for steps in parts)
            object.__setattr__(self, name, most)

    def words(self, digits: int = 5) -> str:
        """What each part has.

        >>> from dptransfer.privacy import GaussianEvent
        >>> fit, check = (GaussianEvent(z, Relation.ADD_REMOVE) for z in (4.0, 8.0))
        >>> DisjointEvent(((fit,), (check,))).words()
        'one of 2 parts: (1) noise multiplier 4; (2) noise multiplier 8'
        """
        return f"{self._of_parts()}: {self._listed(lambda one: one.words(digits))}"

    def table_row(self) -> tuple[str, str]:
        """That a unit is in one part alone, and what each part has."""

        def said(one: Event) -> str:
            return f"{one.label}: {one.words(6)}" if one.label else one.words(6)

        return self._of_parts(), self._listed(said)

    def further(self, distance: float, lattice: float = 1) -> Self:
        """Every step of every part."""
        return self._each(lambda one: one.further(distance, lattice))

    def under_replace_one(self) -> Self:
        """Every step of every part: a unit and its successor have one coin between them."""
        return self._each(lambda one: one.under_replace_one())

    def of_group(self, size: int) -> Self:
        """Every step, and all are paid where the group may be in several parts."""
        return self if size == 1 else self._all_paid(lambda one: one.of_group(size))

    def for_rows(self, relation: Relation) -> Self:
        """Every step; a row that goes from one person to another may be in two parts, and all are paid."""
        if relation is Relation.ADD_REMOVE:
            return self._each(lambda one: one.for_rows(relation))
        return self._all_paid(lambda one: one.for_rows(relation))

    def for_people(self, most_rows: int) -> Self:
        """Every step; the rows of a person may be in several parts, and all are paid."""
        change = self._each if most_rows == 1 else self._all_paid
        return change(lambda one: one.for_people(most_rows))

    def inner(self) -> tuple[tuple[Event, ...], ...]:
        """Its parts."""
        return self.parts

    def also_written(self) -> Mapping[str, Any]:
        """Parts as JSON."""
        return {"parts": [[event_to_dict(one) for one in steps] for steps in self.parts]}

    @classmethod
    def read(cls, values: dict[str, Any], read_event: Callable[[Any], Event]) -> Event:
        """Its relation and unit must be those of its parts."""
        relation, unit = values.pop("relation"), values.pop("unit")
        parts = tuple(tuple(read_event(one) for one in steps) for steps in values.pop("parts"))
        event = cls(parts, **values)
        if (event.relation, event.unit) != (relation, unit):
            raise ArgumentError("its relation or unit is not that of its parts")
        return event

    def _of_parts(self) -> str:
        return "one of " + f"{len(self.parts)} parts" if len(self.parts) > 1 else "all parts"

    def _listed(self, said: Callable[[Event], str]) -> str:
        parts = [" and ".join(map(said, steps)) or "nothing" for steps in self.parts]
        numbered = [f"({place}) {steps}" for place, steps in enumerate(parts, start=1)]
        return "; ".join(numbered if len(parts) > 1 else parts)

    def _each(self, change: Callable[[Event], Event]) -> Self:
        return replace(self, parts=tuple(tuple(map(change, steps)) for steps in self.parts))

    def _all_paid(self, change: Callable[[Event], Event]) -> Self:
        return replace(self, parts=(tuple(change(one) for steps in self.parts for one in steps),))
