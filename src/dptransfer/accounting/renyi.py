"""Rényi divergences: of steps, of private tuning, and of a noisy arg max that is nearly settled.

Divergences of steps add up, order by order, and any order gives a valid bound.

- Gaussian noise of parameter μ: αμ²/2; discrete Gaussian noise too (Canonne, Kamath and Steinke 2020).
- A selection: αρ with its ρ (`exact_curves.selection_rho`).
- Sampled steps: `sampled`.

Conversion is the library's: δ ≤ exp((α − 1)(r − ε + log(1 − 1/α)))/α (Canonne, Kamath and Steinke 2020,
Proposition 12), and δ ≤ √(1 − e^(−r)), here for all orders at once: a search asks hundreds of times. In
floats the exponent is off by at most 4α(r + ε + 1) units of 2⁻⁵³; where it is negative r ≤ ε + 5, so with
α ≤ 10⁶ that is below 1e-8·(1 + ε), relative, in δ, which is added.

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

Let P = N(v, σ²I) and Q = N(v′, σ²I) be noisy votes on two neighbours, ‖v − v′‖ ≤ μσ, and let only the arg max
be released. All that is known of v is that its favourite wins but with probability at most q under P. Call
that event, another winner, E. Within E the label tells at most what the votes do, outside it tells nothing
more, so that with p = P(E) ≤ q and p′ = Q(E)

    exp((α − 1)·D_α) ≤ (1 − p)^α / (1 − p′)^(α−1) + ∫_E (dP/dQ)^(α−1) dP.

Both terms are largest on half-spaces (Neyman and Pearson): p′ ≤ Φ(μ − t) where p = Φ(−t), and the integral,
over the p of P where dP/dQ is largest, is e^(α(α−1)μ²/2)·Φ((α − 1)μ − t). Hence, with r = Φ(t)/Φ(t − μ),

    G(p) = (1 − p)·r^(α−1) + e^(α(α−1)μ²/2)·Φ((α − 1)μ − t),        D_α ≤ log G(p)/(α − 1).

**It may be used with q in place of p** where t ≥ max(1, μ), for there G grows: dp′/dp = e^(tμ − μ²/2) ≥ 1 and
r ≥ 1, so the first term's derivative, r^(α−1)·((α − 1)·r·dp′/dp − α), is at least −r^(α−1); the second's is
e^((α−1)(tμ + μ²/2)); and r ≤ e^(tμ), because log r is the integral of φ/Φ ≤ 0.8 ≤ t over [t − μ, t], where
t − μ ≥ 0. Elsewhere, and wherever it is smaller, the price of all votes, αμ²/2, is the bound. So a bound that
depends on votes is never above the one that does not.

Papernot et al. (2018), Theorem 6, bound the same two terms by Rényi divergences of two further orders. As the
noise is known to be Gaussian both can be had exactly, and no further order is to be chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dptransfer.accounting.exact_curves import Selections, selection_rho
from dptransfer.accounting.safe_search import largest
from dptransfer.accounting.sampled import Samples, sampled_divergences
from dptransfer.base import checks
from dptransfer.base.types import Floats
from dptransfer.errors import ArgumentError

Divergences = Floats
"""One upper bound for each of `ORDERS`."""

ORDERS = tuple(sorted({*(1 + 0.011 * (1e6 / 0.011) ** (step / 299) for step in range(300)), *range(2, 65)}))
"""From 1.011, the first the library converts, to 10⁶; integers, because `sampled` is exact there."""

_WIDEST_MU = 1e100  # above it, or below its inverse, squares leave the floats
_SMALLEST = 2.0**-50  # added to every divergence: the library takes log(1 − e^(−r)), which must not be log 0
_ROUNDING = 1e-8


@lru_cache(maxsize=64)
def divergences(mu: float, groups: Selections, sampled: Samples = ()) -> Divergences | None:
    """Bounds at `ORDERS` for Gaussian noise of parameter `mu` (0 for none) and the other steps together.

    None where the numbers are too large.

    >>> [round(float(bound / order), 6) for bound, order in zip(divergences(1.0, ())[:2], ORDERS)]
    [0.5, 0.5]
    """
    if mu > _WIDEST_MU or any(group.whole_mu > _WIDEST_MU for group in sampled):
        return None
    orders = np.array(ORDERS)
    total = np.full(len(orders), _SMALLEST)
    if mu > 0:
        total += orders * (max(mu, 1 / _WIDEST_MU) ** 2 / 2)
    for choices in groups:
        total += choices.times * orders * selection_rho(choices.epsilon, choices.bounded_range)
    for releases in sampled:
        total += sampled_divergences(releases, orders)
    total.flags.writeable = False  # it is remembered
    return total


def delta_of_renyi(bounds: Divergences, epsilon: float) -> float:
    """The smallest δ that the divergences at `ORDERS` give at `epsilon`, rounded up.

    >>> bool(1e-5 < delta_of_renyi(divergences(1.0, ()), 4.5) < 1e-4)
    True
    """
    orders = np.array(ORDERS)
    by_order = (orders - 1) * (bounds - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    logs = np.minimum(by_order, 0.5 * np.log1p(-np.exp(-bounds)))
    return math.exp(min(float(logs.min()), 0.0)) * (1 + _ROUNDING * (1 + epsilon))


def epsilon_of_renyi(bounds: Divergences, delta: float) -> float:
    """About the smallest ε at which `delta_of_renyi` falls to `delta`."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    near = float(compute_epsilon(ORDERS, bounds, delta)[0])
    return float(compute_epsilon(ORDERS, bounds, delta / (1 + _ROUNDING * (1 + near)))[0])


