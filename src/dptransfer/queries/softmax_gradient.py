"""The gradient of a softmax loss, summed over rows, each row's part clipped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import iadd
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.compute.device import there
from dptransfer.compute.device_sample import MOST_RECORDED, DeviceSample
from dptransfer.compute.exact_softmax import IntegerLogits
from dptransfer.compute.people import by_size, consecutive, over_people, whole_people
from dptransfer.compute.person_gradients import FINE_RESIDUAL_NORM, MOST_PERSON_ROWS, PersonGradients
from dptransfer.compute.softmax_gradient import (
    MOST_ROWS,
    RESIDUAL_NORM,
    clipped_gradient,
    residual_lattice,
    residuals,
    whole_numbers,
)
from dptransfer.errors import ArgumentError
from dptransfer.features import FittedFeatures
from dptransfer.features.chunks import Chosen, in_cache, over_chunks
from dptransfer.features.lattice import clipped_lattice
from dptransfer.features.on_lattice import lattice_floats
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.base import BoundedQuery
from dptransfer.queries.contributions import whole_norms

ROW_NORM = 2**16
"""Grid norm of the rows; with residuals of grid norm 2¹⁴ one example moves the sum by at most 2³⁰ steps."""

_AXIS_NORM = 2**34  # of an integer projection axis: products with rows stay below 2⁵²


@dataclass(frozen=True, eq=False)
class SoftmaxGradient(BoundedQuery):
    """Σ over rows of clip(softmax(logits(x)) − onehot(y)) ⊗ x, for logits offset + linear·x − ½ precision·x².

    With `weights`, the part of a row is multiplied with that of its class y.

    Releases:      a (classes, dimension) matrix, or (classes, axes) with a projection; in units of `clip`.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2, in units of `clip`. A row's contribution is a product of a vector of norm ≤ clip (the
                   residual, clipped) and one of norm ≤ 1 (the mapped row, or its projection, which is clipped
                   again), so its Frobenius norm is at most clip; a weight, at most 1, makes none longer.
                   Add/remove: 1. Replace: 2. Persons: the sum of one's contributions, weights and all, is
                   scaled to a norm of at most bound·clip, so bound and 2·bound; see
                   `compute.person_gradients`. The clip may be chosen anew for every step from public or
                   released values: in its own units neither the sensitivity nor the noise changes.
    Assumes:       linear, precision, offset, clip, projection and weights are public or released; weights in
                   (0, 1] (checked); labels in 0..classes−1; a feature map that works row by row.
    Reference:     closed form of per-example clipping for softmax heads; Abadi et al. (2016) for clipped
                   gradients; Golatkar et al. (2022), Section 3.2, for clip and projection from public data;
                   Zhu and Zhang, "Mean Estimation Strikes Back", Definition 2.4, for a prior beside the head,
                   with the mean of two softmaxes where their sum is printed, which is no probability.

    Exactness: see `compute.softmax_gradient`. Residuals of persons' rows have six bits more, so that they can
    be scaled down, and the answer is in steps of 2⁻³⁶.

    Attributes:
        features: map of the rows.
        linear: (classes, dimension).
        offset: (classes,).
        precision: (classes, dimension), non-negative; None for logits that are linear in x.
        clip: norm that a row's gradient is clipped to.
        projection: (dimension, axes) with orthonormal columns, or None.
        prior: (classes, dimension) logits of a fixed second head; the loss is then that of the mean of both
            softmaxes, and a row's residual has the weight p/(p + r) before the clip, with p and r for what
            head and prior give its class. None for the softmax loss itself.
        along: the gradient is taken along the first so many coordinates, and the others only score; None for
            all. Part of a row is no longer than the row.
        weights: (classes,) of the rows of each class, after the clip and before a person's bound: who has
            rows of several classes then has not all of their one voice in the largest. None for ones.
    """

    features: FittedFeatures
    linear: Floats
    offset: Floats
    precision: Floats | None = None
    clip: float = 1.0
    projection: Floats | None = None
    prior: Floats | None = None
    along: int | None = None
    weights: Floats | None = None

    label = "softmax gradient"

    def __post_init__(self) -> None:
        """Refuse a clip that is none, and weights that the sensitivity does not cover."""
        _check.positive("clip", self.clip)
        if self.weights is not None and (
            self.weights.shape != self.offset.shape or not np.all((self.weights > 0) & (self.weights <= 1))
        ):
            raise ArgumentError("Weights must be one for each class, in (0, 1]; divide them by the largest.")

    @property
    def grid(self) -> int:
        """Steps per clip: 2³⁰, and 2³⁶ for persons."""
        return ROW_NORM * (RESIDUAL_NORM if self.unit is Unit.ROW else FINE_RESIDUAL_NORM)

    @property
    def shape(self) -> tuple[int, int]:
        """(classes, dimension), or (classes, axes)."""
        if self.projection is not None:
            return len(self.offset), self.projection.shape[1]
        return len(self.offset), self.features.dimension if self.along is None else self.along

    @property
    def logits(self) -> IntegerLogits:
        """The logits in integers: coarse ones are fine enough for a gradient, where they are linear in x."""
        if self.precision is None:
            own = IntegerLogits.coarse(self.linear, self.offset, ROW_NORM)
        else:
            own = IntegerLogits.of(self.linear, self.offset, self.precision, ROW_NORM)
        return own if self.prior is None else replace(own, beside=self._beside)

    @cached_property
    def _beside(self) -> IntegerLogits:
        assert self.prior is not None
        return IntegerLogits.coarse(self.prior, np.zeros(len(self.prior)), ROW_NORM)

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)

    def of_rows(self, rows: Any, labels: Labels) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰; rows on a GPU (see `methods.head_rows`) stay there."""
        logits = self.logits
        if isinstance(rows, DeviceSample):  # pragma: no cover — GPU
            return self._of_sample(rows, logits)
        if not isinstance(rows, np.ndarray | Chosen):
            return self._on_device(rows, labels, logits)

        def part(chunk: slice) -> Any:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            inputs = self._inputs(mapped)
            return clipped_gradient(mapped, labels[chunk], logits, self.clip, inputs, self.weights)

        width = self.features.input_dimension

        def summed(chunk: slice) -> Integers:
            return whole_numbers(reduce(iadd, map(part, in_cache(chunk, width))))

        gradient = np.zeros(self.shape, dtype=np.int64)
        # Few large chunks, so that few threads are woken and few sums added, in pieces that fit the cache.
        for summand in over_chunks(summed, len(rows), -(-width // 4)):
            gradient += summand
        return gradient

    def of_people(self, rows: Any, labels: Labels, people: People) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁶, that of each person scaled down to the bound."""
        gradients, groups = self.person_gradients(rows, labels, self.clip), by_size(people)
        if isinstance(rows, np.ndarray):
            # Products want larger chunks than elementwise passes do, and no more rows than are exact.
            parts = over_people(gradients.bounded, groups, max(4, -(-self.features.input_dimension // 8)))
        else:
            parts = map(gradients.bounded, whole_people(groups, MOST_PERSON_ROWS // 2))
        return sum(parts, start=np.zeros(self.shape, dtype=np.int64))

    def person_gradients(self, rows: AnyArray, labels: Labels, clip: float) -> PersonGradients:
        """The gradients of persons whose rows are among these, each row's part clipped to `clip`."""

        def read(own: Integers) -> tuple[Any, Any, Any]:
            chosen = consecutive(own)
            chosen = chosen if isinstance(chosen, slice) else there(chosen, rows)
            mapped = rows[chosen]
            if isinstance(rows, np.ndarray):
                mapped = lattice_floats(self.features, mapped, ROW_NORM)
            return mapped, labels[chosen], self._inputs(mapped)

        bound = self.bound.examples
        return PersonGradients(read, self.logits, clip, self.shape, ROW_NORM, bound, self.weights)

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """A contribution is a product of two integer vectors, so its norm is that of theirs."""
        logits = self.logits

        def norms(chunk: slice) -> Floats:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            found = residuals(mapped, labels[chunk], logits)
            residual = residual_lattice(found, self.clip, weights=self.weights)
            return whole_norms(residual.T) * whole_norms(self._inputs(mapped)) / self.grid

        found = over_chunks(norms, len(rows), self.features.input_dimension)
        return np.concatenate([np.zeros(0), *found])

    def _of_sample(self, sample: DeviceSample, logits: IntegerLogits) -> Integers:  # pragma: no cover — GPU
        """That of a sample on a GPU; recorded, where it is a function of weights and sample alone."""
        special = (self.precision, self.projection, self.prior, self.along, self.weights)
        if len(sample) > MOST_RECORDED or self.offset.any() or any(one is not None for one in special):
            return self._on_device(*sample.taken(), logits)
        return sample.recorded_gradient(logits, self.clip)

    def _on_device(self, rows: Any, labels: Any, logits: IntegerLogits) -> Integers:
        gradient = np.zeros(self.shape, dtype=np.int64)
        for start in range(0, len(rows), MOST_ROWS):
            chunk = slice(start, start + MOST_ROWS)
            inputs = self._inputs(rows[chunk])
            summand = clipped_gradient(rows[chunk], labels[chunk], logits, self.clip, inputs, self.weights)
            gradient += whole_numbers(summand)
        return gradient

    def _inputs(self, mapped: Any) -> Any:
        """What residuals are multiplied with: the rows, their first coordinates, or their projection."""
        if self.projection is not None:
            return self._projected(mapped)
        return mapped if self.along is None else mapped[:, : self.along]

    @cached_property
    def _axes(self) -> Floats:
        """The projection's axes as integers of norm at most 2³⁴; the same for every chunk of rows."""
        assert self.projection is not None
        return clipped_lattice(self.projection.T, _AXIS_NORM, clip=1.0).T.astype(np.float64)

    def _projected(self, mapped: Floats) -> Floats:
        """Integer rows in the projection's axes, of norm at most `ROW_NORM` whatever the axes are."""
        if not isinstance(mapped, np.ndarray):
            raise ArgumentError("A projected gradient runs on the CPU; pass rows as a NumPy array.")
        # Exact: |row · axis| ≤ 2¹⁶ · 2³⁴. The second clip makes up for axes that are not quite orthonormal.
        projected = (mapped @ self._axes) * (1.0 / _AXIS_NORM)
        return clipped_lattice(projected, ROW_NORM, clip=float(ROW_NORM)).astype(np.float64)
