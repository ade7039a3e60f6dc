"""Rényi divergences of a sequence of steps, at a fixed list of orders, and what they say about (ε, δ).

Divergences of steps add up, order by order, and any order gives a valid bound.

- Gaussian noise of parameter μ: αμ²/2; discrete Gaussian noise too (Canonne, Kamath and Steinke 2020).
- A selection: αρ with its ρ (`pure.selection_rho`).
- Sampled steps: `sampled`.

Conversion is the library's: δ ≤ exp((α − 1)(r − ε + log(1 − 1/α)))/α (Canonne, Kamath and Steinke 2020,
Proposition 12), and δ ≤ √(1 − e^(−r)), here for all orders at once: a search asks hundreds of times. In
floats the exponent is off by at most 4α(r + ε + 1) units of 2⁻⁵³; where it is negative r ≤ ε + 5, so with
α ≤ 10⁶ that is below 1e-8·(1 + ε), relative, in δ, which is added.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dptransfer.accounting.pure import SelectionGroup, selection_rho
from dptransfer.accounting.sampled import SampledGroup, sampled_divergences
from dptransfer.arrays import Floats

Divergences = Floats
"""One upper bound for each of `ORDERS`."""

ORDERS = tuple(sorted({*(1 + 0.011 * (1e6 / 0.011) ** (step / 299) for step in range(300)), *range(2, 65)}))
"""From 1.011, the first the library converts, to 10⁶; integers, because `sampled` is exact there."""

_WIDEST_MU = 1e100  # above it, or below its inverse, squares leave the floats
_SMALLEST = 2.0**-50  # added to every divergence: the library takes log(1 − e^(−r)), which must not be log 0
_ROUNDING = 1e-8


@lru_cache(maxsize=64)
def divergences(
    mu: float, groups: tuple[SelectionGroup, ...], sampled: tuple[SampledGroup, ...] = ()
) -> Divergences | None:
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
    logs = np.minimum(
        (orders - 1) * (bounds - epsilon + np.log1p(-1 / orders)) - np.log(orders),
        0.5 * np.log1p(-np.exp(-bounds)),
    )
    return math.exp(min(float(logs.min()), 0.0)) * (1 + _ROUNDING * (1 + epsilon))


def epsilon_of_renyi(bounds: Divergences, delta: float) -> float:
    """About the smallest ε at which `delta_of_renyi` falls to `delta`."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    near = float(compute_epsilon(ORDERS, bounds, delta)[0])
    return float(compute_epsilon(ORDERS, bounds, delta / (1 + _ROUNDING * (1 + near)))[0])
