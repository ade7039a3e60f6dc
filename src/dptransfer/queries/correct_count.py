"""How many rows a given classifier gets right: the score of one trial of private tuning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers, Labels
from dptransfer.compute.softmax_gradient import IntegerLogits, largest_coefficient, logit_steps
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import over_chunks
from dptransfer.features.on_lattice import lattice_floats
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.softmax_gradient import ROW_NORM

_SPREAD = 2.0**16  # scores are stretched to this size, so that steps of 2⁻¹⁰ tell any two of them apart


@dataclass(frozen=True, eq=False)
class CorrectCount:
    """The number of rows whose class has the highest score offset + linear·x − ½ precision·x².

    Releases:      one number.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   L2. One example is right or wrong: 1 under either relation.
    Assumes:       a classifier that is public or released; labels in 0..classes−1; a feature map that works
                   row by row. Scores are exact integers, so that a row's being right depends on that row
                   alone.
    Reference:     Papernot and Steinke (2022), Section 2: a trial's score is part of its private output.
    """

    features: FittedFeatures
    linear: Floats
    offset: Floats
    precision: Floats | None = None

    label = "number of examples classified correctly"
    unit = Unit.ROW
    grid = 2**30
    shape = (1,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under either relation."""
        return 1.0

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The count, in steps of 2⁻³⁰."""
        stretch = _SPREAD / max(largest_coefficient(self.linear, self.offset, self.precision), 1e-300)
        precision = None if self.precision is None else self.precision * stretch
        logits = IntegerLogits.of(self.linear * stretch, self.offset * stretch, precision, ROW_NORM)

        def right(chunk: slice) -> int:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            return int((logit_steps(mapped, logits).argmax(axis=0) == labels[chunk]).sum())

        count = sum(over_chunks(right, len(rows), self.features.input_dimension))
        return np.array([count * self.grid], dtype=np.int64)
