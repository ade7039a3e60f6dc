"""The scores of a classifier for every row by itself: near ties are told apart, the same way in any batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.compute.exact_softmax import IntegerLogits, largest_coefficient, logit_steps
from dptransfer.compute.softmax_average import log_mean_softmax

_MOST_STRETCH = 2.0**1013  # below what a float holds, for heads of next to nothing


def exact_scores(head: Any, norm: int, spread: float) -> tuple[Callable[[Floats], Floats], float]:
    """A function from integer rows of at most this norm to (classes, rows) scores, and a score's unit.

    Scores are whole numbers of steps, so fine that coefficients have the size `spread` in them; beside a
    prior they are the logarithms of the mean of two softmaxes.

    Args:
        head: whatever has linear, offset, precision and prior.
        norm: of the rows.
        spread: what the largest coefficient is stretched to before scores are rounded to 2⁻¹⁰.
    """
    own, unit = _stretched(head.linear, head.offset, head.precision, norm, spread)
    if head.prior is None:
        return (lambda rows: logit_steps(rows, own)), unit
    beside, other = _stretched(head.prior, np.zeros(len(head.prior)), None, norm, spread)

    def depths(rows: Floats, logits: IntegerLogits, step: float) -> Floats:
        steps: Floats = logit_steps(rows, logits)
        below: Floats = (steps.max(axis=0) - steps) * step
        return below

    return (lambda rows: log_mean_softmax(depths(rows, own, unit), depths(rows, beside, other))), 1.0


def _stretched(
    linear: Floats, offset: Floats, precision: Floats | None, norm: int, spread: float
) -> tuple[IntegerLogits, float]:
    largest = largest_coefficient(linear, offset, precision)
    stretch = min(spread / max(largest, 1e-307), _MOST_STRETCH)
    bent = None if precision is None else precision * stretch
    return IntegerLogits.of(linear * stretch, offset * stretch, bent, norm), 2.0**-10 / stretch
