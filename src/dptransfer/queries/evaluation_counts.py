"""What a public or released classifier does on private rows: rows it gets right, gains, and histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.exact import cuda, evaluation_layout, lattice, softmax
from dptransfer.exact.chunks import over_chunks
from dptransfer.exact.evaluation_layout import EvaluationLayout
from dptransfer.exact.feature_map import FittedFeatures, lattice_floats
from dptransfer.exact.sums import Groups
from dptransfer.privacy import Relation
from dptransfer.queries.query import BoundedQuery, RowSums, RowVectors
from dptransfer.queries.softmax_gradient import ROW_NORM

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
        return (lambda rows: softmax.logit_steps(rows, own)), unit
    beside, other = _stretched(head.prior, np.zeros(len(head.prior)), None, norm, spread)

    def depths(rows: Floats, logits: softmax.IntegerLogits, step: float) -> Floats:
        steps: Floats = softmax.logit_steps(rows, logits)
        below: Floats = (steps.max(axis=0) - steps) * step
        return below

    return (lambda rows: softmax.log_mean_softmax(depths(rows, own, unit), depths(rows, beside, other))), 1.0


def _stretched(
    linear: Floats, offset: Floats, precision: Floats | None, norm: int, spread: float
) -> tuple[softmax.IntegerLogits, float]:
    largest = softmax.largest_coefficient(linear, offset, precision)
    stretch = min(spread / max(largest, 1e-307), _MOST_STRETCH)
    bent = None if precision is None else precision * stretch
    return softmax.IntegerLogits.of(linear * stretch, offset * stretch, bent, norm), 2.0**-10 / stretch


_TRIAL_SPREAD = 2.0**16  # scores are stretched to this size, so that steps of 2⁻¹⁰ tell any two of them apart


@dataclass(frozen=True, eq=False)
class CorrectCount(RowSums):
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

    def vectors(self, rows: AnyArray, labels: Labels) -> RowVectors:
        """One if the row is right, else zero, in grid steps."""
        scored, _ = exact_scores(self, ROW_NORM, _TRIAL_SPREAD)

        def right(places: slice | Integers) -> Integers:
            mapped = lattice_floats(self.features, rows[places], ROW_NORM)
            own: NDArray[np.bool_] = scored(mapped).argmax(axis=0) == labels[places]
            return own[:, None] * np.int64(self.grid)

        return right

    def bounded(self, sums: Integers, groups: Groups) -> Integers:
        """For each person the share that is right, times what they count."""
        # The quotient is rounded once, and less than half a step up: toward zero it is at most the bound.
        shares = np.minimum(1.0, self.bound.examples / groups.sizes) * (1 - 2.0**-40)
        return np.trunc(sums * shares[:, None]).astype(np.int64)


_MOST_NATS = 3.0  # of one row: a class that is twenty times as likely as by chance is known


@dataclass(frozen=True, eq=False)
class LikelihoodGain(RowSums):
    """Σ over rows of log(classes · p_y) ÷ most, clipped to [−1, 1], for p = softmax(linear · x).

    `most` is log(classes), which no row exceeds, or 3 where that is less. A head that knows the classes has a
    mean near a half, one that knows nothing a negative one: it is sure of what is wrong.

    Releases:      one number.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. Add/remove: a row adds a number in [−1, 1], so 1. Replace: two such numbers differ by
                   at most 2. Persons: one with m rows adds their sum times min(1, bound/m), a number in
                   [−bound, bound], so bound and 2·bound.
    Assumes:       a head that is public or released; labels in 0..classes−1; a map that works row by row.
                   Exact: logits are whole numbers, and softmax and logarithm are functions of one row alone
                   (`exact.softmax`); the gain is rounded toward zero after the clip.
    Reference:     docs/methods/public-prior.md says what it is used for.

    Attributes:
        features: map of the rows.
        linear: (classes, dimension).
    """

    features: FittedFeatures
    linear: Floats

    label = "likelihood gain"
    grid = 2**lattice.SUM_BITS
    shape = (1,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)

    def bounded(self, sums: Integers, groups: Groups) -> Integers:
        """For each person the mean of their rows, times what they count."""
        # The quotient is rounded, by far less than a hair, and the product toward zero.
        shares = np.minimum(1.0, self.bound.examples / groups.sizes * (1 - 2.0**-40))
        return np.trunc(sums * shares[:, None]).astype(np.int64)

    def vectors(self, rows: AnyArray, labels: Labels) -> RowVectors:
        """The gain of each row, in grid steps."""
        logits = softmax.IntegerLogits.coarse(self.linear, np.zeros(len(self.linear)), ROW_NORM)
        blind = math.log(len(self.linear))
        most = min(blind, _MOST_NATS)

        def gains(places: slice | Integers) -> Integers:
            found = softmax.logit_steps(lattice_floats(self.features, rows[places], ROW_NORM), logits)
            depth = (found.max(axis=0) - found).astype(np.float64) * softmax.LOGIT_STEP
            own = labels[places]
            likelihood = softmax.log_mean_softmax(depth, depth)[own, np.arange(len(own))]
            gain = np.clip((likelihood + blind) / most, -1.0, 1.0)
            steps: Integers = np.trunc(gain * self.grid).astype(np.int64)
            return steps[:, None]

        return gains


_SPREAD = 2.0**32  # scores are stretched to this size, so that steps of 2⁻¹⁰ tell any two of them apart
_LONG_ROW, _QUADRATIC_ROW = 2**24, 2**16  # grid norms of rows: squares of coordinates need the room


@dataclass(frozen=True, eq=False)
class EvaluationCounts(BoundedQuery):
    """Stacked histograms of what the classifier offset + linear·x − ½ precision·x² says of each row.

    Releases:      one vector: every block of `EvaluationLayout`, one behind the other.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. An example adds to each block a vector of norm at most 1, times the block's weight: a
                   one in one cell; two parts that add up to one; or five numbers from 0 to 1, over √5. The
                   weights' squares add up to at most 1, so add/remove: 1. Replace: in a block of cells two
                   vectors without negative entries are at most √2 apart, in that of five numbers 1; with s
                   for the square of its weight, √(2(1 − s) + s) = √(2 − s). Persons: with m rows, each of
                   them counts min(1, bound/m), so that in every block their sum is bound times a mean of
                   such vectors, at most: bound, and bound·√(2 − s).
    Assumes:       a classifier that is public or released; labels in 0..classes−1; a feature map that works
                   row by row. A row's scores are exact integer products and all that follows is elementwise,
                   so what it adds depends, to the last bit, on that row and its person's number of rows.
    Reference:     McKenna et al. (2018), "Optimizing error of high-dimensional statistical queries", for
                   stacked workloads with weights; the blocks and their shares are ours.

    Attributes:
        features: map of the rows.
        linear: (classes, dimension).
        offset: (classes,).
        precision: (classes, dimension), or None for scores that are linear in x.
        temperature: what scores are divided by before the softmax.
        directions: whether rows are scored by their direction alone, as by heads that take cosines.
        prior: (classes, dimension) logits of a second head, where scores are the logarithms of the mean of
            both softmaxes; None for scores as they are.
    """

    features: FittedFeatures
    linear: Floats
    offset: Floats
    precision: Floats | None = None
    temperature: float = 1.0
    directions: bool = False
    prior: Floats | None = None

    label = "test results of the classifier"
    grid = evaluation_layout.GRID

    @cached_property
    def layout(self) -> EvaluationLayout:
        """What lies where in the answer."""
        return EvaluationLayout(len(self.offset))

    @property
    def shape(self) -> tuple[int]:
        """(cells of all blocks,)."""
        return (self.layout.size,)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, √(2 − s) under replace-one, for each example that a unit counts as."""
        return self.bound.examples * self.layout.reach(relation)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The histograms in steps of 2⁻³⁰."""
        return self._sum(rows, labels, np.ones(len(labels)))

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The histograms in steps of 2⁻³⁰; the rows of a person share what one person counts."""
        counts = np.bincount(people, minlength=1)[people]
        # The quotient is rounded twice, by less than this in all: what is rounded toward zero is not more.
        return self._sum(rows, labels, np.minimum(1.0, self.bound.examples / counts * (1 - 2.0**-40)))

    def _sum(self, rows: AnyArray, labels: Labels, voices: Floats) -> Integers:
        """What the rows add, each times its voice and rounded toward zero."""
        norm = _LONG_ROW if self.precision is None else _QUADRATIC_ROW
        scored, step = exact_scores(self, norm, _SPREAD)
        answer = np.zeros(self.shape, dtype=np.int64)

        def part(chunk: slice) -> Integers:
            mapped = lattice_floats(self.features, rows[chunk], norm)
            steps = np.full(len(mapped), step)
            if self.directions:
                squares = np.einsum("ij,ij->i", mapped, mapped)  # at most 2⁴⁸, so exact in any order
                steps *= norm / cuda.square_root(np.maximum(squares, 1.0))
            own = np.zeros(self.shape, dtype=np.int64)
            for cells, amounts in self._entries(scored(mapped), steps, labels[chunk]):
                np.add.at(own, cells, np.trunc(amounts * voices[chunk]).astype(np.int64))
            return own

        for own in over_chunks(part, len(rows), max(self.features.input_dimension, 8 * len(self.offset))):
            answer += own
        return answer

    def _entries(self, scores: Floats, steps: Floats, labels: Labels) -> Iterator[tuple[Integers, Any]]:
        """Cells that rows add to, and by how many grid steps; (classes, rows) scores are in a row's steps."""
        blocks = self.layout.blocks
        columns = np.arange(len(labels))
        chosen = scores.argmax(axis=0)
        wrong = (chosen != labels).astype(np.int64)
        below = scores.max(axis=0) - scores

        def once(name: str, cells: Integers) -> tuple[Integers, int]:
            return blocks[name].start + cells, blocks[name].weight

        yield once("answers", wrong)
        yield once("by_class", 2 * labels + wrong)
        yield once("by_prediction", 2 * chosen + wrong)
        if "confusion" in blocks:
            yield once("confusion", len(self.offset) * labels + chosen)
        for position, factor in enumerate(evaluation_layout.TEMPERATURES):
            chances = softmax.softmax(below * np.minimum(steps / (self.temperature * factor), 1e200))
            confidence = chances[chosen, columns]
            cell, weight = once("confidences", np.full(len(labels), position))
            yield cell, np.trunc(weight * confidence)
            if factor != 1:
                continue
            own = np.where(wrong, chances[labels, columns], 1.0)
            yield once("chances", np.searchsorted(evaluation_layout.CHANCE_EDGES, own, side="right"))
            place = confidence * (len(evaluation_layout.CONFIDENCE_KNOTS) - 1)
            knot = np.minimum(place.astype(np.int64), len(evaluation_layout.CONFIDENCE_KNOTS) - 2)
            above = np.clip(place - knot, 0.0, 1.0)
            cell, weight = once("reliability", 2 * knot + wrong)
            yield cell, np.trunc(weight * (1 - above))
            yield cell + 2, np.trunc(weight * above)
