"""Rényi moments of one sampled release when a row is replaced, by a quadrature whose error is bounded.

The worst pair of `sampled` is P = (1 − q) N(0) + q N(1) against Q = (1 − q) N(0) + q N(−1), with noise z.
With φ the density of N(0),

    A(t) = 1 − q + q e^((t − ½)/z²),   B(t) = A(−t),   M(α) = ∫ P^α Q^(1−α) = ∫ f,   f = φ A^α B^(1−α).

M is the same in both directions, for A and B are mirror images. There is no closed form; the trapezoidal rule
with step h converges so fast that its error can be bounded below what floats resolve:

- **Step.** For a real y with θ = y/z² below π, |φ(t + iy)| = φ(t) e^(y²/2z²), |A(t + iy)| ≤ A(t) and
  |B(t + iy)| ≥ B(t) cos(θ/2), because |a + b e^(iθ)| ≥ (a + b) cos(θ/2) for a, b ≥ 0. A and B keep away from
  the negative axis, so f is analytic there, and ∫|f(t + iy)|dt ≤ M e^(z²θ²/2) cos(θ/2)^(1−α). Hence the rule
  is off by at most a share 2/(e^(2πz²θ/h) − 1) of that bound (Trefethen and Weideman 2014, Theorem 5.1): with
  2πz²θ/h = K + z²θ²/2 − (α − 1) log cos(θ/2), by less than 2.1 e^(−K) of M. Any θ is valid; the one used
  makes the step about as large as it can be.
- **Ends.** d log f/dt lies between −t/z² and (2α − 1 − t)/z². So above U = 2α − 1 the integrand falls at
  least as fast as f(U) e^(−s²/2z²) with s = t − U, and it holds at least f(U) ∫ e^(−(Us + s²/2)/z²) ds, which
  is f(U) z²/3U or more if z ≤ U, and f(U)·z/4 or more otherwise. Beyond U + 12z lies f(U) z √(2π) Φ(−12): a
  share below 10⁻³⁰·(1 + U/z) of M. Below 0, A ≤ B and f ≤ Q, of which 2·10⁻³³ lies under −1 − 12z, and
  M ≥ 1. Sums of the rule beyond the ends are as small, up to the same constants: f is monotone there.
- **Floats.** Each log f is off by a few units of 2⁻⁵³ of its largest part, which is added to the logarithm of
  the sum, with `_QUADRATURE_ROUNDING` for everything else. The result is therefore never below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dptransfer.arrays import Floats

_DIGITS = 37.0  # K: the rule is off by 2.1·e^(−37) = 2·10⁻¹⁶
_REACH = 12.0  # standard deviations beyond which nothing is left
_QUADRATURE_ROUNDING = 1e-13
_MOST_POINTS = 2**14  # a rule with more is left to other bounds: it would be of high order and little noise


def replaced_log_moments(z: float, q: float, orders: Sequence[float]) -> Floats:
    """Log M of one release at rate q < 1, at each of the orders, rounded up; all by the highest one's rule.

    Infinity where that would take too many points. A rule for a higher order is one for lower orders too: its
    step is smaller and its ends are further out.

    >>> replaced_log_moments(1.0, 0.5, [2.0]).round(4)  # a release without sampling would have 4
    array([0.8309])
    """
    highest = max(orders)
    theta = min(math.pi / 2, math.sqrt(_DIGITS / (z * z / 2 + (highest - 1) / 8)))
    exponent = _DIGITS + (z * theta) ** 2 / 2 - (highest - 1) * math.log(math.cos(theta / 2))
    step = 2 * math.pi * z * z * theta / exponent
    low, high = -1 - _REACH * z, 2 * highest - 1 + _REACH * z
    points = math.ceil((high - low) / step) + 1
    if points > _MOST_POINTS:
        return np.full(len(orders), math.inf)
    t: Floats = low + step * np.arange(points, dtype=np.float64)
    of_one, of_other = (_log_mixture((side * t - 0.5) / (z * z), q) for side in (1, -1))
    order = np.array(orders)[:, None]
    parts = (-0.5 * (t / z) ** 2)[None, :], order * of_one, (1 - order) * of_other
    lost = 2.0**-50 * np.max([np.abs(part).max(axis=1) for part in np.broadcast_arrays(*parts)], axis=0)
    logs = parts[0] + parts[1] + parts[2]
    top = logs.max(axis=1)
    sums = np.exp(logs - top[:, None]).sum(axis=1) * (step / (z * math.sqrt(2 * math.pi)))
    moments: Floats = np.maximum(top + np.log(sums), 0.0) + lost + _QUADRATURE_ROUNDING
    return moments


def _log_mixture(exponents: Floats, q: float) -> Floats:
    """Log(1 − q + q e^x), without cancellation for small q or for q next to 1, and without overflow."""
    low = np.minimum(exponents, 1.0)
    change = q * np.expm1(low)
    mixture: Floats = np.where(
        exponents < 1,
        np.where(change < -0.5, np.log((1 - q) + q * np.exp(low)), np.log1p(change)),
        exponents + np.log(q + (1 - q) * np.exp(-np.maximum(exponents, 1.0))),
    )
    return mixture
