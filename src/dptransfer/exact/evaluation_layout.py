"""Blocks of a charged evaluation: which histogram of test results stands where, and how long each is.

The public side of `queries.EvaluationCounts`, which releases need to read its answers. A histogram that is
asked for directly has less noise than the sum of the cells of a finer one, so accuracy, recall, precision,
calibration and prediction sets each have a block of their own, with a share of the answer's length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dptransfer.exact.lattice import SUM_BITS
from dptransfer.exact.softmax import softmax_resolution
from dptransfer.privacy import Relation

CHANCE_EDGES = (0.001, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Where the true class's probability is cut; finer below, where the quantiles of prediction sets lie. A set
holds the predicted class whatever its probability, so that matters only where the prediction is wrong, and is
then at most ½: another class has as much."""
CONFIDENCE_KNOTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Confidence is shared out between the two next knots, so that its sum is the knots' own, without error."""
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""What the head's temperature is multiplied with where the sum of confidences is asked for."""
MOST_CONFUSED = 50
"""Classes up to which there is a confusion matrix; more of them leave nothing in a cell but noise."""

_SHARES = {
    "answers": 0.28,
    "by_class": 0.2,
    "by_prediction": 0.1,
    "confusion": 0.07,
    "reliability": 0.1,
    "chances": 0.2,
    "confidences": 0.05,
}
GRID = 2**SUM_BITS
"""Steps of the answer's grid in a length of 1."""


def chance_slack(classes: int) -> float:
    """By which part of them probabilities from the least edge on, here and in `predict_proba`, may differ.

    Exponentials are looked up at steps of 2⁻¹⁰, so each of the two in a quotient is off by a factor of
    exp(±2⁻¹¹) at most. And they are rounded by at most half a `softmax_resolution`: the sum, which is at
    least 1, by so much per class, and the one whose probability is compared by so much over the least edge.
    Twice all of that leaves room for the grid of the rows.

    >>> chance_slack(10)
    0.00201...
    """
    return 2.0**-9 + (classes + 1 / CHANCE_EDGES[0]) * softmax_resolution(classes)


class Block(NamedTuple):
    """One histogram in the stack.

    Attributes:
        start: where it begins.
        shape: of its cells.
        weight: what an example's one is multiplied with, in grid steps: a count of the answer, divided by
            weight ÷ grid, is one of examples.
    """

    start: int
    shape: tuple[int, ...]
    weight: int

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + math.prod(self.shape)


@dataclass(frozen=True)
class EvaluationLayout:
    """Which histogram lies where in the stack, and how much of an example's length it has.

    - `answers` (right, wrong): accuracy.
    - `by_class` (true class) × (right, wrong): recall; `by_prediction` (predicted class) × (right, wrong):
      precision; `confusion` (true class) × (predicted class).
    - `reliability` (knot of the confidence) × (right, wrong): calibration.
    - `chances` (cell of the true class's probability, from below; what is predicted right, in the last):
      prediction sets.
    - `confidences` (temperature): the sum of confidences at each of `TEMPERATURES`.

    The squares of the weights add up to at most 1, in whole grid steps.

    Attributes:
        classes: how many.
    """

    classes: int

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Each block by name, in order."""
        shapes = {
            "answers": (2,),
            "by_class": (self.classes, 2),
            "by_prediction": (self.classes, 2),
            "confusion": (self.classes, self.classes),
            "reliability": (len(CONFIDENCE_KNOTS), 2),
            "chances": (len(CHANCE_EDGES) + 1,),
            "confidences": (len(TEMPERATURES),),
        }
        found: dict[str, Block] = {}
        start = 0
        for name in self._names:
            # Each temperature has a number of its own between 0 and 1: together they are as long as a one.
            ones = len(TEMPERATURES) if name == "confidences" else 1
            weight = int(GRID * math.sqrt(self.share(name) / ones) * (1 - 2.0**-40))
            found[name] = Block(start, shapes[name], weight)
            start = found[name].stop
        return found

    def share(self, name: str) -> float:
        """The square of a block's part of an example's length."""
        return _SHARES[name] / math.fsum(_SHARES[own] for own in self._names)

    def reach(self, relation: Relation) -> float:
        """How far one example moves the stack, at most; derived at `queries.EvaluationCounts`."""
        return 1.0 if relation is Relation.ADD_REMOVE else math.sqrt(2 - self.share("confidences"))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in _SHARES if name != "confusion" or self.classes <= MOST_CONFUSED)

    @property
    def size(self) -> int:
        """The number of cells in all blocks."""
        return max(block.stop for block in self.blocks.values())
