"""The smallest noise, the largest selection ε, or the most repetitions that fit a budget.

It errs on the private side: what is returned was tried and fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dptransfer.accounting.compose import (
    NEGLIGIBLE_DELTA,
    NO_PURE_GAUSSIAN,
    NO_RHO_OF_CUT_TAILS,
    delta_of,
    mu_of,
    pure_epsilon_of,
    quick_delta_of,
    rho_or_none,
)
from dptransfer.accounting.safe_search import largest, largest_whole, smallest, smallest_root
from dptransfer.accounting.steps import all_steps
from dptransfer.base import checks
from dptransfer.errors import BudgetError, RelationMismatch
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Budget, Event, same_relation

LARGEST_NOISE_MULTIPLIER = 1e6
"""Above it noise on a fine lattice could leave 64-bit integers; that must show before anything is charged."""

_SAMPLED_TOLERANCE = 1e-6  # of z, with sampled steps, where one trial takes tens of milliseconds


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

    Pure: the sum of ε; noise never fits. Approximate: δ at the budget's ε. zCDP: the sum of ρ. GDP: noise
    only. Tuned steps fit an approximate budget only; sampled steps count without amplification in ρ and μ.
    No events at all fit any budget. Another relation than the budget's raises.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> noise = GaussianEvent(4.0, Relation.ADD_REMOVE)
    >>> fits([noise], Budget(epsilon=1.0, delta=1e-5)), fits([noise], Budget.pure(1.0))
    (True, False)
    """
    if not events:
        return True
    relation = same_relation(events)
    if relation is not budget.relation:
        raise RelationMismatch(
            f"Events and budget must share one neighbouring relation; got {relation.value} events and a "
            f"{budget.relation.value} budget. Plan the mechanisms under the budget's relation."
        )
    if budget.flavour == "approximate":
        return delta_of(events, budget.amount) <= budget.delta
    amount = {"pure": pure_epsilon_of, "zcdp": rho_or_none, "gdp": mu_of}[budget.flavour](events)
    return amount is not None and amount <= budget.amount


def noise_multiplier_for(budget: Budget, make_events: Callable[[float], Sequence[Event]]) -> float:
    """Smallest z, to one part in a billion, such that `make_events(z)` is known to fit the budget.

    With sampled steps and an (ε, δ) budget, to one part in a million.

    Never below `SMALLEST_NOISE_MULTIPLIER`, 1/40, which is returned where even less noise would do: the bound
    on the lattice the noise runs on (`noise.lattice_epsilon`) holds from there on. One release at 1/40 has
    ε = 970 at δ = 1e-5, so no budget worth the name is affected.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> one = lambda z: [GaussianEvent(z, Relation.ADD_REMOVE)]
    >>> round(noise_multiplier_for(Budget(epsilon=1.0, delta=1e-5), one), 3)
    3.731
    """
    unit = make_events(1.0)
    _refuse_what_never_fits(budget, unit)
    if budget.flavour == "approximate" and any(steps.sampled for steps in all_steps(unit)):
        found = _smallest_sampled_noise(budget, make_events)
        if found is not None:
            return found
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
        share = budget.amount / (pure_epsilon_of(unit) or 1.0)
        if does(share) and not does(share * (1 + 1e-6)):
            return share
    found = largest(does, 1e-9, 1e4, tolerance=1e-9)
    if found is None:
        raise BudgetError(
            "The budget must leave something for the selections; not even epsilon = 1e-9 each fits. "
            "Raise epsilon or delta, or release fewer things."
        )
    return found


def largest_times(
    budget: Budget, make_events: Callable[[int], Sequence[Event]], at_most: int = 1_000_000
) -> int:
    """The largest number of repetitions T, up to `at_most`, such that `make_events(T)` fits the budget.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> steps = lambda times: [GaussianEvent(20.0, Relation.ADD_REMOVE, times=times)]
    >>> largest_times(Budget(epsilon=1.0, delta=1e-5), steps)
    28
    """
    at_most = checks.whole("at_most", at_most)
    _refuse_what_never_fits(budget, make_events(1))
    found = largest_whole(lambda times: fits(make_events(times), budget), at_most)
    if found is None:
        raise BudgetError(
            "The budget must cover at least one repetition; not even one fits. "
            "Raise epsilon or delta, or use a larger noise multiplier."
        )
    return found


def _smallest_sampled_noise(budget: Budget, make_events: Callable[[float], Sequence[Event]]) -> float | None:
    """The noise by a quick bound first, which is never too small, and down from there by the exact one."""
    epsilon, delta = budget.amount, budget.delta
    quick = smallest(
        lambda z: quick_delta_of(make_events(z), epsilon) <= delta,
        SMALLEST_NOISE_MULTIPLIER,
        LARGEST_NOISE_MULTIPLIER,
        tolerance=1e-3,
    )
    if quick is None:
        return None

    def excess(z: float) -> float:
        return math.log(delta_of(make_events(z), epsilon)) - math.log(delta)

    low = high = quick
    while low > SMALLEST_NOISE_MULTIPLIER and excess(low) <= 0:
        low, high = max(low / 1.2, SMALLEST_NOISE_MULTIPLIER), low
    return smallest_root(excess, low, high, tolerance=_SAMPLED_TOLERANCE)


def _refuse_what_never_fits(budget: Budget, events: Sequence[Event]) -> None:
    """Say why, where no amount of noise can help."""
    if budget.flavour == "approximate":
        return
    for steps in all_steps(events):
        if steps.by_renyi:
            raise BudgetError(steps.by_renyi[0].nothing_else)
        if budget.flavour == "pure" and not steps.is_pure:
            raise BudgetError(NO_PURE_GAUSSIAN)
        if budget.flavour == "gdp" and steps.groups:
            raise BudgetError(
                "A GDP budget pays for Gaussian noise only; the plan holds a selection. "
                "State the budget as (epsilon, delta) or as rho."
            )
        if steps.cut > NEGLIGIBLE_DELTA:
            raise BudgetError(NO_RHO_OF_CUT_TAILS)
