"""What a guarantee leaves to any membership attack: the curve of its rates, and the area under it.

The limits, as in `accounting.attack`, are for one example of a known data set. They carry over to attacks
that are scored over many examples, as `membership` does: for each member the release with it and the one
without are neighbours, and to the release without it the example is as fresh as a test row from the same
source. Averages of rates obey the limit of the rates, because it is concave in the false positive rate. (The
average is over noise and data; what is measured on one model and finite sets scatters around it.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.accounting import delta_of, epsilon_of, is_gaussian, mu_of, pure_epsilon_of
from dptransfer.privacy import Event

FloatArray = NDArray[np.float64]

_CURVE_POINTS = 64
_AREA_POINTS = 20_000
_LAST_DELTA = 1e-7


def rate_ceilings(events: Sequence[Event], false_positive_rates: ArrayLike) -> FloatArray:
    """Upper bounds on the true positive rates of any attack at these false positive rates, all at once.

    Gaussian steps: the exact trade-off Φ(Φ⁻¹(α) + μ). Otherwise both constraints of (ε, δ)-DP on a grid of ε
    are lines that the curve stays below. For one rate `accounting.true_positive_rate` has a finer grid.

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

        cut = math.fsum(event.numeric_delta for event in events)  # cut tails move either rate by that much
        exact: FloatArray = ndtr(ndtri(np.minimum(alarms + cut, 1.0)) + mu) * (1 + 1e-10) + cut
        return np.minimum(np.maximum(exact, alarms), 1.0)
    curve = np.ones_like(alarms)
    for epsilon, delta in _points(events):
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


def _points(events: Sequence[Event]) -> list[tuple[float, float]]:
    """Points (ε, δ) of the curve, from ε = 0 to where δ hardly matters."""
    top, pure = epsilon_of(events, _LAST_DELTA), pure_epsilon_of(events)
    grid = [] if math.isinf(top) else [top * step / _CURVE_POINTS for step in range(_CURVE_POINTS + 1)]
    chosen = grid + ([] if pure is None else [pure])
    return [(epsilon, delta_of(events, epsilon)) for epsilon in chosen if epsilon < 700]  # e^ε is a float
