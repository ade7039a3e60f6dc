"""Budgets of groups of rows, and what each row really loses of the promised ε.

A group's budget is what one needs where nobody says whose each row is: noise for as many rows as anybody may
have. Losses of rows are a function of private rows and are not covered by the guarantee: they stay in the
laboratory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dptransfer.accounting import epsilon_of, epsilon_of_mu, fits, mu_for
from dptransfer.audit.instance_loss import InstanceLosses
from dptransfer.base.types import JsonObject
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import BudgetError
from dptransfer.methods import PrivateMethod
from dptransfer.privacy import Budget, Event, for_group
from dptransfer.sources import PublicImages

_SHARES = (1.0, 0.999, 0.99, *(0.9**step for step in range(1, 44)))  # down to about a hundredth


def budget_of_one(
    method: PrivateMethod,
    facts: Facts,
    public: PublicEmbeddings | PublicImages | None,
    budget: Budget,
    size: int,
) -> Budget:
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


PERCENTILES = tuple(range(101))
_GROUPS = 4


def loss_summary(
    losses: InstanceLosses,
    labels: NDArray[np.int64],
    classes: int,
    people: NDArray[np.int64] | None = None,
) -> JsonObject:
    """The distribution of ε over rows, JSON-ready; see `audit.instance_loss.instance_losses`.

    Where people are protected it is over them, and each row of a class stands for its person.

    Args:
        losses: each row's own ε, or each person's, and what was promised to all.
        labels: the rows' classes, as positions.
        classes: how many there are.
        people: whose each row is, where people are protected.
    """
    own = losses.epsilons
    of_rows = own if people is None else own[people]
    members = [of_rows[labels == place] for place in range(classes)]
    return {
        "promised": losses.guarantee.epsilon,
        "delta": losses.guarantee.delta,
        "mean": float(own.mean()),
        "largest": losses.worst,
        "share_below_half": losses.share_below_half,
        "percentiles": np.percentile(own, PERCENTILES).tolist(),
        "class_rows": [len(some) for some in members],
        "class_medians": [float(np.median(some)) if len(some) else None for some in members],
    }


def loss_metrics(summary: JsonObject | None) -> dict[str, float | None]:
    """The median loss, and the distance between its quartiles, as shares of the promised ε.

    >>> loss_metrics({"promised": 2.0, "percentiles": [0.02 * place for place in range(101)]})
    {'instance_loss': 0.5, 'instance_loss_spread': 0.5}
    """
    if summary is None:
        return {"instance_loss": None, "instance_loss_spread": None}
    low, middle, high = (summary["percentiles"][place] for place in (25, 50, 75))
    promised = summary["promised"] or 1.0  # nothing was promised where nothing was read
    return {"instance_loss": middle / promised, "instance_loss_spread": (high - low) / promised}


def losses_by_size(summary: JsonObject) -> list[float] | None:
    """Mean of the class medians in each quarter of the classes, from the smallest classes to the largest.

    None where there are fewer than four classes with rows, or all are of one size.

    >>> losses_by_size({"class_rows": [9, 1, 5, 7], "class_medians": [0.1, 0.4, 0.3, 0.2]})
    [0.4, 0.3, 0.2, 0.1]
    """
    pairs = zip(summary["class_rows"], summary["class_medians"], strict=True)
    ordered = sorted((rows, median) for rows, median in pairs if rows)
    if len(ordered) < _GROUPS or ordered[0][0] == ordered[-1][0]:
        return None
    return [float(part.mean()) for part in np.array_split([median for _, median in ordered], _GROUPS)]
