"""Sums of x xᵀ over rows: of all rows, of each class's rows, or weighted by a head's probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.exact import chunks, feature_map, lattice, softmax, sums
from dptransfer.exact import sums as exact_sums
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.query import BoundedQuery
from dptransfer.queries.softmax_gradient import ROW_NORM

_FINE_NORM = 2**14  # grid norm of rows in the products
_WEIGHT_NORM = 2**8
_FINE_NORM_OF_PEOPLE, _WEIGHT_NORM_OF_PEOPLE = 2**12, 2**13  # weights are scaled down, and need more room
_PIECE = 2**12  # rows at a time of a person with many
_MOST_PAIRED = 2**8  # rows of a person whose norm is found by pairs
_DIAGONAL, _OFF_DIAGONAL = 29, 41  # 41/29 is just below √2


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
    def _logits(self) -> softmax.IntegerLogits:
        return softmax.IntegerLogits.coarse(self.linear, np.zeros(len(self.linear)), ROW_NORM)

    def __call__(self, rows: Floats, labels: Labels) -> Floats:
        """The probabilities, whose norm is at most 1, rounded toward zero."""
        found = softmax.probabilities(rows, self._logits).T
        return lattice.clipped_lattice(found, _WEIGHT_NORM, clip=1.0).astype(np.float64)


Weights: TypeAlias = OfAll | OfClasses | OfProbabilities
"""Non-negative weights of each row, one per block, of L2 norm at most 1 (as integers, at most 2⁸)."""


@dataclass(frozen=True, eq=False)
class SecondMoments(BoundedQuery):
    """Σ over rows of w_b(x) · x xᵀ for each block b, rows of norm at most 1, weights of norm at most 1.

    Releases:      (blocks, d(d+1)/2): the upper triangles, in units of 1/29; `symmetric` restores the
                   matrices.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. The answer holds 29·M_ii and 41·M_ij (i < j) for a symmetric M, so its norm is at most
                   29·‖M‖_F, as 41² ≤ 2·29²: noise on it is noise of √2 less on pairs that stand for two
                   entries. One example moves the blocks by w ⊗ x xᵀ, of norm ‖w‖·‖x‖² ≤ 1: add/remove 29
                   units. Replace: two such answers have a non-negative inner product (weights and squares
                   are), so they are at most √2 apart: 29·√2. Persons: bound times that. One's moments
                   M = Σ w_i ⊗ x_i x_iᵀ have the squared norm Σ_ij (w_i·w_j)(x_i·x_j)², in which no term is
                   negative; their weights are multiplied by min(1, bound ÷ norm) and rounded toward zero,
                   and smaller weights make every term smaller. So the norm is at most bound, and inner
                   products stay non-negative. Of persons with more than 2⁸ rows M itself is scaled down;
                   rounding it, by less than a step in each entry, is taken off the bound beforehand.
    Assumes:       classes declared in advance; weights from public or released values; a feature map that
                   works row by row. Sums that leave int64 wrap around, which is a function of the exact
                   answer plus noise and so costs utility, beyond three million rows, but no privacy.
    Reference:     Mehta et al. (2023) for the moments of features; symmetric noise as in Dwork et al. (2014),
                   "Analyze Gauss".
    """

    features: feature_map.FittedFeatures
    weights: Weights

    label = "second moments"

    @property
    def grid(self) -> int:
        """Steps per unit: 2³⁶, and 2³⁷ for persons."""
        if self.unit is Unit.ROW:
            return _FINE_NORM**2 * _WEIGHT_NORM
        return _FINE_NORM_OF_PEOPLE**2 * _WEIGHT_NORM_OF_PEOPLE

    @property
    def shape(self) -> tuple[int, int]:
        """(blocks, upper triangle)."""
        width = self.features.dimension
        return self.weights.blocks, width * (width + 1) // 2

    def l2_sensitivity(self, relation: Relation) -> float:
        """29 under add/remove, 29·√2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * _DIAGONAL * (1.0 if relation is Relation.ADD_REMOVE else math.sqrt(2))

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The upper triangles, in grid steps."""

        def part(chunk: slice) -> list[Integers]:
            mapped = feature_map.lattice_floats(self.features, rows[chunk], ROW_NORM)
            # Products of at most 2²⁸·2⁸, at most 2¹⁷ rows at a time: exact in float64.
            return _moments(_coarser(mapped, _FINE_NORM), self.weights(mapped, labels[chunk]))

        return self._triangles(chunks.over_chunks(part, len(rows), max(2, self.features.input_dimension)))

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The upper triangles, in grid steps, of each person's moments scaled down to the bound."""
        width = max(4, -(-self.features.input_dimension // 2))  # 2¹⁵ rows and one person's at most: exact

        def read(own: Integers) -> tuple[Floats, Floats]:
            chosen = exact_sums.consecutive(own)
            mapped = feature_map.lattice_floats(self.features, rows[chosen], ROW_NORM)
            weights = self.weights(mapped, labels[chosen]) * (_WEIGHT_NORM_OF_PEOPLE // _WEIGHT_NORM)
            return _coarser(mapped, _FINE_NORM_OF_PEOPLE), weights

        def whole(groups: sums.Groups) -> list[Integers]:
            """The moments of one person with many rows, some at a time."""
            found = np.zeros((self.weights.blocks, *2 * (self.features.dimension,)), dtype=np.int64)
            for start in range(0, len(groups.order), _PIECE):
                found += _moments(*read(groups.order[start : start + _PIECE]))
            most = self.bound.examples * self.grid - math.sqrt(2 * found.size)
            return list(sums.scaled_down(found.reshape(1, -1), groups, self.grid, most).reshape(found.shape))

        def part(groups: sums.Groups) -> Iterator[list[Integers]]:
            few, many = groups.up_to(max(_MOST_PAIRED, int(self.bound.examples)))
            fine, weights = read(few.order)
            self._scale_down(weights, fine, few.sizes)
            yield _moments(fine, weights)
            yield from (whole(many.persons(i, i + 1)) for i in range(len(many.sizes)))

        found = exact_sums.over_people(lambda groups: list(part(groups)), exact_sums.by_size(people), width)
        return self._triangles(own for parts in found for own in parts)

    def _scale_down(self, weights: Floats, fine: Floats, sizes: Integers) -> None:
        """Scale down the weights, in place, of persons in order of size whose moments are too long."""
        begin = 0
        for start, stop in exact_sums.alike(sizes):
            persons, rows = stop - start, int(sizes[start])
            end = begin + persons * rows
            if rows > self.bound.examples:  # else it is within the bound as it is
                own = weights[begin:end].reshape(persons, rows, -1)
                squares = exact_sums.inner_products(fine[begin:end].reshape(persons, rows, -1)) ** 2
                norms = exact_sums.norms_by_pairs(squares, exact_sums.inner_products(own), self.grid)
                own *= np.minimum(1.0, self.bound.examples * self.grid / norms)[:, None, None]
                np.trunc(own, out=own)
            begin = end

    def _triangles(self, found: Iterable[list[Integers]]) -> Integers:
        """The sum of moments by block, as upper triangles."""
        width = self.features.dimension
        moments = np.zeros((self.weights.blocks, width, width), dtype=np.int64)
        for each in found:
            for moment, own in zip(moments, each, strict=True):
                moment += own
        first, second = np.triu_indices(width)
        return moments[:, first, second] * np.where(first == second, _DIAGONAL, _OFF_DIAGONAL)

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """‖w‖·√(29²·Σ xᵢ⁴ + 41²·Σ_{i<j} xᵢ²xⱼ²), where the second sum is half of (Σ xᵢ²)² − Σ xᵢ⁴."""

        def norms(chunk: slice) -> Floats:
            mapped = feature_map.lattice_floats(self.features, rows[chunk], ROW_NORM)
            squares = _coarser(mapped, _FINE_NORM) ** 2
            weights = np.linalg.norm(self.weights(mapped, labels[chunk]), axis=1)
            fourth = (squares**2).sum(axis=1)
            mixed = (squares.sum(axis=1) ** 2 - fourth) / 2
            own: Floats = weights * np.sqrt(_DIAGONAL**2 * fourth + _OFF_DIAGONAL**2 * mixed) / self.grid
            return own

        return chunks.concatenate_chunks(norms, len(rows), self.features.input_dimension)

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


def _coarser(mapped: Floats, norm: int) -> Floats:
    """Integer rows on a grid of this norm; toward zero, so that norms only shrink."""
    return np.trunc(mapped * (norm / ROW_NORM))


def _moments(rows: Floats, weights: Floats) -> list[Integers]:
    """Σ w·x xᵀ for each block, over the rows that count there."""
    found = []
    for own in weights.T:
        counted = own != 0
        chosen = rows[counted]
        found.append(((chosen * own[counted, None]).T @ chosen).astype(np.int64))
    return found
