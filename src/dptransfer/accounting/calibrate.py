"""The smallest noise, or the largest selection ε, that fits a budget; errs on the private side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dptransfer.accounting.compose import NO_PURE_GAUSSIAN, delta_of, mu_of, pure_epsilon_of, rho_of
from dptransfer.accounting.search import largest, smallest
from dptransfer.errors import BudgetError, RelationMismatch
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Budget, Event, GaussianEvent, same_relation

LARGEST_NOISE_MULTIPLIER = 1e6
"""Above it noise on a fine lattice could leave 64-bit integers; that must show before anything is charged."""


def smallest_noise(fits: Callable[[float], bool], low: float = 1e-3, high: float = 1e9) -> float:
    """Smallest noise multiplier, to one part in a billion, that is known to fit.

    `fits` must be monotone: more noise never fits worse.

    >>> round(smallest_noise(lambda z: 1 / z <= 0.5), 5)
    2.0
    """
    found = smallest(fits, low, high, tolerance=1e-9)
    if found is None:
        raise BudgetError(
            f"The budget must cover some amount of noise; no noise multiplier up to {high:g} fits. "
            "Raise epsilon or delta, or release fewer things."
        )
    return found


def fits(events: Sequence[Event], budget: Budget) -> bool:
    """Whether the events together stay within the budget, in the budget's own currency.

    Pure: the sum of ε; Gaussian noise never fits. Approximate: δ at the budget's ε. zCDP: the sum of ρ.
    GDP: Gaussian events only. Another relation than the budget's raises.

    >>> from dptransfer.privacy import Relation
    >>> noise = GaussianEvent(4.0, Relation.ADD_REMOVE)
    >>> fits([noise], Budget(epsilon=1.0, delta=1e-5)), fits([noise], Budget.pure(1.0))
    (True, False)
    """
    relation = same_relation(events)
    if relation is not budget.relation:
        raise RelationMismatch(
            f"Events and budget must share one neighbouring relation; got {relation.value} events and a "
            f"{budget.relation.value} budget. Plan the mechanisms under the budget's relation."
        )
    if budget.rho is not None:
        return rho_of(events) <= budget.rho
    if budget.mu is not None:
        mu = mu_of(events)
        return mu is not None and mu <= budget.mu
    assert budget.epsilon is not None  # a Budget has exactly one amount
    if budget.delta == 0:
        pure = pure_epsilon_of(events)
        return pure is not None and pure <= budget.epsilon
    return delta_of(events, budget.epsilon) <= budget.delta


def noise_multiplier_for(budget: Budget, make_events: Callable[[float], Sequence[Event]]) -> float:
    """Smallest z, to one part in a billion, such that `make_events(z)` is known to fit the budget.

    Never below `SMALLEST_NOISE_MULTIPLIER`, 1/40, which is returned where even less noise would do: the bound
    on the lattice the noise runs on (`noise.lattice_epsilon`) holds from there on. One release at 1/40 has
    ε = 970 at δ = 1e-5, so no budget worth the name is affected.

    >>> from dptransfer.privacy import Relation
    >>> one = lambda z: [GaussianEvent(z, Relation.ADD_REMOVE)]
    >>> round(noise_multiplier_for(Budget(epsilon=1.0, delta=1e-5), one), 3)
    3.731
    """
    _refuse_what_never_fits(budget, make_events(1.0))
    return smallest_noise(
        lambda z: fits(make_events(z), budget), low=SMALLEST_NOISE_MULTIPLIER, high=LARGEST_NOISE_MULTIPLIER
    )


def selection_epsilon_for(budget: Budget, make_events: Callable[[float], Sequence[Event]]) -> float:
    """Largest ε per selection, to one part in a billion, such that `make_events(ε)` is known to fit.

    On a pure budget shared evenly the exact quotient is returned.

    >>> from dptransfer.privacy import Relation, SelectionEvent
    >>> two = lambda e: [SelectionEvent(e, Relation.ADD_REMOVE, True, "exponential")] * 2
    >>> selection_epsilon_for(Budget.pure(1.0), two)
    0.5
    """
    unit = make_events(1.0)
    _refuse_what_never_fits(budget, unit)

    def does(epsilon: float) -> bool:
        return fits(make_events(epsilon), budget)

    if budget.flavour == "pure":
        share = (budget.epsilon or 0.0) / (pure_epsilon_of(unit) or 1.0)
        if does(share) and not does(share * (1 + 1e-6)):
            return share
    found = largest(does, 1e-9, 1e4, tolerance=1e-9)
    if found is None:
        raise BudgetError(
            "The budget must leave something for the selections; not even epsilon = 1e-9 each fits. "
            "Raise epsilon or delta, or release fewer things."
        )
    return found


def _refuse_what_never_fits(budget: Budget, events: Sequence[Event]) -> None:
    """Say why, where no amount of noise can help."""
    noisy = [isinstance(event, GaussianEvent) for event in events]
    if budget.flavour == "pure" and any(noisy):
        raise BudgetError(NO_PURE_GAUSSIAN)
    if budget.flavour == "gdp" and not all(noisy):
        raise BudgetError(
            "A GDP budget pays for Gaussian noise only; the plan holds a selection. "
            "State the budget as (epsilon, delta) or as rho."
        )
