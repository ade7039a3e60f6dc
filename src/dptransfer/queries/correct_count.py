"""How many rows a given classifier gets right: the score of one trial of private tuning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.compute.people import grouped
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import over_chunks
from dptransfer.features.on_lattice import lattice_floats
from dptransfer.privacy import Relation
from dptransfer.queries.base import BoundedQuery
from dptransfer.queries.exact_scores import exact_scores
from dptransfer.queries.softmax_gradient import ROW_NORM

_TRIAL_SPREAD = 2.0**16  # scores are stretched to this size, so that steps of 2⁻¹⁰ tell any two of them apart


@dataclass(frozen=True, eq=False)
class CorrectCount(BoundedQuery):
    """The number of rows whose class has the highest score offset + linear·x − ½ precision·x².

    With a prior, prior·x, the highest mean of the softmax of both.

    Releases:      one number.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. One example is right or wrong: 1 under either relation. Persons: one with m rows, k of
                   them right, counts k·min(1, bound/m), so bound under either.
    Assumes:       a classifier that is public or released; labels in 0..classes−1; a feature map that works
                   row by row. Scores are exact integers, so that a row's being right depends on that row
                   alone.
    Reference:     Papernot and Steinke (2022), Section 2: a trial's score is part of its private output.
    """

    features: FittedFeatures
    linear: Floats
    offset: Floats
    precision: Floats | None = None
    prior: Floats | None = None

    label = "number of examples classified correctly"
    grid = 2**30
    shape = (1,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under either relation, for each example that a unit counts as."""
        return self.bound.examples

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The count, in steps of 2⁻³⁰."""
        count = sum(int(right.sum()) for right in self._right(rows, labels))
        return np.array([count * self.grid], dtype=np.int64)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The count, in steps of 2⁻³⁰; a person adds the share that is right times as much as they count."""
        right = np.concatenate([np.zeros(0, dtype=bool), *self._right(rows, labels)])
        groups = grouped(people, np.zeros_like(people))
        counts = np.add.reduceat(right[groups.order], groups.starts[:-1], dtype=np.int64)
        # The quotient is rounded once, and less than half a step up: toward zero it is at most the bound.
        steps = np.minimum(1.0, self.bound.examples / groups.sizes) * self.grid
        return np.array([np.trunc(counts * (steps * (1 - 2.0**-40))).astype(np.int64).sum()], dtype=np.int64)

    def _right(self, rows: AnyArray, labels: Labels) -> Iterator[NDArray[np.bool_]]:
        """For each chunk, which rows are right."""
        scored, _ = exact_scores(self, ROW_NORM, _TRIAL_SPREAD)

        def right(chunk: slice) -> NDArray[np.bool_]:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            own: NDArray[np.bool_] = scored(mapped).argmax(axis=0) == labels[chunk]
            return own

        return over_chunks(right, len(rows), self.features.input_dimension)
