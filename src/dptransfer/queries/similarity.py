"""How similar each public candidate is to the private rows of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.compute import class_similarity
from dptransfer.compute.device import DEVICES
from dptransfer.compute.people import grouped
from dptransfer.compute.similarity import GRID_DTYPE, GRID_NORM, LARGEST_WEIGHT
from dptransfer.errors import ArgumentError
from dptransfer.features import FittedFeatures
from dptransfer.privacy import Unit
from dptransfer.queries.base import BoundedQuery

GridRows = NDArray[np.integer[Any]]

_MAPPED_ELEMENTS = 2**22  # 32 MiB of mapped rows at a time


@dataclass(frozen=True, eq=False)
class SimilarityScores(BoundedQuery):
    """Σ over a class's rows of clip(1 + cos(x, p_j), lowest, highest) − lowest, for each candidate p_j.

    Releases:      nothing by itself; a selection mechanism releases positions.
    Guarantee:     with ExponentialMechanism at ε, SelectionEvent(ε); likewise the other selections.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   each score of one class moves by an integer in [0, `score_range`] when an example is added,
                   and no score falls: the score is monotone. Replace: within a class by at most ± that, else
                   in two classes, up in one and down in the other. Persons: a row of somebody who has m rows
                   counts ⌊2¹⁶/max(m, bound)⌋ times, so all m together, over all classes, at most 2¹⁶ times.
                   When that person is added, the scores of class c move by integers in [0, Δ_c], where Δ_c is
                   the weight of their rows of class c times the range of one row, and Σ Δ_c ≤ `score_range`,
                   which is 2¹⁶ such ranges.
    Assumes:       candidates, caps and precision are public; labels in 0..classes−1; a feature map that works
                   row by row. Exact: integer products below 2²², integer caps, int64 sums; of persons, up to
                   2²³ of them.
    Reference:     Wahdany et al. (2025), Section 4.2, without the division by the range, which changes no
                   probability.

    Attributes:
        features: map of the private rows.
        candidates: integer public rows, mapped by the same features.
        classes: number of declared classes.
        lowest: smallest 1 + cosine that counts (d_min).
        highest: largest that counts (d_max).
        precision: the integer grid; see `compute.similarity`.
        device: where the products are computed, 'cpu' or 'cuda'; the integers are the same.
    """

    features: FittedFeatures
    candidates: GridRows
    classes: int
    lowest: float = 0.0
    highest: float = 2.0
    precision: str = "float16"
    device: str = "cpu"

    label = "public prototypes by similarity"

    def __post_init__(self) -> None:
        """Check the caps, and the candidates' norms, on which the range of a score rests."""
        _check.one_of("precision", self.precision, GRID_NORM)
        _check.one_of("device", self.device, DEVICES)
        if not 0 <= self.lowest < self.highest <= 2:
            raise ArgumentError(
                "The caps on 1 + cosine must satisfy 0 <= lowest < highest <= 2; "
                f"got {self.lowest!r} and {self.highest!r}."
            )
        if self.score_range < 1:
            raise ArgumentError("The caps are closer than one grid step; move them apart.")
        if _largest_square(self.candidates) > self.norm**2:
            raise ArgumentError(
                f"Candidates must be integer rows of norm at most {self.norm}; at least one is longer. "
                "Map them with features.lattice."
            )

    @property
    def norm(self) -> int:
        """Grid norm of the rows."""
        return GRID_NORM[self.precision]

    @property
    def caps(self) -> tuple[int, int]:
        """The caps in grid steps."""
        return round(self.lowest * self.norm**2), round(self.highest * self.norm**2)

    @property
    def score_range(self) -> int:
        """Largest contribution of one unit to one score, and of a person to those of all classes together.

        A person's is the same whatever the bound: a larger one makes single rows count less instead, which
        comes to the same choices.
        """
        low, high = self.caps
        return (high - low) * (1 if self.unit is Unit.ROW else LARGEST_WEIGHT)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """(candidates, classes) scores."""
        return self._scores(rows, labels, None, self.classes)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """(candidates, classes) scores, in which each row counts as many times as its person's rows may."""
        return self._scores(rows, labels, row_weights(people, self.bound.examples), self.classes)

    def _scores(self, rows: AnyArray, labels: Labels, weights: Integers | None, classes: int) -> Integers:
        asked = (grid_rows(self.features, rows, self.precision), labels, classes, self.candidates)
        return class_similarity(
            *asked, *self.caps, precision=self.precision, device=self.device, weights=weights
        )

    def contribution_ranges(self, rows: AnyArray, labels: Labels, people: People | None = None) -> Floats:
        """Largest minus smallest contribution of each row over all candidates, ÷ `score_range`.

        Products stay below 2²⁴, partial sums too, so float32 holds them exactly.
        """
        if people is not None:
            return self._ranges_of_people(rows, labels, people)
        low, high = self.caps
        mapped = grid_rows(self.features, rows, self.precision).astype(np.float32)
        smallest, largest = np.full(len(mapped), np.inf), np.full(len(mapped), -np.inf)
        step = max(1, _MAPPED_ELEMENTS // max(1, len(mapped)))
        for start in range(0, len(self.candidates), step):
            near = mapped @ self.candidates[start : start + step].astype(np.float32).T
            smallest = np.minimum(smallest, near.min(axis=1))
            largest = np.maximum(largest, near.max(axis=1))
        # The cap is monotone, so the ends of the products are the ends of the contributions.
        ends = [np.clip(self.norm**2 + end, low, high) for end in (smallest, largest)]
        ranges: Floats = (ends[1] - ends[0]) / self.score_range
        return ranges

    def _ranges_of_people(self, rows: AnyArray, labels: Labels, people: People) -> Floats:
        """What a person has of one class is scored as a class of its own; their ranges add up."""
        groups, weights = grouped(people, labels), row_weights(people, self.bound.examples)
        step = max(1, _MAPPED_ELEMENTS // max(1, len(self.candidates)))
        spans = [np.zeros(0)]
        for start in range(0, len(groups.classes), step):
            counts = groups.counts[start : start + step]
            own = groups.order[groups.starts[start] :][: counts.sum()]
            numbers = np.repeat(np.arange(len(counts)), counts)
            spans.append(np.ptp(self._scores(rows[own], numbers, weights[own], len(counts)), axis=0))
        ranges: Floats = np.add.reduceat(np.concatenate(spans), groups.firsts[:-1]) / self.score_range
        return ranges


def row_weights(people: People, bound: float) -> Integers:
    """How many times each row counts: its share of its person's 2¹⁶, and at most one of `bound` such shares.

    However the second is rounded, m rows of one person count m·⌊2¹⁶/m⌋ ≤ 2¹⁶ times at most. 40 rows reach
    99.98 % of that; somebody with more than 2¹⁶ rows does not count.

    >>> row_weights(np.array([0, 1, 1, 1]), bound=2.0).tolist()
    [32768, 21845, 21845, 21845]
    """
    sizes = np.bincount(people)
    shares: Integers = np.minimum(LARGEST_WEIGHT // np.maximum(sizes, 1), int(LARGEST_WEIGHT / max(bound, 1)))
    own: Integers = shares[people]
    return own


def grid_rows(features: FittedFeatures, rows: AnyArray, precision: str) -> GridRows:
    """Mapped rows on the precision's grid in its smallest type: 2 or 1 bytes a coordinate.

    The map gives eight-byte integers, so it is applied some rows at a time.
    """
    result = np.empty((len(rows), features.dimension), dtype=GRID_DTYPE[precision])
    step = max(1, _MAPPED_ELEMENTS // max(1, features.dimension))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        result[part] = features.lattice(rows[part], GRID_NORM[precision])
    return result


def _largest_square(rows: GridRows) -> int:
    """Largest squared norm, exactly; of an entry so large that squares would overflow, its own square."""
    step = max(1, _MAPPED_ELEMENTS // max(1, rows.shape[1]))
    largest = 0
    for start in range(0, len(rows), step):
        part = rows[start : start + step].astype(np.int64)
        entry = max(int(part.max(initial=0)), -int(part.min(initial=0)))
        largest = max(largest, entry**2)
        if entry < 2**24:
            largest = max(largest, int(np.einsum("ij,ij->i", part, part).max()))
    return largest
