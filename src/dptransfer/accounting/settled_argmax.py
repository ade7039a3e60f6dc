"""How little an arg max of noisy counts tells where its outcome is nearly settled: Rényi divergence.

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

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats
from dptransfer.errors import ArgumentError

_ARGMAX_ROUNDING = 1e-10  # relative, of the terms of G − 1, which cancel in part; t² of 10⁴ is off by 1e-11
LARGEST_EXPONENT = 700.0
"""Above it the second term leaves the floats."""


def required_order(order: float, mu: float) -> float:
    """An order above 1 at which divergences of noise of parameter `mu` stay within the floats."""
    if _check.positive("order", order) <= 1 or order * (order - 1) * mu * mu / 2 > LARGEST_EXPONENT:
        raise ArgumentError(
            f"The order must be above 1, and not too large for the noise; got {order!r}. Such as 20 suits a "
            "noise of 20 votes or more."
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
