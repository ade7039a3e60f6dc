"""Budgets: what the data owner allows, in one of four currencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dptransfer.base import checks
from dptransfer.errors import BudgetError
from dptransfer.privacy.numbers import number
from dptransfer.privacy.relation import Relation

_CURRENCIES = ("epsilon", "rho", "mu")


@dataclass(frozen=True)
class Budget:
    """An upper limit on privacy loss, under a named relation.

    Exactly one of `epsilon`, `rho`, `mu` is given. With `rho` or `mu`, `delta` is only the δ at which the
    resulting ε is quoted.

    >>> Budget(epsilon=1.0, delta=1e-5).flavour
    'approximate'
    >>> Budget(epsilon=1.0).flavour
    'pure'
    >>> print(Budget.zcdp(0.5))
    rho = 0.5 zCDP, add/remove

    Attributes:
        epsilon: ε of (ε, δ)-DP, or of pure DP when `delta` is 0.
        delta: δ in [0, 1).
        rho: ρ of zero-concentrated DP.
        mu: μ of Gaussian DP.
        relation: the neighbouring relation the limit is stated under.
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    mu: float | None = None
    relation: Relation = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        """Check the numbers; a bad budget never exists."""
        try:
            object.__setattr__(self, "delta", checks.probability("delta", self.delta))
            given = [name for name in _CURRENCIES if getattr(self, name) is not None]
            for name in given:  # NumPy's numbers become Python's
                object.__setattr__(self, name, checks.positive(name, getattr(self, name)))
        except ValueError as problem:
            raise BudgetError(f"{problem} Usual are epsilon = 1 and delta = 1e-5.") from None
        if len(given) != 1:
            raise BudgetError(
                f"A budget needs exactly one of epsilon, rho, mu; got {', '.join(given) or 'none of them'}."
            )
        if not isinstance(self.relation, Relation):
            raise BudgetError(f"relation must be a Relation; got {self.relation!r}. See dptransfer.Relation.")
        if self.epsilon is None and self.delta == 0:
            raise BudgetError("A zCDP or GDP budget needs delta > 0, to quote ε at; got 0. Usual is 1e-5.")

    @classmethod
    def pure(cls, epsilon: float, *, relation: Relation = Relation.ADD_REMOVE) -> Budget:
        """Pure ε-DP."""
        return cls(epsilon=epsilon, relation=relation)

    @classmethod
    def zcdp(cls, rho: float, *, delta: float = 1e-5, relation: Relation = Relation.ADD_REMOVE) -> Budget:
        """ρ-zCDP; ε is quoted at `delta`."""
        return cls(rho=rho, delta=delta, relation=relation)

    @classmethod
    def gdp(cls, mu: float, *, delta: float = 1e-5, relation: Relation = Relation.ADD_REMOVE) -> Budget:
        """μ-Gaussian DP; ε is quoted at `delta`."""
        return cls(mu=mu, delta=delta, relation=relation)

    @property
    def currency(self) -> str:
        """Which of 'epsilon', 'rho' and 'mu' it is given in."""
        return next(name for name in _CURRENCIES if getattr(self, name) is not None)

    @property
    def amount(self) -> float:
        """How much of that currency."""
        amount: float = getattr(self, self.currency)
        return amount

    @property
    def flavour(self) -> str:
        """One of 'pure', 'approximate', 'zcdp', 'gdp'."""
        return {"rho": "zcdp", "mu": "gdp"}.get(self.currency, "approximate" if self.delta > 0 else "pure")

    def __str__(self) -> str:
        kinds = {"approximate": f", delta = {number(self.delta)}", "zcdp": " zCDP", "gdp": " GDP"}
        kind = kinds.get(self.flavour, "")
        return f"{self.currency} = {number(self.amount)}{kind}, {self.relation.value}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        amounts = {name: getattr(self, name) for name in _CURRENCIES}
        return {**amounts, "delta": self.delta, "relation": self.relation.value}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Budget:
        """Read what `to_dict` wrote; a missing or unknown field is refused, not guessed or skipped."""
        names = set(cls.__dataclass_fields__)
        if set(fields) != names:
            odd = ", ".join(sorted(map(str, names ^ set(fields))))
            known = ", ".join(sorted(names))
            raise BudgetError(f"A stored budget has exactly the fields {known}; missing or unknown: {odd}.")
        try:
            relation = Relation(fields["relation"])
        except ValueError as problem:
            raise BudgetError(f"A stored budget could not be read: {problem}.") from None
        return cls(**{**fields, "relation": relation})
