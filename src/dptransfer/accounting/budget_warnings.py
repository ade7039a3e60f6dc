"""Warn about budgets that promise little, and refuse those that promise nothing.

**ε.** An attacker's odds about one unit, an example or a person, may grow by a factor e^ε. Beyond ε = 10 that
is more than 20,000, and what protects it is hope rather than a theorem. Beyond 700 the factor leaves the
floats.

**δ.** To publish every unit outright with probability δ is (0, δ)-private. Of n units one is then published
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

from dptransfer.accounting.gaussian_curve import epsilon_of_mu
from dptransfer.errors import BudgetError, PrivacyWarning
from dptransfer.privacy import Budget

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


def heed(budget: Budget, size: int | None = None, *, stacklevel: int = 1) -> None:
    """Refuse a budget that promises nothing, and warn of one that promises little.

    Args:
        budget: what is about to be granted or spent.
        size: the declared number of units, examples or people, if one is declared.
        stacklevel: whose line is shown: 1 the caller's, 2 that of the caller's caller, …

    >>> heed(Budget(epsilon=1.0, delta=1e-5))
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
            f"epsilon must be at most {LARGEST_EPSILON:g}, beyond which it bounds nothing; that of this "
            f"budget, {budget}, is larger. Use 1, or a few at most."
        )
    if not budget.delta < LARGEST_DELTA:
        raise BudgetError(
            f"delta must be below {LARGEST_DELTA:g}, or examples may be given away outright; got "
            f"{budget.delta:g}. Use a small fraction of 1/n, such as 1e-5 for ten thousand examples."
        )
    found = [WEAK_EPSILON_WARNING] if epsilon > WEAK_EPSILON else []
    if budget.delta * (size or _USUAL_SIZE) > _WEAK_SHARE:
        found.append(WEAK_DELTA_WARNING)
    return found


def _epsilon(budget: Budget) -> float:
    """ε as stated, or that of Gaussian noise as large as ρ or μ allows."""
    if budget.epsilon is not None:
        return budget.epsilon
    return epsilon_of_mu(budget.mu or math.sqrt(2) * math.sqrt(budget.amount), budget.delta)
