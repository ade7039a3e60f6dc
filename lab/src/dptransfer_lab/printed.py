"""The papers' printed formulas, as they are printed, and the budgets they are given."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer.errors import BudgetError
from dptransfer.privacy import Budget

FloatArray = NDArray[np.float64]


def printed_mean_deviation(rho: float, counts: NDArray[np.int64]) -> FloatArray:
    """2r/(n·√(2ρ)) with r = 1."""
    return np.asarray(2.0 / (counts * math.sqrt(2 * rho)), dtype=np.float64)


def printed_theorem_noise(epsilon: float, delta: float) -> float:
    """The smallest σ that meets the printed condition Φ(1/2σ − σε/2) − e^ε·Φ(−1/2σ − σε/2) ≤ δ/2.

    >>> round(printed_theorem_noise(1.0, 1e-5), 2)
    1.23
    """
    from scipy.special import ndtr

    def excess(sigma: float) -> float:
        near, far = 1 / (2 * sigma), sigma * epsilon / 2
        return float(ndtr(near - far) - math.exp(epsilon) * ndtr(-near - far)) - delta / 2

    low, high = 1e-6, 1.0
    while excess(high) > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def printed_log_weights(candidates: int, k: int, *, from_zero: bool = False) -> FloatArray:
    """Log C(y, K) for the ranks y = 1, 2, ... of all candidates, or y = 0, 1, ...; −∞ where it is 0.

    >>> np.exp(printed_log_weights(4, 2)).round(6).tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    from scipy.special import gammaln

    rank = np.arange(candidates, dtype=np.float64) + (0 if from_zero else 1)
    with np.errstate(invalid="ignore"):
        log = gammaln(rank + 1) - gammaln(k + 1) - gammaln(np.maximum(rank - k, 0) + 1)
    weights: FloatArray = np.where(rank >= k, log, -np.inf)
    return weights


def printed_steps(rho: float, noise_multiplier: float) -> int:
    """The largest T with T²/2σ² ≤ ρ.

    >>> printed_steps(0.0359, 20.0)
    5
    """
    return math.floor(noise_multiplier * math.sqrt(2 * rho))


def rho_of_budget(budget: Budget) -> float:
    """ρ of Gaussian noise that spends the budget exactly."""
    if budget.rho is not None:
        return budget.rho
    if budget.mu is not None:
        return budget.mu**2 / 2
    if budget.flavour == "pure":
        raise BudgetError("Gaussian noise has no pure guarantee; give delta > 0, or rho.")
    assert budget.epsilon is not None
    return mu_for(budget.epsilon, budget.delta) ** 2 / 2


def epsilon_delta(budget: Budget) -> tuple[float, float]:
    """(ε, δ) of the budget."""
    if budget.flavour == "pure":
        raise BudgetError("Gaussian noise has no pure guarantee; give delta > 0.")
    if budget.epsilon is not None:
        return budget.epsilon, budget.delta
    return epsilon_of_mu(math.sqrt(2 * rho_of_budget(budget)), budget.delta), budget.delta


def script_epsilon(budget: Budget) -> float:
    """ε of the selection that DPPL's script runs: it takes ρ = ε²/2 for the ε it is given, and then √(8ρ).

    >>> script_epsilon(Budget.pure(1.0))
    2.0
    """
    rho = rho_of_budget(budget) if budget.epsilon is None else budget.epsilon**2 / 2
    return math.sqrt(8 * rho)


def selection_epsilon(budget: Budget) -> float:
    """ε of a selection: the budget's own if it is pure, else √(8ρ), which is ρ-zCDP."""
    if budget.flavour == "pure":
        assert budget.epsilon is not None
        return budget.epsilon
    return math.sqrt(8 * rho_of_budget(budget))
