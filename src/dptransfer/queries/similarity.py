"""How similar each public candidate is to the private rows of each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dptransfer import _check
from dptransfer.compute import class_similarity
from dptransfer.compute.similarity import GRID_NORM
from dptransfer.data.embeddings import Labels
from dptransfer.errors import ArgumentError
from dptransfer.features import FittedFeatures
from dptransfer.queries.base import Integers, RawRows


@dataclass(frozen=True, eq=False)
class SimilarityScores:
    """Σ over a class's rows of clip(1 + cos(x, p_j), lowest, highest) − lowest, for each candidate p_j.

    Releases:      nothing by itself; a selection mechanism releases positions.
    Guarantee:     with ExponentialMechanism at ε, SelectionEvent(ε); likewise the other selections.
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   each score of one class moves by an integer in [0, `score_range`] when an example is added,
                   and no score falls: the score is monotone. Replace: within a class by at most ± that, else
                   in two classes, up in one and down in the other.
    Assumes:       candidates, caps and precision are public; labels in 0..classes−1; a feature map that works
                   row by row. Exact: integer products below 2²², integer caps, int64 sums.
    Reference:     Wahdany et al. (2025), Section 4.2, without the division by the range, which changes no
                   probability.

    Attributes:
        features: map of the private rows.
        candidates: integer public rows, mapped by the same features.
        classes: number of declared classes.
        lowest: smallest 1 + cosine that counts (d_min).
        highest: largest that counts (d_max).
        precision: the integer grid; see `compute.similarity`.
    """

    features: FittedFeatures
    candidates: Integers
    classes: int
    lowest: float = 0.0
    highest: float = 2.0
    precision: str = "float16"

    label = "public prototypes by similarity"

    def __post_init__(self) -> None:
        """Check the caps, and the candidates' norms, on which the range of a score rests."""
        _check.one_of("precision", self.precision, GRID_NORM)
        if not 0 <= self.lowest < self.highest <= 2:
            raise ArgumentError(
                "The caps on 1 + cosine must satisfy 0 <= lowest < highest <= 2; "
                f"got {self.lowest!r} and {self.highest!r}."
            )
        if self.score_range < 1:
            raise ArgumentError("The caps are closer than one grid step; move them apart.")
        squares = np.einsum("ij,ij->i", self.candidates, self.candidates, dtype=np.int64)
        if squares.max(initial=0) > self.norm**2:
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
        """Largest contribution of one example to one score."""
        low, high = self.caps
        return high - low

    def __call__(self, rows: RawRows, labels: Labels) -> Integers:
        """(candidates, classes) scores."""
        low, high = self.caps
        mapped = self.features.lattice(rows, self.norm)
        return class_similarity(
            mapped, labels, self.classes, self.candidates, low, high, precision=self.precision
        )
