"""Sums of x xᵀ over rows: of all rows, of each class's rows, or weighted by a head's probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers, Labels
from dptransfer.compute.softmax_gradient import IntegerLogits, probabilities
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import over_chunks
from dptransfer.features.lattice import clipped_lattice
from dptransfer.features.on_lattice import lattice_floats
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.softmax_gradient import ROW_NORM

_FINE_NORM = 2**14  # grid norm of rows in the products
_WEIGHT_NORM = 2**8
_DIAGONAL, _OFF_DIAGONAL = 29, 41  # 41/29 is just below √2


class Weights(Protocol):
    """Non-negative weights of each row, one per block, of L2 norm at most 1 (as integers, at most 2⁸)."""

    @property
    def blocks(self) -> int:
        """How many moments are taken."""

    def __call__(self, rows: Floats, labels: Labels) -> Floats:
        """(rows, blocks) integer weights; each row's a function of that row alone."""


@dataclass(frozen=True)
class OfAll:
    """One block: every row counts 1."""

    blocks: int = 1

    def __call__(self, rows: Floats, labels: Labels) -> Floats:
        """Ones."""
        return np.full((len(rows), 1), float(_WEIGHT_NORM))


@dataclass(frozen=True)
class OfClasses:
    """One block per class: a row counts 1 in its own."""

    blocks: int

    def __call__(self, rows: Floats, labels: Labels) -> Floats:
        """Ones at the labels."""
        return _WEIGHT_NORM * np.eye(self.blocks)[labels]


@dataclass(frozen=True, eq=False)
class OfProbabilities:
    """One block per class: a row counts its probability under a linear softmax head."""

    linear: Floats

    def __post_init__(self) -> None:
        """Refuse weights that no logits can be made of, before rows are read."""
        _ = self._logits

    @property
    def blocks(self) -> int:
        """One per class."""
        return len(self.linear)

    @cached_property
    def _logits(self) -> IntegerLogits:
        return IntegerLogits.coarse(self.linear, np.zeros(len(self.linear)), ROW_NORM)

    def __call__(self, rows: Floats, labels: Labels) -> Floats:
        """The probabilities, whose norm is at most 1, rounded toward zero."""
        return clipped_lattice(probabilities(rows, self._logits).T, _WEIGHT_NORM, clip=1.0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Σ over rows of w_b(x) · x xᵀ for each block b, rows of norm at most 1, weights of norm at most 1.

    Releases:      (blocks, d(d+1)/2): the upper triangles, in units of 1/29; `symmetric` restores the
                   matrices.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   L2. The answer holds 29·M_ii and 41·M_ij (i < j) for a symmetric M, so its norm is at most
                   29·‖M‖_F, as 41² ≤ 2·29²: noise on it is noise of √2 less on pairs that stand for two
                   entries. One example moves the blocks by w ⊗ x xᵀ, of norm ‖w‖·‖x‖² ≤ 1: add/remove 29
                   units. Replace: two such answers have a non-negative inner product (weights and squares
                   are), so they are at most √2 apart: 29·√2.
    Assumes:       classes declared in advance; weights from public or released values; a feature map that
                   works row by row. Sums that leave int64 wrap around, which is a function of the exact
                   answer plus noise and so costs utility, beyond three million rows, but no privacy.
    Reference:     Mehta et al. (2023) for the moments of features; symmetric noise as in Dwork et al. (2014),
                   "Analyze Gauss".
    """

    features: FittedFeatures
    weights: Weights

    label = "second moments"
    unit = Unit.ROW
    grid = _FINE_NORM**2 * _WEIGHT_NORM

    @property
    def shape(self) -> tuple[int, int]:
        """(blocks, upper triangle)."""
        width = self.features.dimension
        return self.weights.blocks, width * (width + 1) // 2

    def l2_sensitivity(self, relation: Relation) -> float:
        """29 under add/remove, 29·√2 under replace-one."""
        return _DIAGONAL * (1.0 if relation is Relation.ADD_REMOVE else math.sqrt(2))

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """The upper triangles, in grid steps."""
        width = self.features.dimension
        above = np.triu_indices(width)
        moments = np.zeros((self.weights.blocks, width, width), dtype=np.int64)

        def part(chunk: slice) -> list[tuple[int, Integers]]:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            weights = self.weights(mapped, labels[chunk])
            fine = np.trunc(mapped * (_FINE_NORM / ROW_NORM))  # toward zero: norms only shrink
            # Products of at most 2²⁸·2⁸, at most 2¹⁷ rows at a time: exact in float64.
            return [(block, _moment(fine, weights[:, block])) for block in range(weights.shape[1])]

        for found in over_chunks(part, len(rows), max(2, self.features.input_dimension)):
            for block, moment in found:
                moments[block] += moment
        scale = np.where(above[0] == above[1], _DIAGONAL, _OFF_DIAGONAL)
        return moments[:, above[0], above[1]] * scale

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """‖w‖·√(29²·Σ xᵢ⁴ + 41²·Σ_{i<j} xᵢ²xⱼ²), where the second sum is half of (Σ xᵢ²)² − Σ xᵢ⁴."""

        def norms(chunk: slice) -> Floats:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            squares = np.trunc(mapped * (_FINE_NORM / ROW_NORM)) ** 2
            weights = np.linalg.norm(self.weights(mapped, labels[chunk]), axis=1)
            fourth = (squares**2).sum(axis=1)
            mixed = (squares.sum(axis=1) ** 2 - fourth) / 2
            own: Floats = weights * np.sqrt(_DIAGONAL**2 * fourth + _OFF_DIAGONAL**2 * mixed) / self.grid
            return own

        found = over_chunks(norms, len(rows), self.features.input_dimension)
        return np.concatenate([np.zeros(0), *found])

    def symmetric(self, answer: Floats) -> Floats:
        """(blocks, d, d) symmetric matrices from a noisy answer; noise on the diagonal has its scale ÷ 29."""
        width = self.features.dimension
        first, second = np.triu_indices(width)
        values = answer / np.where(first == second, _DIAGONAL, _OFF_DIAGONAL)
        matrices = np.zeros((len(answer), width, width))
        matrices[:, first, second] = values
        matrices[:, second, first] = values
        return matrices

    def entry_scale(self, scale: float) -> float:
        """Standard deviation of a diagonal entry's noise, from that of the answer's coordinates."""
        return scale / _DIAGONAL

    def noise_norm(self, scale: float) -> float:
        """About the spectral norm of a matrix's noise, 2·entry scale·√width: what a ridge is measured in."""
        return 2 * self.entry_scale(scale) * math.sqrt(self.features.dimension)


def _moment(rows: Floats, weights: Floats) -> Integers:
    """Σ w·x xᵀ over the rows that count."""
    counted = weights != 0
    rows, weights = rows[counted], weights[counted]
    return ((rows * weights[:, None]).T @ rows).astype(np.int64)
