"""Released histograms of how a classifier does, as counts with a known noise.

All of it is post-processing: nothing here has seen a private row. `release.noisy_shares` has the intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.errors import ArgumentError
from dptransfer.privacy import EACH_ROW, Bound, Unit
from dptransfer.queries.evaluation_counts import (
    CHANCE_EDGES,
    CONFIDENCE_KNOTS,
    TEMPERATURES,
    EvaluationCounts,
    EvaluationLayout,
)
from dptransfer.release.noisy_shares import NOTHING, Estimate, Noisy, Z, pooled

_DIGITS = 4
_MOST = 2.0**53  # of a count and of its noise: nobody has more rows, and squares stay finite


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The blocks of `EvaluationLayout` as counts of examples; where persons are protected, of their voices.

    Attributes:
        blocks: each block's cells by name; see `EvaluationLayout`.
        noise: standard deviation of the noise on a cell, by block.
        bound: what was protected, and as how many examples it counts at most.
        chance_edges: where the true class's probability is cut.
        confidence_knots: between which confidence is shared out.
        temperatures: factors of the head's temperature at which confidences are summed.
    """

    blocks: Mapping[str, Floats]
    noise: Mapping[str, float]
    bound: Bound = EACH_ROW
    chance_edges: tuple[float, ...] = field(default=CHANCE_EDGES)
    confidence_knots: tuple[float, ...] = field(default=CONFIDENCE_KNOTS)
    temperatures: tuple[float, ...] = field(default=TEMPERATURES)

    @classmethod
    def of_answer(cls, answer: Floats, layout: EvaluationLayout, scale: float, bound: Bound) -> NoisyCounts:
        """The counts in a noisy answer of `EvaluationCounts` whose noise has this standard deviation."""
        blocks, noise = {}, {}
        for name, block in layout.blocks.items():
            weight = block.weight / EvaluationCounts.grid
            blocks[name] = np.round(answer[block.start : block.stop].reshape(block.shape) / weight, _DIGITS)
            noise[name] = scale / weight
        return cls(blocks, noise, bound)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.blocks["by_class"])

    def cells(self, name: str, *places: Any) -> Noisy:
        """The sum of cells of a block: all of them, or those at an index."""
        chosen = self.blocks[name][places] if places else self.blocks[name]
        return Noisy(float(np.sum(chosen)), np.size(chosen) * self.noise[name] ** 2)

    def right_of(self, c: int) -> Noisy:
        """What is of class c and predicted as c: three blocks count it."""
        told = [self.cells("by_class", c, 0), self.cells("by_prediction", c, 0)]
        if "confusion" in self.blocks:
            told.append(self.cells("confusion", c, c))
        return pooled(*told)

    def missed_of(self, c: int) -> Noisy:
        """What is of class c and predicted otherwise."""
        return self._wrong_of("by_class", c, (c, self._others(c)))

    def mistaken_for(self, c: int) -> Noisy:
        """What is predicted as class c and is another."""
        return self._wrong_of("by_prediction", c, (self._others(c), c))

    @property
    def right(self) -> Noisy:
        """What is predicted right."""
        return self._total(0, [self.right_of(c) for c in range(self.classes)])

    @property
    def wrong(self) -> Noisy:
        """What is predicted wrong."""
        return self._total(1, [self.missed_of(c) for c in range(self.classes)])

    def _wrong_of(self, name: str, c: int, others: tuple[Any, Any]) -> Noisy:
        told = [self.cells(name, c, 1)]
        if "confusion" in self.blocks:
            told.append(self.cells("confusion", *others))
        return pooled(*told)

    def _total(self, side: int, by_class: Sequence[Noisy]) -> Noisy:
        """Right (0) or wrong (1) in all: three blocks of their own tell it, independently."""
        summed = Noisy(math.fsum(own.count for own in by_class), math.fsum(own.variance for own in by_class))
        return pooled(self.cells("answers", side), summed, self.cells("reliability", slice(None), side))

    def _others(self, c: int) -> list[int]:
        return [other for other in range(self.classes) if other != c]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "unit": self.bound.unit.value,
            "person_bound": self.bound.examples,
            "chance_edges": list(self.chance_edges),
            "confidence_knots": list(self.confidence_knots),
            "temperatures": list(self.temperatures),
            "noise": dict(self.noise),
            "blocks": {name: values.tolist() for name, values in self.blocks.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NoisyCounts:
        """Read what `to_dict` wrote; anything else is refused."""
        try:
            blocks = {name: np.array(own, dtype=np.float64) for name, own in values["blocks"].items()}
            found = cls(
                blocks,
                {name: float(own) for name, own in values["noise"].items()},
                Bound(Unit(values["unit"]), values["person_bound"]),
                *(tuple(values[key]) for key in ("chance_edges", "confidence_knots", "temperatures")),
            )
            counted = found.classes
            shapes = {
                "answers": (2,),
                "by_class": (counted, 2),
                "by_prediction": (counted, 2),
                "confusion": (counted, counted),
                "reliability": (len(found.confidence_knots), 2),
                "chances": (len(found.chance_edges) + 1,),
                "confidences": (len(found.temperatures),),
            }
            fits = shapes.keys() - {"confusion"} <= blocks.keys() == found.noise.keys() <= shapes.keys()
            fits = fits and all(own.shape == shapes[name] for name, own in blocks.items())
            fits = fits and all((np.abs(own) <= _MOST).all() for own in blocks.values())
            fits = fits and all(1 / _MOST <= own <= _MOST for own in found.noise.values())
            # Another version may cut elsewhere, and says where; `verify` asks for what this one has.
            fits = fits and _rising(found.chance_edges, 0, 1) and _rising(found.confidence_knots, 0, 1)
            fits = fits and _rising(found.temperatures, 1 / 64, 64)
            same = fits and found.to_dict() == dict(values)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            same = False
        if not same:
            raise ArgumentError("Noisy counts must have exactly the fields that NoisyCounts.to_dict writes.")
        return found


def _rising(grid: Sequence[float], low: float, high: float) -> bool:
    """Whether these are numbers in order, more than one, between the two."""
    inside = all(type(own) is float and low <= own <= high for own in grid)
    return len(grid) > 1 and inside and all(own < after for own, after in itertools.pairwise(grid))


def calibration_error(counts: NoisyCounts) -> Estimate:
    """Σ over knots of |confidence − accuracy| · share of the examples there, with its interval.

    The gap at knot k is g = k·wrong − (1 − k)·right, and its estimate has an error of variance v =
    bound·(k²·wrong + (1 − k)²·right) + (k² + (1 − k)²)·noise² at most, as that of a share. Errors make the
    sum of |g| larger on average, by no more than √(2/π) Σ √v, and never smaller; around its mean it varies by
    √(Σ v) at most, as its slope in each gap is at most 1. So the upper end is the sum plus Z·√(Σ v), the
    lower end the sum less that and less √(2/π) Σ √v; the total that both are divided by is taken at the far
    end of its own interval. The value takes each |g| at √(g² − v), or 0.
    """
    knots = np.array(counts.confidence_knots)
    right, wrong = counts.blocks["reliability"].T
    gaps = knots * wrong - (1 - knots) * right
    sampled = counts.bound.examples * np.maximum(knots**2 * wrong + (1 - knots) ** 2 * right, 0.0)
    variances = sampled + (knots**2 + (1 - knots) ** 2) * counts.noise["reliability"] ** 2
    total = counts.right.count + counts.wrong.count
    give = Z * math.sqrt(counts.right.variance + counts.wrong.variance)
    if total <= give:
        return NOTHING
    reach = Z * math.sqrt(variances.sum())
    found = float(np.abs(gaps).sum())
    low = max(0.0, found - reach - math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum())) / (total + give)
    high = min(1.0, (found + reach) / (total - give))
    value = float(np.sqrt(np.maximum(gaps**2 - variances, 0.0)).sum()) / total
    return Estimate(min(max(value, low), high), low, high)
