"""Private tuning: what it costs to run a random number of trials and release only the best.

Papernot and Steinke (2022). Let one trial have Rényi divergence r(α) at order α, let K be the random number
of trials, and let m be its mean.

- **Truncated negative binomial** of shape η > −1 with parameter γ (their Definition 1, P(K = k) ∝ (1 − γ)^k
  Γ(k + η)/k!, for k ≥ 1): for any order λ̂ ≥ 1 the whole has at order λ > 1 at most (Theorem 2)

      r(λ) + (1 + η)(1 − 1/λ̂) r(λ̂) + (1 + η) log(1/γ)/λ̂ + log(m)/(λ − 1).

  The mean is m = η(1 − γ)/(γ(1 − γ^η)), for η = 0 its limit (1 − γ)/(γ log(1/γ)), and 1/γ for η = 1.
- **Poisson** of mean m (Theorem 6): if one trial is (ε̂, δ̂)-DP with ε̂ = log(1 + 1/(λ − 1)), at most
  r(λ) + m δ̂ + log(m)/(λ − 1). No trial at all may happen; then the output says only that.

Divergences do not decrease with the order, so a bound at a higher order is one at every lower order.

**A trial** draws one of n candidates uniformly and releases its name with its result. The chance of each name
is the same for all data, so e^((α−1) r(α)) is the average over the candidates of e^((α−1) r_c(α)), exactly,
and at most the largest.

**Lattice.** If P′ and Q′ are what ran, P′ ≤ e^a P and Q′ ≥ e^(−b) Q with a + b ≤ s, then ∫P′^α Q′^(1−α) is at
most e^(αa + (α−1)b) ∫P^α Q^(1−α), so the divergence grows by at most s·α/(α − 1). A Gaussian step without
sampling meets its ρ on the lattice and needs no such term; it is added for sampled steps.

**Cut tails.** What ran and the same with whole tails differ only if some draw of some trial fell outside: in
total variation, by at most the mean number of trials times that of the worst candidate
(`BestOfManyEvent.numeric_delta`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dptransfer import _check
from dptransfer.accounting.renyi import ORDERS, Divergences
from dptransfer.accounting.search import largest
from dptransfer.errors import ArgumentError

_SMALLEST_HALTING = 1e-290


def mean_trials_of(halting: float, shape: float) -> float:
    """Mean of the truncated negative binomial law with parameter γ = `halting` and this `shape`.

    >>> mean_trials_of(0.1, 1.0), round(mean_trials_of(0.1, 0.0), 4)
    (10.0, 3.9087)
    """
    gamma = _check.rate("halting", halting)
    if not -1 < shape < math.inf:
        raise ArgumentError(f"shape must be a finite number above -1; got {shape!r}.")
    if gamma == 1:
        return 1.0
    if shape == 1:
        return 1 / gamma
    log = math.log(gamma)
    spread = -math.expm1(shape * log) / shape if abs(shape * log) > 1e-12 else -log
    return (1 - gamma) / (gamma * spread)


def halting_probability(mean: float, shape: float) -> float:
    """The γ whose truncated negative binomial law has this mean, rounded down (to more trials).

    >>> halting_probability(10.0, 1.0)
    0.1
    """
    mean = _check.positive("mean", mean)
    if mean < 1:
        raise ArgumentError(f"mean must be at least 1; got {mean!r}.")
    if shape == 1:
        return 1 / mean
    found = largest(lambda gamma: mean_trials_of(gamma, shape) >= mean, _SMALLEST_HALTING, 1.0)
    if found is None:
        raise ArgumentError(
            f"a mean of {mean:g} trials of shape {shape:g} needs a smaller chance of halting."
        )
    return found


def best_of_many_divergences(
    trials: Sequence[Divergences | None], mean: float, shape: float
) -> Divergences | None:
    """Rényi divergences at `ORDERS` of the best of many trials, from those of one trial of each candidate.

    None where a trial's numbers are too large.
    """
    known = [trial for trial in trials if trial is not None]
    if len(known) < len(trials):
        return None
    orders = np.array(ORDERS)
    with np.errstate(over="ignore"):
        average = np.logaddexp.reduce((orders - 1) * np.array(known), axis=0) - math.log(len(known))
    trial = average / (orders - 1)
    if math.isinf(shape):
        log_lost = (orders - 1) * (trial - np.log1p(1 / (orders - 1))[:, None] + np.log1p(-1 / orders))
        lost = np.exp(np.minimum(log_lost - np.log(orders), 0.0)).min(axis=1)  # by the best order for each
        whole = trial + mean * lost * (1 + 1e-7) + math.log(mean) / (orders - 1)
    else:
        gamma = halting_probability(mean, shape)
        extra = (1 + shape) * ((1 - 1 / orders) * trial - math.log(gamma) / orders)
        log_mean = math.log(max(mean, mean_trials_of(gamma, shape)))
        whole = trial + float(extra.min()) + log_mean / (orders - 1)
    return np.minimum.accumulate(whole[::-1])[::-1] * (1 + 1e-12)
