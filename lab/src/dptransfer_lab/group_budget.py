"""What a single row may cost so that a group of rows costs the budget: people protected without knowing them.

It is what one has to do where nobody says whose each row is: noise for as many rows as anybody may have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dptransfer.accounting import epsilon_of, epsilon_of_mu, fits, mu_for
from dptransfer.data import Facts
from dptransfer.errors import BudgetError
from dptransfer.methods import PrivateMethod
from dptransfer.privacy import Budget, Event, for_group

_SHARES = (1.0, 0.999, 0.99, *(0.9**step for step in range(1, 44)))  # down to about a hundredth


def budget_of_one(method: PrivateMethod, facts: Facts, public: Any, budget: Budget, size: int) -> Budget:
    """The budget for a single row under which so many of them together stay within the budget given.

    Gaussian noise hides a group of k like one row that moves answers k times as far, so each may have μ/k,
    which is ρ/k²; a pure ε is ε/k. Lattices cost a little more, and choices or samples in an (ε, δ) budget
    do not follow this rule: the largest share of it is taken whose plan fits, as `for_group` restates it.

    Args:
        method: whose plan is asked.
        facts: what is declared of the rows.
        public: public rows, as its plan takes them.
        budget: for the whole group.
        size: of the group.
    """

    def covered(place: int) -> bool:
        events = method.plan(facts, _shared(budget, size, _SHARES[place]), public).events
        return fits([for_group(event, size) for event in events], budget)

    found = 0 if covered(0) else bisect_left(range(len(_SHARES)), True, lo=1, key=covered)
    if found == len(_SHARES):
        raise BudgetError(
            f"A group of {size} rows must fit the budget; it does not, even at {_SHARES[-1]:.0%} of it. "
            "Raise the budget, or cut how many rows a person has."
        )
    return _shared(budget, size, _SHARES[found])


def group_epsilon(events: Sequence[Event], size: int, delta: float) -> float:
    """What a group of so many rows was promised."""
    return epsilon_of([for_group(event, size) for event in events], delta)


def _shared(budget: Budget, size: int, share: float) -> Budget:
    """A share of what one row of the group may cost."""
    amount, delta = budget.amount, budget.delta
    if budget.rho is not None:
        return replace(budget, rho=share * amount / size**2)
    if budget.mu is not None:
        return replace(budget, mu=share * amount / size)
    own = epsilon_of_mu(mu_for(amount, delta) / size, delta) if delta else amount / size
    return replace(budget, epsilon=share * own)
