"""Steps of several kinds, several selections, or sampled steps: composed by the library `dp_accounting`.

Three upper bounds on one curve, each valid at every ε; which is smallest depends on the events alone, not on
data, so the smallest is valid too.

- **PLD**, the distribution of the privacy loss: the Gaussian and the sampled steps composed with every
  selection as the worst case of its pure ε. Tight for noise, sampled or not, with a few selections and for
  selections without bounded range.
- **RDP**, Rényi divergences: the Gaussian, the sampled steps, and every selection by its ρ
  (`exact_curves.selection_rho`). The library has no PLD of bounded range, so this is where η²/8 counts.
  Tight for many selections of bounded range.
- **Sum**: the exact curve of the Gaussian and of the sampled steps without amplification, moved by the sum of
  the selections' ε. Best at tiny δ; it also means that a mixture never costs more than its parts added up,
  and selections never more than their pure sum.

Neighbouring relations do not appear: an event's numbers already hold for its own, so the library is always
asked about noise 1/μ on sensitivity 1, whose loss is the same in both directions. Sampled steps are told
their relation (`sampled`), and the library keeps both directions of their loss apart.

**Discretisation.** The library puts losses on multiples of an interval h, rounding pessimistically. s = √(μ²
+ Σ ε² + Σ σ²) is about the standard deviation of the loss (σ of one sampled step). With selections h is a
power of two times the ε of those that weigh most, the largest not above s/256 (s/2048 if the selections' ε
differ), so they fall on the grid without rounding; others are rounded up to a whole number of intervals
first. A sampled step adds at most h²/4 to the variance of the loss, so with T of them h is at most s/256 and
s/(16√T): together they add a part in 1000 to s², at most, unless the losses of one step span too many
intervals (which costs accuracy, never safety). The Gaussian adds 1e-5 to 2e-4 of δ.

**Rounding of floats.** Two things the library does not count are added here. It convolves by fast Fourier
transform, whose error is absolute, has either sign, and matters at a δ of 1e-12: 1e-15 for each selection,
each sampled release and for 50 more is added to δ. (That is measured, not proven: in 5551 comparisons with
exact sums, of up to 2000 selections, the library's δ was too small 335 times, by up to 9e-14, and never by
more than a sixth of what is added.) And the Rényi exponent is rounded, see `renyi`.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from functools import lru_cache
from typing import Any

from dptransfer.accounting.exact_curves import SelectionGroup, delta_of_mu, epsilon_of_mu, total_epsilon
from dptransfer.accounting.renyi import delta_of_renyi, divergences, epsilon_of_renyi
from dptransfer.accounting.sampled import SampledGroup, loss_distribution, whole_mu

# The s for which a PLD is built. Above, losses pass 700, where the library's exp overflows; below, its
# differences of δ are mostly rounding, and ε is 0 at any δ in use.
_WIDTHS = 1e-6, 25.0
_SMALLEST_PLD_MU = 1e-9  # a smaller μ is raised to it: the library adds 1 to numbers of about 10/μ
_POINTS, _POINTS_IF_UNEQUAL = 256, 2048  # intervals to one standard deviation of the loss, at least
_POINTS_IF_SAMPLED = 16  # to one standard deviation of a sampled step's loss
_STEP_POINTS = 25_000  # to all losses of one sampled step, at most
_MOST_POINTS = 2**23  # to the losses of many sampled steps together
_WIDEST_SPAN = 500.0
_FFT_ROUNDING = 1e-15


def mixed_delta(
    mu: float,
    groups: tuple[SelectionGroup, ...],
    epsilon: float,
    sampled: tuple[SampledGroup, ...] = (),
    *,
    quick: bool = False,
) -> float:
    """A δ at which Gaussian noise of GDP parameter `mu` (0 for none) and the other steps are (ε, δ)-DP.

    0 only where the selections' pure ε says so: with noise it is never 0. `quick` leaves the PLD out.

    >>> f"{mixed_delta(0.0, (SelectionGroup(0.1, False, 100),), 4.31):.2e}"
    '9.86e-06'
    """
    beyond = epsilon - total_epsilon(groups)
    whole = whole_mu(mu, sampled)
    if whole == 0 and beyond >= 0:
        return 0.0
    found = 1.0
    if beyond >= 0:
        found = delta_of_mu(whole, beyond if beyond >= sys.float_info.min else 0.0)
    renyi = divergences(mu, groups, sampled)
    if renyi is not None:
        found = min(found, delta_of_renyi(renyi, epsilon))
    distribution = None if quick else _distribution(mu, groups, sampled)
    if distribution is not None:
        by_loss = max(0.0, float(distribution.get_delta_for_epsilon(epsilon))) + _rounding(groups, sampled)
        found = min(found, by_loss)
    return max(found, sys.float_info.min)  # an underflow is not purity


def mixed_epsilons(
    mu: float, groups: tuple[SelectionGroup, ...], delta: float, sampled: tuple[SampledGroup, ...] = ()
) -> list[float]:
    """Where each of the three bounds falls to `delta`, the library's by its own `get_epsilon`, ascending.

    They are guesses, exact but for rounding: `compose.epsilon_of` checks one before it returns it.

    >>> [round(epsilon, 2) for epsilon in mixed_epsilons(0.0, (SelectionGroup(0.1, False, 100),), 1e-5)]
    [4.31, 4.73, 10.0]
    """
    whole = whole_mu(mu, sampled)
    found = [total_epsilon(groups) + (epsilon_of_mu(whole, delta) if whole > 0 else 0.0)]
    left = delta - _rounding(groups, sampled)
    distribution = _distribution(mu, groups, sampled)
    if distribution is not None and left > 0:
        found.append(float(distribution.get_epsilon_for_delta(left)))
    renyi = divergences(mu, groups, sampled)
    if renyi is not None:
        found.append(epsilon_of_renyi(renyi, delta))
    return sorted(found)


def _rounding(groups: tuple[SelectionGroup, ...], sampled: tuple[SampledGroup, ...]) -> float:
    steps = sum(group.times for group in groups) + sum(group.times for group in sampled)
    return _FFT_ROUNDING * (50 + steps)


@lru_cache(maxsize=8)
def _distribution(mu: float, groups: tuple[SelectionGroup, ...], sampled: tuple[SampledGroup, ...]) -> Any:
    """The library's PLD; None where the numbers are too large or too small for it."""
    width = math.hypot(
        mu,
        *(math.sqrt(group.times) * group.epsilon for group in groups),
        *(math.sqrt(group.times) * group.deviation for group in sampled),
    )
    if not _WIDTHS[0] <= width <= _WIDTHS[1] or any(group.span > _WIDEST_SPAN for group in sampled):
        return None
    from dp_accounting.pld import privacy_loss_distribution

    interval = _interval(width, groups, sampled)
    if any(_points(group, interval) > _MOST_POINTS for group in sampled):
        return None
    together = _selections(groups, interval)
    for group in sampled:
        together = together.compose(loss_distribution(group, interval))
    if mu > 0:
        noise = privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=1 / max(mu, _SMALLEST_PLD_MU),
            pessimistic_estimate=True,
            value_discretization_interval=interval,
        )
        together = noise.compose(together)
    return together


