"""The gradient of a softmax loss, summed over all rows, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dptransfer.data.embeddings import Labels
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import over_chunks
from dptransfer.features.lattice import clipped_lattice
from dptransfer.privacy import Relation
from dptransfer.queries.base import Integers, RawRows

ROW_NORM = 2**16
"""Grid norm of the rows; with residuals of grid norm 2¹⁴ one example moves the sum by at most 2³⁰ steps."""

_RESIDUAL_NORM = 2**14
_EXACT = 2**52
_LOGIT_BITS = 10
_LOGIT_DEPTH = 24  # exp(−24) is below the table's resolution

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SoftmaxGradient:
    """Σ over rows of clip(softmax(logits(x)) − onehot(y)) ⊗ x, for logits offset + linear·x − ½ precision·x².

    Releases:      a (classes, dimension) matrix.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   L2. A row's contribution is a product of a vector of norm ≤ 1 (the residual, clipped) and
                   one of norm ≤ 1 (the mapped row), so its Frobenius norm is at most 1. Add/remove: 1.
                   Replace: 2.
    Assumes:       linear, precision and offset are public or released; labels in 0..classes−1; a feature map
                   that works row by row.
    Reference:     closed form of per-example clipping for softmax heads; Abadi et al. (2016) for clipped
                   gradients.

    Exactness: a row's residual must not depend, even in its last bit, on the rows next to it. Logits are
    integer products that stay below 2⁵², so float64 gets them right in any order; the exponential is looked
    up in a table of integers at 2⁻¹⁰ steps of the logit, rather than computed by a vector routine whose tail
    may round otherwise; sums over classes are exact, and the rest is elementwise.

    Attributes:
        features: map of the rows.
        linear: (classes, dimension).
        offset: (classes,).
        precision: (classes, dimension), non-negative.
    """

    features: FittedFeatures
    linear: FloatArray
    offset: FloatArray
    precision: FloatArray

    label = "softmax gradient"
    grid = ROW_NORM * _RESIDUAL_NORM

    @property
    def shape(self) -> tuple[int, int]:
        """(classes, dimension)."""
        return len(self.offset), self.features.dimension

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one."""
        return 1.0 if relation is Relation.ADD_REMOVE else 2.0

    def __call__(self, rows: RawRows, labels: Labels) -> Integers:
        """The summed gradient in steps of 2⁻³⁰."""
        linear, linear_scale = _integer_matrix(
            self.linear, np.linalg.norm(self.linear, axis=1).max(), ROW_NORM
        )
        square, square_scale = _integer_matrix(self.precision, np.abs(self.precision).max(), ROW_NORM**2)
        offset = np.rint(self.offset * 2.0**_LOGIT_BITS)

        def part(chunk: slice) -> Integers:
            mapped = self.features.lattice(rows[chunk], ROW_NORM).astype(np.float64)
            logits = np.rint((mapped @ linear.T) * (2.0**_LOGIT_BITS / linear_scale))
            logits -= np.rint((mapped * mapped) @ square.T * (0.5 * 2.0**_LOGIT_BITS / square_scale))
            residual = _probabilities(logits + offset)
            residual[np.arange(len(residual)), labels[chunk]] -= 1.0
            clipped = clipped_lattice(residual, _RESIDUAL_NORM, clip=1.0).astype(np.float64)
            # Products of at most 2³⁰, a few thousand rows at a time: exact in float64.
            return (clipped.T @ mapped).astype(np.int64)

        gradient = np.zeros(self.shape, dtype=np.int64)
        for summand in over_chunks(part, len(rows), self.features.input_dimension):
            gradient += summand
        return gradient


def _integer_matrix(matrix: FloatArray, largest: float, row_norm: int) -> tuple[FloatArray, float]:
    """An integer matrix with products below 2⁵² for rows of norm `row_norm`, and what a unit is in them."""
    steps = _EXACT / 2 / row_norm / max(float(largest), 1e-12)
    steps = 2.0 ** np.floor(np.log2(steps))
    return np.trunc(matrix * steps), steps * row_norm


def _probabilities(logits: FloatArray) -> FloatArray:
    """Softmax of integer logits in steps of 2⁻¹⁰, by table; each row a function of itself alone."""
    depth = np.minimum(logits.max(axis=1, keepdims=True) - logits, _LOGIT_DEPTH * 2**_LOGIT_BITS)
    weights = _exponentials()[depth.astype(np.int64)]
    result: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return result


@cache
def _exponentials() -> FloatArray:
    """exp(−t·2⁻¹⁰) in steps of 2⁻⁴⁰, as integers: their sums over classes are exact in float64."""
    steps = np.arange(_LOGIT_DEPTH * 2**_LOGIT_BITS + 1) * 2.0**-_LOGIT_BITS
    return np.rint(np.exp(-steps) * 2.0**40)
