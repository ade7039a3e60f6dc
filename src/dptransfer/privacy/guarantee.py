"""The privacy guarantee, as numbers and as one sentence."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass, replace
from typing import Any

from dptransfer.privacy.numbers import rounded_up
from dptransfer.privacy.relation import Relation, Unit

LABEL_KEPT = "class sizes are public, so the guarantee is for replacing an example within its class"
"""The assumption of steps that protect what an example is, and not its label."""


@dataclass(frozen=True)
class Guarantee:
    """What a set of noisy steps promises together; computed from events by `accounting.guarantee_of`.

    >>> print(Guarantee(1.0, 1e-5, Relation.ADD_REMOVE))
    This model is (ε = 1, δ = 1e-5)-differentially private with respect to adding or removing one example.

    The sentence rounds ε and δ up, to seven digits, so that it stays true when it is read on its own.

    Attributes:
        epsilon: ε, rounded up.
        delta: δ at which ε holds; 0 for pure DP.
        relation: neighbouring relation.
        rho: the same steps in zCDP, where they have one.
        mu: the same steps in GDP, where they have one.
        assumptions: what must hold for the sentence to be true, beyond the code being right.
        unit: what one neighbour has more: an example, or a person with all their examples.
    """

    epsilon: float
    delta: float
    relation: Relation
    rho: float | None = None
    mu: float | None = None
    assumptions: tuple[str, ...] = ()
    unit: Unit = Unit.ROW

    def __repr__(self) -> str:
        return f"Guarantee({self._numbers}, {self.relation.words(self.unit)})"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"

    @property
    def _numbers(self) -> str:
        numbers = f"ε = {rounded_up(self.epsilon)}"
        return f"{numbers}, δ = {rounded_up(self.delta)}" if self.delta else numbers

    def __str__(self) -> str:
        name = f"({self._numbers})-differentially private"
        sentence = f"This model is {name} with respect to {self.relation.sentence(self.unit)}."
        if self.assumptions:
            sentence += " Assuming: " + "; ".join(self.assumptions) + "."
        return sentence

    @property
    def in_short(self) -> str:
        """The sentence without what is assumed, but for what makes it another promise.

        >>> kept = Guarantee(1.0, 0.0, Relation.REPLACE_ONE, assumptions=("settings are fixed", LABEL_KEPT))
        >>> kept.in_short.partition(" Assuming: ")[2] == f"{LABEL_KEPT}."
        True
        """
        return str(replace(self, assumptions=tuple(one for one in self.assumptions if one == LABEL_KEPT)))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; the unit is left out where it is an example."""
        values = {**asdict(self), "relation": self.relation.value, "assumptions": list(self.assumptions)}
        unit = values.pop("unit")
        return {**values, **({} if unit is Unit.ROW else {"unit": unit.value}), "sentence": str(self)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote."""
        values = {k: v for k, v in fields.items() if k != "sentence"}
        values["relation"] = Relation(values["relation"])
        values["assumptions"] = tuple(values.get("assumptions", ()))
        values["unit"] = Unit(values.get("unit", Unit.ROW))
        return cls(**values)
