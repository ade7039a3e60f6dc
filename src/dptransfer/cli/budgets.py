"""The options that name a budget, and the budget they name."""

from __future__ import annotations

from typing import Annotated

import typer

from dptransfer.privacy import Budget, Relation

_BUDGET = "Budget"

Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", help="ε; alone it is pure DP.", rich_help_panel=_BUDGET)
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", "-d", help="δ, below 0.1; usual is 1e-5.", rich_help_panel=_BUDGET),
]
Rho = Annotated[
    float | None, typer.Option("--rho", help="ρ of zCDP, in place of ε.", rich_help_panel=_BUDGET)
]
Mu = Annotated[
    float | None, typer.Option("--mu", help="μ of Gaussian DP, in place of ε.", rich_help_panel=_BUDGET)
]
Neighbours = Annotated[
    Relation, typer.Option("--relation", help="What a neighbour is.", rich_help_panel=_BUDGET)
]


def budget_from(
    epsilon: float | None, delta: float | None, rho: float | None, mu: float | None, relation: Relation
) -> Budget:
    """The budget the options name; δ is 0 for ε alone and 1e-5 for ρ and μ, unless given.

    >>> print(budget_from(1.0, None, None, None, Relation.ADD_REMOVE))
    epsilon = 1, add/remove
    """
    if delta is None:
        delta = 0.0 if epsilon is not None or (rho is None and mu is None) else 1e-5
    return Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu, relation=relation)
