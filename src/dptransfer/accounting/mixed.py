"""Gaussian noise and selections together, or several selections: composed by the library `dp_accounting`.

Three upper bounds on one curve, each valid at every ε; which is smallest depends on the events alone, not on
data, so the smallest is valid too.

- **PLD**, the distribution of the privacy loss: the Gaussian composed with every selection as the worst case
  of its pure ε. Tight for noise with a few selections and for selections without bounded range.
- **RDP**, Rényi divergences: the Gaussian, and every selection by its ρ (`pure.selection_rho`). The library
  has no PLD of bounded range, so this is where η²/8 counts. Tight for many selections of bounded range.
- **Sum**: the Gaussian's exact curve, moved by the sum of the selections' ε. Best at tiny δ; it also means
  that a mixture never costs more than its parts added up, and selections never more than their pure sum.

Neighbouring relations do not appear: an event's numbers already hold for its own, so the library is always
asked about noise 1/μ on sensitivity 1, whose loss is the same in both directions.

**Discretisation.** The library puts losses on multiples of an interval h, rounding pessimistically. Here h is
a power of two times the ε of the selections that weigh most, the largest not above s/256, where s = √(μ² +
Σ ε²) is about the standard deviation of the loss (s/2048 if the selections' ε differ). So the grid has some
ten thousand points whatever the events are; those selections fall on it without rounding; others are rounded
up to a whole number of intervals first. In the Gaussian it adds 1e-5 to 2e-4 of δ ("connect the dots").

**Rounding of floats.** Two things the library does not count are added here. It convolves by fast Fourier
transform, whose error is absolute, has either sign, and matters at a δ of 1e-12: 1e-15 for each selection and
for 50 more is added to δ. (That is measured, not proven: in 5551 comparisons with exact sums, of up to 2000
selections, the library's δ was too small 335 times, by up to 9e-14, and never by more than a sixth of what is
added.) And the Rényi exponent (α − 1)(r − ε + log(1 − 1/α)) − log α is off by at most 4α(r + ε + 1) units of
2⁻⁵³; where it is negative r ≤ ε + 5, so with α ≤ 10⁶ that is below 1e-8·(1 + ε), relative, in δ.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from functools import lru_cache
from typing import Any

from dptransfer import _check
from dptransfer.accounting.gaussian import delta_of_mu, epsilon_of_mu
from dptransfer.accounting.pure import SelectionGroup, selection_rho, total_epsilon

# The s for which a PLD is built. Above, losses pass 700, where the library's exp overflows; below, its
# differences of δ are mostly rounding, and ε is 0 at any δ in use.
_WIDTHS = 1e-6, 25.0
_SMALLEST_PLD_MU = 1e-9  # a smaller μ is raised to it: the library adds 1 to numbers of about 10/μ
_WIDEST_MU = 1e100  # above it, or below its inverse, the library's squares leave the floats
_POINTS, _POINTS_IF_UNEQUAL = 256, 2048  # intervals to one standard deviation of the loss, at least
_FFT_ROUNDING = 1e-15
_RENYI_ROUNDING = 1e-8
_SMALLEST_RENYI = (
    2.0**-50
)  # added to every divergence: the library takes log(1 − e^(−r)), which must not be log 0
# Orders from 1.011, the first the library converts, to 10⁶; any order gives a valid bound.
_ORDERS = tuple(1 + 0.011 * (1e6 / 0.011) ** (step / 299) for step in range(300))


def mixed_delta(mu: float, groups: tuple[SelectionGroup, ...], epsilon: float) -> float:
    """A δ at which Gaussian noise of GDP parameter `mu` (0 for none) and the selections are (ε, δ)-DP.

    0 only where the selections' pure ε says so: with Gaussian noise it is never 0.

    >>> f"{mixed_delta(0.0, (SelectionGroup(0.1, False, 100),), 4.31):.2e}"
    '9.86e-06'
    """
    _check.non_negative("mu", mu)
    _check.non_negative("epsilon", epsilon)
    beyond = epsilon - total_epsilon(groups)
    if mu == 0 and beyond >= 0:
        return 0.0
    found = 1.0
    if beyond >= 0:
        found = delta_of_mu(mu, beyond if beyond >= sys.float_info.min else 0.0)
    distribution, divergences = _accountants(mu, groups)
    if distribution is not None:
        found = min(found, max(0.0, float(distribution.get_delta_for_epsilon(epsilon))) + _rounding(groups))
    if divergences is not None:
        found = min(found, divergences.get_delta(epsilon) * (1 + _RENYI_ROUNDING * (1 + epsilon)))
    return max(found, sys.float_info.min)  # an underflow is not purity


def mixed_epsilons(mu: float, groups: tuple[SelectionGroup, ...], delta: float) -> list[float]:
    """Where each of the three bounds falls to `delta`, the library's by its own `get_epsilon`, ascending.

    They are guesses, exact but for rounding: `compose.epsilon_of` checks one before it returns it.

    >>> [round(epsilon, 2) for epsilon in mixed_epsilons(0.0, (SelectionGroup(0.1, False, 100),), 1e-5)]
    [4.31, 4.73, 10.0]
    """
    _check.non_negative("mu", mu)
    _check.fraction("delta", delta)
    found = [total_epsilon(groups) + (epsilon_of_mu(mu, delta) if mu > 0 else 0.0)]
    distribution, divergences = _accountants(mu, groups)
    left = delta - _rounding(groups)
    if distribution is not None and left > 0:
        found.append(float(distribution.get_epsilon_for_delta(left)))
    if divergences is not None:
        near = float(divergences.get_epsilon(delta))
        found.append(float(divergences.get_epsilon(delta / (1 + _RENYI_ROUNDING * (1 + near)))))
    return sorted(found)


def _rounding(groups: tuple[SelectionGroup, ...]) -> float:
    return _FFT_ROUNDING * (50 + sum(group.times for group in groups))


@lru_cache(maxsize=64)
def _accountants(mu: float, groups: tuple[SelectionGroup, ...]) -> tuple[Any, Any]:
    """The library's PLD and RDP accountant, each None where the numbers are too large for it."""
    if mu > _WIDEST_MU:
        return None, None
    width = math.hypot(mu, *(math.sqrt(group.times) * group.epsilon for group in groups))
    fits_a_grid = _WIDTHS[0] <= width <= _WIDTHS[1]
    return _distribution(mu, groups, width) if fits_a_grid else None, _divergences(mu, groups)


