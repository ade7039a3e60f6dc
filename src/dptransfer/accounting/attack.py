"""The same curve as an attacker sees it: how well can membership of one example, or person, be guessed?

An attacker who must decide between two neighbouring data sets from the release alone has a false-positive
rate α and a true-positive rate τ. (ε, δ)-DP in both directions says τ ≤ e^ε α + δ and 1 − α ≤ e^ε (1 − τ) +
δ, for every ε at once. These are limits for any attacker, whatever he knows about everybody else's examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dptransfer import _check
from dptransfer.accounting.compose import delta_of, epsilon_of, is_gaussian, mu_of, pure_epsilon_of
from dptransfer.privacy import Event


def true_positive_rate(events: Sequence[Event], false_positive_rate: float) -> float:
    """Upper bound on the true-positive rate of any membership attack at `false_positive_rate`.

    Gaussian steps: the exact trade-off Φ(Φ⁻¹(α) + μ), with α and the result raised by what cut tails move.
    Otherwise both constraints, over a grid of ε.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> round(true_positive_rate([GaussianEvent(1.0, Relation.ADD_REMOVE)], 0.01), 3)
    0.092
    """
    _check.probability("false_positive_rate", false_positive_rate)
    if not events:
        return false_positive_rate
    mu = mu_of(events) if is_gaussian(events) else None
    if mu is not None and math.isfinite(mu):
        from scipy.special import ndtr, ndtri

        cut = math.fsum(event.numeric_delta for event in events)
        # An error of 1e-15 in ndtri moves the answer most in the tails, by less than 1e-12 of itself.
        exact = float(ndtr(float(ndtri(false_positive_rate + cut)) + mu)) * (1 + 1e-10) + cut
        return min(1.0, max(exact, false_positive_rate))
    top = epsilon_of(events, max(false_positive_rate * 1e-4, 1e-15))
    if math.isinf(top):
        return 1.0
    best, pure = 1.0, pure_epsilon_of(events)
    for epsilon in [top * step / 64 for step in range(65)] + ([] if pure is None else [pure]):
        delta = delta_of(events, epsilon)
        by_alarm = delta
        if false_positive_rate > 0:
            by_alarm += math.exp(epsilon) * false_positive_rate if epsilon < 700 else 1.0
        by_miss = 1 - math.exp(-epsilon) * max(0.0, 1 - false_positive_rate - delta)
        best = min(best, by_alarm * (1 + 1e-12), by_miss + 1e-15)
    return max(best, false_positive_rate)


def membership_advantage(events: Sequence[Event]) -> float:
    """Upper bound on true-positive minus false-positive rate: the curve at ε = 0, the total variation.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> round(membership_advantage([GaussianEvent(1.0, Relation.ADD_REMOVE)]), 4)
    0.3829
    """
    return delta_of(events, 0.0)
