"""Bounds on membership inference: how well an attacker can guess whether an example was used.

An attacker who must decide between two neighbouring data sets from the release alone has a false-positive
rate α and a true-positive rate τ. (ε, δ)-DP in both directions says τ ≤ e^ε α + δ and 1 − α ≤ e^ε (1 − τ) +
δ, for every ε at once. These are limits for any attacker, whatever he knows about everybody else's examples.

They are for one example of a known data set, and carry over to attacks that are scored over many, as
`audit.membership` does: for each member the release with it and the one without are neighbours, and to the
release without it the example is as fresh as a test row from the same source. Averages of rates obey the
limit of the rates, because it is concave in the false positive rate. (The average is over noise and data;
what is measured on one model and finite sets scatters around it.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.accounting.compose import delta_of, epsilon_of, is_gaussian, mu_of, pure_epsilon_of
from dptransfer.base import checks
from dptransfer.base.types import Floats
from dptransfer.privacy import Event

_CURVE_POINTS = 64
_AREA_POINTS = 20_000


def true_positive_rate(events: Sequence[Event], false_positive_rate: float) -> float:
    """Upper bound on the true-positive rate of any membership attack at `false_positive_rate`.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> round(true_positive_rate([GaussianEvent(1.0, Relation.ADD_REMOVE)], 0.01), 3)
    0.092
    """
    alarm = checks.probability("false_positive_rate", false_positive_rate)
    return float(rate_ceilings(events, [alarm], last_delta=max(alarm * 1e-4, 1e-15))[0])


def rate_ceilings(
    events: Sequence[Event], false_positive_rates: ArrayLike, *, last_delta: float = 1e-7
) -> Floats:
    """Upper bounds on the true positive rates of any attack at these false positive rates, all at once.

    Gaussian steps: the exact trade-off Φ(Φ⁻¹(α) + μ), with α and the result raised by what cut tails move.
    Otherwise both constraints of (ε, δ)-DP, on a grid of ε up to where δ is `last_delta`, are lines that the
    curve stays below.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> rate_ceilings([GaussianEvent(1.0, Relation.ADD_REMOVE)], [0.01, 0.1]).round(3)
    array([0.092, 0.389])
    """
    alarms = np.asarray(false_positive_rates, dtype=np.float64)
    if not events:
        return alarms
    mu = mu_of(events) if is_gaussian(events) else None
    if mu is not None and math.isfinite(mu):
        from scipy.special import ndtr, ndtri

        cut = math.fsum(event.numeric_delta for event in events)
        # An error of 1e-15 in ndtri moves the answer most in the tails, by less than 1e-12 of itself.
        exact: Floats = ndtr(ndtri(np.minimum(alarms + cut, 1.0)) + mu) * (1 + 1e-10) + cut
        return np.minimum(np.maximum(exact, alarms), 1.0)
    top, pure = epsilon_of(events, last_delta), pure_epsilon_of(events)
    grid = [] if math.isinf(top) else [top * step / _CURVE_POINTS for step in range(_CURVE_POINTS + 1)]
    curve = np.ones_like(alarms)
    for epsilon in grid + ([] if pure is None else [pure]):
        if epsilon < 700:  # e^ε is a float
            delta = delta_of(events, epsilon)
            by_alarm = math.exp(epsilon) * alarms + delta
            by_miss = 1 - math.exp(-epsilon) * np.maximum(0.0, 1 - alarms - delta)
            curve = np.minimum(curve, np.minimum(by_alarm * (1 + 1e-12), by_miss + 1e-15))
    return np.maximum(curve, alarms)


def area_ceiling(events: Sequence[Event]) -> float:
    """Largest area under the curve of any attack, rounded up by 1/20000 at most.

    For Gaussian steps it is Φ(μ/√2), the chance to order two normals that are μ apart.

    >>> from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent
    >>> round(area_ceiling([GaussianEvent(1.0, Relation.ADD_REMOVE)]), 4), area_ceiling([])
    (0.7603, 0.5)
    >>> round(area_ceiling([SelectionEvent(1.0, Relation.ADD_REMOVE, False, "laplace")]), 3)
    0.731
    """
    if not events:
        return 0.5
    # The curve rises, so rectangles up to its right ends are above it.
    right_ends = np.arange(1, _AREA_POINTS + 1) / _AREA_POINTS
    return min(1.0, float(rate_ceilings(events, right_ends).mean()) * (1 + 1e-12))


def membership_advantage(events: Sequence[Event]) -> float:
    """Upper bound on true-positive minus false-positive rate: the curve at ε = 0, the total variation.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> round(membership_advantage([GaussianEvent(1.0, Relation.ADD_REMOVE)]), 4)
    0.3829
    """
    return delta_of(events, 0.0)