def _distribution(mu: float, groups: tuple[SelectionGroup, ...], width: float) -> Any:
    from dp_accounting.pld import common, privacy_loss_distribution

    heaviest = max(groups, key=lambda group: group.times * group.epsilon**2).epsilon
    unequal = any(group.epsilon != heaviest for group in groups)
    coarsest = width / (_POINTS_IF_UNEQUAL if unequal else _POINTS)
    interval = math.ldexp(heaviest, math.floor(math.log2(coarsest / heaviest)))
    counts: Counter[int] = Counter()
    for group in groups:  # exact division for the heaviest: a power of two
        steps = group.epsilon / interval * (1 if group.epsilon == heaviest else 1 + 1e-15)
        counts[math.ceil(steps)] += group.times
    together = privacy_loss_distribution.identity(interval)
    for whole_steps, times in sorted(counts.items()):
        worst_case = common.DifferentialPrivacyParameters(whole_steps * interval, 0.0)
        one = privacy_loss_distribution.from_privacy_parameters(worst_case, interval)
        together = together.compose(one.self_compose(times))
    if mu > 0:
        noise = privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=1 / max(mu, _SMALLEST_PLD_MU),
            pessimistic_estimate=True,
            value_discretization_interval=interval,
        )
        together = noise.compose(together)
    return together


def _divergences(mu: float, groups: tuple[SelectionGroup, ...]) -> Any:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(_ORDERS)
    accountant.compose(dp_event.ZCDpEvent(rho=0.0, xi=_SMALLEST_RENYI))
    if mu > 0:
        accountant.compose(dp_event.GaussianDpEvent(1 / max(mu, 1 / _WIDEST_MU)))
    for group in groups:
        rho = selection_rho(group.epsilon, group.bounded_range)
        accountant.compose(dp_event.ZCDpEvent(rho), group.times)
    return accountant
