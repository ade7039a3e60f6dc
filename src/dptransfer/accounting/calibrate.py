"""Calibrate the smallest noise, the largest selection ε or the most repetitions to a budget; judge budgets.

Calibration errs on the private side: what is returned was tried and fit.

**Weak budgets.** Budgets that promise little bring a warning, and those that promise nothing are refused. An
attacker's odds about one unit, an example or a person, may grow by a factor e^ε. Beyond ε = 10 that is more
than 20,000, and what protects it is hope rather than a theorem. Beyond 700 the factor leaves the floats.

To publish every unit outright with probability δ is (0, δ)-private. Of n units one is then published
with probability up to nδ. Above a tenth δ is no small fraction of 1/n, whatever ε is. n is private unless it
is declared; without a declaration it is taken for 100, since hardly anybody learns from fewer. From δ = 0.1
on one unit in ten may be given away, and no n makes that a guarantee.

Budgets in ρ or μ are judged by the ε that Gaussian noise of that size has at their δ.

The warnings have no numbers in them, so that Python shows each once per line that asks, also in a sweep.
What a ledger has on record is read as it is; new budgets are judged, and what a release promises.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

from dptransfer.accounting import compose
from dptransfer.accounting.exact_curves import epsilon_of_mu
from dptransfer.accounting.safe_search import largest, largest_whole, smallest, smallest_root
from dptransfer.accounting.steps import all_steps
from dptransfer.base import checks
from dptransfer.errors import BudgetError, PrivacyWarning, RelationMismatch
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Budget, Event, same_relation

LARGEST_NOISE_MULTIPLIER = 1e6
"""Above it noise on a fine lattice could leave 64-bit integers; that must show before anything is charged."""
_RANGE = SMALLEST_NOISE_MULTIPLIER, LARGEST_NOISE_MULTIPLIER
_SAMPLED_TOLERANCE = 1e-6  # of z, with sampled steps, where one trial takes tens of milliseconds


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
            f"Events are {relation.value}, the budget {budget.relation.value}. Plan under the budget's."
        )
    if budget.flavour == "approximate":
        return compose.delta_of(events, budget.amount) <= budget.delta
    amount_of = {"pure": compose.pure_epsilon_of, "zcdp": compose.rho_of, "gdp": compose.mu_of}
    amount = amount_of[budget.flavour](events)
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
    found = smallest(lambda z: fits(make_events(z), budget), *_RANGE, tolerance=1e-9)
    if found is None:
        raise BudgetError(
            f"The budget must cover some noise; {LARGEST_NOISE_MULTIPLIER:g} is too little. Raise epsilon."
        )
    return found


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
        share = budget.amount / (compose.pure_epsilon_of(unit) or 1.0)
        if does(share) and not does(share * (1 + 1e-6)):
            return share
    found = largest(does, 1e-9, 1e4, tolerance=1e-9)
    if found is None:
        raise BudgetError(
            "The budget must leave something for the selections; it does not. Raise epsilon or delta."
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
            "The budget must cover at least one repetition. Raise epsilon, delta or the noise multiplier."
        )
    return found


def _smallest_sampled_noise(budget: Budget, make_events: Callable[[float], Sequence[Event]]) -> float | None:
    """The noise by a quick bound first, which is never too small, and down from there by the exact one."""
    epsilon, delta = budget.amount, budget.delta
    quick = smallest(
        lambda z: compose.delta_of(make_events(z), epsilon, quick=True) <= delta, *_RANGE, tolerance=1e-3
    )
    if quick is None:
        return None

    def excess(z: float) -> float:
        return math.log(compose.delta_of(make_events(z), epsilon)) - math.log(delta)

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
            raise BudgetError(compose.NO_PURE_GAUSSIAN)
        if budget.flavour == "gdp" and steps.groups:
            raise BudgetError(
                "A GDP budget pays for Gaussian noise only. State it as (epsilon, delta) or as rho."
            )
        if steps.cut > compose.NEGLIGIBLE_DELTA:
            raise BudgetError(compose.NO_RHO_OF_CUT_TAILS)


WEAK_EPSILON = 10.0
LARGEST_EPSILON = 700.0
LARGEST_DELTA = 0.1
_WEAK_SHARE = 0.1  # of 1/n
_USUAL_SIZE = 100

WEAK_EPSILON_WARNING = (
    "An epsilon should be at most 10; that of this budget is larger, and an attacker's odds about whoever is "
    "in the data may grow by a factor of more than 20,000. Lower epsilon, or call the result hardly private."
)
WEAK_DELTA_WARNING = (
    "A delta should be at most a tenth of 1/n, with n the declared number of examples, or of people where "
    "those are protected, or 100 if none is declared; that of this budget is larger, and may give one away "
    "outright. Lower delta."
)


def warn_if_weak(budget: Budget, size: int | None = None, *, stacklevel: int = 1) -> None:
    """Refuse a budget that promises nothing, and warn of one that promises little.

    Args:
        budget: what is about to be granted or spent.
        size: the declared number of units, examples or people, if one is declared.
        stacklevel: whose line is shown: 1 the caller's, 2 that of the caller's caller, …

    >>> warn_if_weak(Budget(epsilon=1.0, delta=1e-5))
    """
    for weakness in weaknesses(budget, size):
        warnings.warn(weakness, PrivacyWarning, stacklevel=stacklevel + 1)


def weaknesses(budget: Budget, size: int | None = None) -> list[str]:
    """Why a budget promises little, in words; one that promises nothing is refused.

    >>> len(weaknesses(Budget(epsilon=11.0, delta=1e-2)))
    2
    """
    epsilon = _epsilon(budget)
    if not epsilon <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon must be at most {LARGEST_EPSILON:g}; that of this budget, {budget}, is larger. Use 1."
        )
    if not budget.delta < LARGEST_DELTA:
        raise BudgetError(f"delta must be below {LARGEST_DELTA:g}; got {budget.delta:g}. Take 1e-5, say.")
    found = [WEAK_EPSILON_WARNING] if epsilon > WEAK_EPSILON else []
    if budget.delta * (size or _USUAL_SIZE) > _WEAK_SHARE:
        found.append(WEAK_DELTA_WARNING)
    return found


def _epsilon(budget: Budget) -> float:
    """ε as stated, or that of Gaussian noise as large as ρ or μ allows."""
    if budget.epsilon is not None:
        return budget.epsilon
    return epsilon_of_mu(budget.mu or math.sqrt(2) * math.sqrt(budget.amount), budget.delta)
