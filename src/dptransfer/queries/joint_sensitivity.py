"""Joint sensitivity of second moments, sums and gradients of the same rows to one replaced row.

Each question has a worst pair of rows of its own: moments move furthest between rows at right angles, sums
and gradients between opposite ones. No pair is both, so releases that are priced together cost less than the
sum of their prices.

**One pair.** Let x of norm at most 1 be replaced by x′, write c = x·x′ and k = |c|, and divide the square of
what an answer moves by the square of its sensitivity. Norms of 1 are the worst in all of:

- moment of all rows: ‖xxᵀ − x′x′ᵀ‖²/2 = (‖x‖⁴ + ‖x′‖⁴ − 2c²)/2 ≤ 1 − k²;
- moments of classes: the same if the label stays, and (‖x‖⁴ + ‖x′‖⁴)/2 ≤ 1 if it changes;
- class sums: ‖x − x′‖²/4 ≤ (1 + k)/2 if the label stays, and (‖x‖² + ‖x′‖²)/4 ≤ ½ if it changes;
- a gradient, for any residuals r and r′ of norm at most 1 (which change from round to round, where x and x′
  do not): ‖r ⊗ x − r′ ⊗ x′‖²/4 = (‖r‖²‖x‖² + ‖r′‖²‖x′‖² − 2(r·r′)c)/4 ≤ (1 + k)/2.

With shares a, m, s and g of these four kinds, a pair with equal labels reaches at most F(a + m, s + g), and
one with different labels m + s/2 + F(a, g), where

    F(u, v) = max over k in [0, 1] of u(1 − k²) + v(1 + k)/2, at k = min(1, v/4u).

The larger of the two is the reach. Rows of norm 1 with c = −k and equal labels attain the first. A person
replaced by another is no such pair: of sums of many rows at once nothing is proven here, and questions about
persons are refused.

**Many rounds.** The pair is fixed for the whole run, so its k is the same in every round, and the shares of
all rounds of a kind add up, whatever the rounds ask in the light of earlier answers.

**Grids.** Moments see each row rounded toward zero to a multiple of 2⁻¹⁴, the others see it at 2⁻¹⁶: up to
3·2⁻¹⁶ further out in each of d coordinates. So k of the second kind of question is at most k of the first
plus t = 2·3·√d·2⁻¹⁶, and (1 + k)/2 grows by t/2. Scaling entries off the diagonal by 41/29, just below √2,
and lengths below 1 only make gaps smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dptransfer.errors import ArgumentError
from dptransfer.privacy import Unit
from dptransfer.queries import class_sums, softmax_gradient
from dptransfer.queries.query import L2Query
from dptransfer.queries.second_moments import OfAll, OfClasses, SecondMoments

_ALL, _BY_CLASS, _SUMS, _GRADIENTS = "moment of all rows", "moments of classes", "class sums", "gradients"
_CUT = 3 / softmax_gradient.ROW_NORM  # of a coordinate, by rounding from steps of 2⁻¹⁶ to steps of 2⁻¹⁴


def kind_and_width(query: L2Query) -> tuple[str, int]:
    """Which of the four kinds a question is, and how wide the rows are; the proof covers no other."""
    if query.unit is not Unit.ROW:
        raise ArgumentError(
            "Questions priced together must be about examples; got one about persons, each with all their "
            "examples. Price it by itself."
        )
    if isinstance(query, SecondMoments) and isinstance(query.weights, OfAll):
        return _ALL, query.features.dimension
    if isinstance(query, SecondMoments) and isinstance(query.weights, OfClasses):
        return _BY_CLASS, query.features.dimension
    if isinstance(query, class_sums.ClassSums):
        return _SUMS, query.features.dimension
    if isinstance(query, softmax_gradient.SoftmaxGradient) and query.projection is None:
        return _GRADIENTS, query.features.dimension
    raise ArgumentError(
        "Questions priced together must be moments of all rows or of classes, class sums or whole gradients; "
        f"got {query.label}. Price it by itself."
    )


def joint_reach(queries: Sequence[L2Query], shares: Sequence[float]) -> float:
    """Largest Σ share · (gap ÷ sensitivity)² over all pairs of neighbours, where one row is replaced.

    >>> from dptransfer.exact.feature_map import OnLattice
    >>> from dptransfer.exact.public_map import ROW_NORM
    >>> from dptransfer.queries.second_moments import OfAll, OfClasses, SecondMoments
    >>> rows = OnLattice(1, ROW_NORM)
    >>> moments = [SecondMoments(rows, OfAll()), SecondMoments(rows, OfClasses(2))]
    >>> queries = [*moments, class_sums.ClassSums(rows, 2)]
    >>> round(joint_reach(queries, [1.0, 1.0, 1.0]), 3)  # and not 3
    2.531
    """
    total = dict.fromkeys((_ALL, _BY_CLASS, _SUMS, _GRADIENTS), 0.0)
    widest = 0
    for query, share in zip(queries, shares, strict=True):
        kind, width = kind_and_width(query)
        total[kind] += share
        widest = max(widest, width)
    everyone, each, sums, gradients = total.values()
    further = _CUT * math.sqrt(widest)  # t/2
    same = _peak(everyone + each, sums + gradients) + (sums + gradients) * further
    changed = each + sums / 2 + _peak(everyone, gradients) + gradients * further
    return max(same, changed)


def _peak(quadratic: float, linear: float) -> float:
    """F of the proof."""
    k = 1.0 if linear >= 4 * quadratic else linear / (4 * quadratic)
    return quadratic * (1 - k * k) + linear * (1 + k) / 2