def _interval(width: float, groups: tuple[SelectionGroup, ...], sampled: tuple[SampledGroup, ...]) -> float:
    coarsest = math.inf
    if sampled:
        root = math.sqrt(sum(group.times for group in sampled))
        span = max(group.span for group in sampled)
        coarsest = max(width / max(_POINTS_IF_SAMPLED * root, _POINTS), span / _STEP_POINTS)
    if not groups:
        return coarsest
    heaviest = _heaviest(groups)
    unequal = any(group.epsilon != heaviest for group in groups)
    coarsest = min(coarsest, width / (_POINTS_IF_UNEQUAL if unequal else _POINTS))
    return math.ldexp(heaviest, math.floor(math.log2(coarsest / heaviest)))


def _points(group: SampledGroup, interval: float) -> float:
    """About how many losses the library keeps: it bounds the tails at the orders 1 to 20 over the span."""
    variance = group.deviation**2 + interval**2 / 4
    orders = [order / group.span for order in range(1, 21)]
    return 2 * min(group.times * order * variance / 2 + 36 / order for order in orders) / interval


def _heaviest(groups: tuple[SelectionGroup, ...]) -> float:
    return max(groups, key=lambda group: group.times * group.epsilon**2).epsilon


def _selections(groups: tuple[SelectionGroup, ...], interval: float) -> Any:
    from dp_accounting.pld import common, privacy_loss_distribution

    counts: Counter[int] = Counter()
    for group in groups:  # exact division for the heaviest: a power of two
        steps = group.epsilon / interval * (1 if group.epsilon == _heaviest(groups) else 1 + 1e-15)
        counts[math.ceil(steps)] += group.times
    together = privacy_loss_distribution.identity(interval)
    for whole_steps, times in sorted(counts.items()):
        worst_case = common.DifferentialPrivacyParameters(whole_steps * interval, 0.0)
        one = privacy_loss_distribution.from_privacy_parameters(worst_case, interval)
        together = together.compose(one.self_compose(times))
    return together