_SMALLEST_HALTING = 1e-290


def mean_trials_of(halting: float, shape: float) -> float:
    """Mean of the truncated negative binomial law with parameter γ = `halting` and this `shape`.

    >>> mean_trials_of(0.1, 1.0), round(mean_trials_of(0.1, 0.0), 4)
    (10.0, 3.9087)
    """
    gamma = checks.rate("halting", halting)
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
    mean = checks.positive("mean", mean)
    if mean < 1:
        raise ArgumentError(f"mean must be at least 1; got {mean!r}.")
    if shape == 1:
        return 1 / mean
    found = largest(lambda gamma: mean_trials_of(gamma, shape) >= mean, _SMALLEST_HALTING, 1.0)
    if found is None:
        raise ArgumentError(f"A mean of {mean:g} trials of shape {shape:g} needs less chance of halting.")
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


_ARGMAX_ROUNDING = 1e-10  # relative, of the terms of G − 1, which cancel in part; t² of 10⁴ is off by 1e-11
LARGEST_EXPONENT = 700.0
"""Above it the second term leaves the floats."""


def required_order(order: float, mu: float) -> float:
    """An order above 1 at which divergences of noise of parameter `mu` stay within the floats."""
    if checks.positive("order", order) <= 1 or order * (order - 1) * mu * mu / 2 > LARGEST_EXPONENT:
        raise ArgumentError(
            f"The order must be above 1, and not too large for the noise; got {order!r}. Try 20."
        )
    return float(order)


def argmax_divergence(log_other: Floats, mu: float, order: float) -> Floats:
    """D_α of an arg max, α the order, where others than the favourite win with probability at most q.

    Its logarithm is given: what is too unlikely for a float, times e^(α(α−1)μ²/2), may be all but nothing.

    >>> all_votes = 20 * 0.03**2 / 2
    >>> (argmax_divergence(np.log([1e-9, 1e-3, 0.5]), 0.03, 20.0) / all_votes).round(3)
    array([0.   , 0.046, 1.   ])
    """
    from scipy.special import log_ndtr, ndtr, ndtri_exp

    order = required_order(order, mu)
    all_votes = order * mu * mu / 2
    log_q = np.minimum(log_other, log_ndtr(-max(1.0, mu)))
    t = -ndtri_exp(log_q)
    moved = ndtr(mu - t)
    first = np.expm1(order * np.log1p(-np.exp(log_q)) - (order - 1) * np.log1p(-moved))
    second = np.exp(order * (order - 1) * mu * mu / 2 + log_ndtr((order - 1) * mu - t))
    excess = first + second + _ARGMAX_ROUNDING * (second + order * moved)
    bound = np.log1p(np.maximum(excess, 0.0)) / (order - 1)
    found: Floats = np.where(log_other > log_q, all_votes, np.minimum(bound, all_votes))
    return found


def epsilon_at_order(divergence: float, order: float, delta: float) -> float:
    """The ε at which D_α ≤ `divergence` gives (ε, δ): δ ≤ exp((α − 1)(D − ε + log(1 − 1/α)))/α.

    Canonne, Kamath and Steinke (2020), Proposition 12.

    >>> round(epsilon_at_order(0.5 * 6, 6.0, 1e-5), 3)
    4.762
    """
    found = divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(0.0, found * (1 + 1e-12))
