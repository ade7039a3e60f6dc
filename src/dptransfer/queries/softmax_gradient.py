"""Per-example gradient clipping for softmax losses of heads, also with a count of long rows, and of a map."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import iadd
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.errors import ArgumentError
from dptransfer.exact import gradient_sums
from dptransfer.exact.chunks import SelectedRows, concatenate_chunks, in_cache, over_chunks
from dptransfer.exact.cuda import Array, place_beside
from dptransfer.exact.feature_map import FittedFeatures, lattice_floats
from dptransfer.exact.gradient_sums import DeviceSample, PersonGradients, clipped_gradient, residuals
from dptransfer.exact.lattice import SUM_BITS, clipped_lattice
from dptransfer.exact.softmax import IntegerLogits
from dptransfer.exact.sums import Groups, by_size, consecutive, over_people, scaled_down, whole_people
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.query import BoundedQuery, RowSums, RowVectors, whole_norms

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

    Exactness: see `exact.gradient_sums`. Residuals of persons' rows have six bits more, so that they can
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
        checks.positive("clip", self.clip)
        if self.weights is not None and (
            self.weights.shape != self.offset.shape or not np.all((self.weights > 0) & (self.weights <= 1))
        ):
            raise ArgumentError("Weights must be one for each class, in (0, 1]; divide them by the largest.")

    @property
    def grid(self) -> int:
        """Steps per clip: 2³⁰, and 2³⁶ for persons."""
        fine, coarse = gradient_sums.FINE_RESIDUAL_NORM, gradient_sums.RESIDUAL_NORM
        return ROW_NORM * (coarse if self.unit is Unit.ROW else fine)

    @property
    def shape(self) -> tuple[int, int]:
        """(classes, dimension), or (classes, axes)."""
        if self.projection is not None:
            return len(self.offset), self.projection.shape[1]
        return len(self.offset), self.features.dimension if self.along is None else self.along

    @cached_property
    def logits(self) -> IntegerLogits:
        """The logits in integers: coarse ones are fine enough for a gradient, where they are linear in x."""
        if self.precision is None:
            own = IntegerLogits.coarse(self.linear, self.offset, ROW_NORM)
        else:
            own = IntegerLogits.of(self.linear, self.offset, self.precision, ROW_NORM)
        if self.prior is None:
            return own
        return replace(own, beside=IntegerLogits.coarse(self.prior, np.zeros(len(self.prior)), ROW_NORM))

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)

    def of_rows(self, rows: Array, labels: Labels) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰; rows on a GPU (see `methods.heads`) stay there."""
        logits = self.logits
        if isinstance(rows, DeviceSample):  # pragma: no cover — GPU
            return self._of_sample(rows, logits)
        if not isinstance(rows, np.ndarray | SelectedRows):
            return self._on_device(rows, labels, logits)

        def part(chunk: slice) -> Array:
            mapped = lattice_floats(self.features, rows[chunk], ROW_NORM)
            inputs = self._inputs(mapped)
            return clipped_gradient(mapped, labels[chunk], logits, self.clip, inputs, self.weights)

        width = self.features.input_dimension

        def summed(chunk: slice) -> Integers:
            return gradient_sums.whole_numbers(reduce(iadd, map(part, in_cache(chunk, width))))

        gradient = np.zeros(self.shape, dtype=np.int64)
        # Few large chunks, so that few threads are woken and few sums added, in pieces that fit the cache.
        for summand in over_chunks(summed, len(rows), -(-width // 4)):
            gradient += summand
        return gradient

    def of_people(self, rows: Array, labels: Labels, people: People) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁶, that of each person scaled down to the bound."""
        gradients, groups = self.person_gradients(rows, labels, self.clip), by_size(people)
        if isinstance(rows, np.ndarray):
            # Products want larger chunks than elementwise passes do, and no more rows than are exact.
            parts = over_people(gradients.bounded, groups, max(4, -(-self.features.input_dimension // 8)))
        else:
            parts = map(gradients.bounded, whole_people(groups, gradient_sums.MOST_PERSON_ROWS // 2))
        return sum(parts, start=np.zeros(self.shape, dtype=np.int64))

    def person_gradients(self, rows: AnyArray, labels: Labels, clip: float) -> PersonGradients:
        """The gradients of persons whose rows are among these, each row's part clipped to `clip`."""

        def read(own: Integers) -> tuple[Array, Array, Array]:
            chosen = consecutive(own)
            chosen = chosen if isinstance(chosen, slice) else place_beside(chosen, rows)
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
            residual = gradient_sums.residual_lattice(found, self.clip, weights=self.weights)
            return whole_norms(residual.T) * whole_norms(self._inputs(mapped)) / self.grid

        return concatenate_chunks(norms, len(rows), self.features.input_dimension)

    def _of_sample(self, sample: DeviceSample, logits: IntegerLogits) -> Integers:  # pragma: no cover — GPU
        """That of a sample on a GPU; recorded, where it is a function of weights and sample alone."""
        special = (self.precision, self.projection, self.prior, self.along, self.weights)
        is_special = self.offset.any() or any(one is not None for one in special)
        if is_special or len(sample) > gradient_sums.MOST_RECORDED:
            return self._on_device(*sample.select(), logits)
        return sample.recorded_gradient(logits, self.clip)

    def _on_device(self, rows: Array, labels: Array, logits: IntegerLogits) -> Integers:
        gradient = np.zeros(self.shape, dtype=np.int64)
        for start in range(0, len(rows), gradient_sums.MOST_ROWS):
            chunk = slice(start, start + gradient_sums.MOST_ROWS)
            inputs = self._inputs(rows[chunk])
            summand = clipped_gradient(rows[chunk], labels[chunk], logits, self.clip, inputs, self.weights)
            gradient += gradient_sums.whole_numbers(summand)
        return gradient

    def _inputs(self, mapped: Array) -> Array:
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


_UNCLIPPED = 1.5  # more than √2, which no residual is longer than


@dataclass(frozen=True, eq=False)
class GradientAndExcess(BoundedQuery):
    """The gradient, flattened, and `weight` times the number of gradients longer than `threshold`.

    Releases:      a vector of classes × dimension + 1 coordinates; the last is the weighted count.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2. One example moves the gradient by at most 1 (in units of its clip) and the count by
                   `weight` or not at all: √(1 + weight²). Replace: gradients 2; counts differ by `weight`:
                   √(4 + weight²). Persons: one is counted, with bound·weight, or not, and their gradient
                   is at most bound, so both times bound.
    Assumes:       what `SoftmaxGradient` assumes; threshold and weight are public or released.
    Reference:     Esipova et al. (2023): the noisy count that adapts the upper clip, here in one release with
                   the gradient of the same sample.

    A person is counted if the sum of their gradients, none of them clipped, is longer than bound·threshold:
    where the threshold is the clip, if more of it is cut off than rounding takes.

    Attributes:
        gradient: the gradient's own question; of the same bound.
        threshold: norm above which an example is counted.
        weight: of the count in the answer; a multiple of 2⁻¹⁶. Of persons, bound·weight.
    """

    gradient: SoftmaxGradient
    threshold: float
    weight: float

    label = "softmax gradient and count of long ones"

    def __post_init__(self) -> None:
        """Refuse a weight that the grid cannot hold and a gradient of other units, before rows are read."""
        require_count_weight("count_weight", self.weight)
        if self.gradient.bound != self.bound:
            raise ArgumentError(
                f"Gradient and count must be of one bound; got {self.gradient.bound} and {self.bound}. "
                "Pass both the same bound."
            )

    @property
    def grid(self) -> int:
        """That of the gradient."""
        return self.gradient.grid

    @property
    def shape(self) -> tuple[int]:
        """Gradient coordinates, and one."""
        return (math.prod(self.gradient.shape) + 1,)

    @property
    def _steps(self) -> int:
        """What a unit that is counted adds, in grid steps; a whole number of them."""
        return int(int(self.weight * 2**16) * self.bound.examples * (self.grid // 2**16))

    def l2_sensitivity(self, relation: Relation) -> float:
        """√(1 + weight²) under add/remove, √(4 + weight²) under replace-one, times what a unit counts as."""
        return math.hypot(self.gradient.l2_sensitivity(relation), self._steps / self.grid)

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """Gradient and count, in grid steps."""
        count = int(self._long_ones(rows, labels).sum())
        return self._with_count(self.gradient(rows, labels), count)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The gradient, each person's scaled down to the bound, and the weighted count of persons."""
        unclipped = self.gradient.person_gradients(rows, labels, _UNCLIPPED)
        longest = self.bound.examples * self.threshold / _UNCLIPPED * unclipped.longest
        width = max(4, -(-self.gradient.features.input_dimension // 8))
        norms = over_people(unclipped.norms, by_size(people), width)
        count = sum(int((own > longest).sum()) for own in norms)
        return self._with_count(self.gradient(rows, labels, people), count)

    def _with_count(self, gradient: Integers, count: int) -> Integers:
        """One answer of integers; a count that leaves int64 wraps around, as sums do, and noise with it."""
        return np.append(gradient.ravel(), np.array([count]) * self._steps)

    def contribution_norms(self, rows: AnyArray, labels: Labels) -> Floats:
        """Gradients' norms, with the weight where one is counted."""
        counted = self._long_ones(rows, labels) * (self._steps / self.grid)
        return np.hypot(self.gradient.contribution_norms(rows, labels), counted)

    def _long_ones(self, rows: AnyArray, labels: Labels) -> Floats:
        """For each row 1 if its gradient is longer than the threshold, else 0."""
        features, logits = self.gradient.features, self.gradient.logits

        def long_ones(chunk: slice) -> NDArray[np.bool_]:
            mapped = lattice_floats(features, rows[chunk], ROW_NORM)
            norms = gradient_sums.norms_above(residuals(mapped, labels[chunk], logits))
            long: NDArray[np.bool_] = norms > self.threshold
            return long

        return concatenate_chunks(long_ones, len(rows), features.input_dimension)


def require_count_weight(name: str, value: float) -> float:
    """A weight with which counts are whole numbers of steps, and those of 2²⁹ rows fit int64."""
    value = checks.positive(name, value)
    if not 2.0**-16 <= value <= 16:
        raise ArgumentError(
            f"{name} must lie between 2**-16 and 16; got {value!r}. Stay near the default, 0.25."
        )
    return value


_FACTOR_NORM = 2**12  # of rows, prototypes and residuals, in integers
_ROUNDED = _FACTOR_NORM + 64  # rounding moves each of at most 2¹⁴ coordinates by at most ½


@dataclass(frozen=True, eq=False)
class ProjectionGradient(RowSums):
    """Σ over rows of clip(∂L/∂A), for the loss L = −log softmax_y(−‖A x − A p_c‖²) and prototypes p_c.

    With r = softmax − onehot(y), whose entries add up to 0, and v = Σ r_c p_c the gradient is
    2A (x vᵀ + v xᵀ − Σ r_c p_c p_cᵀ): it depends on the row itself, and on nothing else that is private.

    Releases:      a (width, dimension) matrix, in units of `clip`.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   L2, in units of `clip`. A row's gradient is clipped to norm 1: 1 under add/remove, 2 under
                   replace-one. Persons: the sum of one's clipped gradients is scaled to a norm of at most
                   bound, so bound and 2·bound.
    Assumes:       map and prototypes are public or released; labels in 0..classes−1; a feature map that works
                   row by row. In episodes, where some rows of a sample make the prototypes of the others, one
                   row would move the gradients of all, and a clip per row would bound nothing.
    Reference:     Snell, Swersky and Zemel (2017) for the loss; Wahdany et al. (2025), C.6, for the map.

    Exactness: logits are linear in x up to a term that all classes share, so residuals are those of
    `exact.gradient_sums`. Rows and prototypes are then rounded to integers of norm at most 2¹² + 64,
    residuals to norm 2¹², and the map to integers of spectral norm at most α. By Cauchy-Schwarz each of the
    three terms, in all partial sums, is at most 2¹²·√classes·(2¹² + 64)²·α, and α is so small that three of
    them stay below 2⁵²: products are exact in any order, and the clip is that of `features.lattice`.

    Attributes:
        features: map of the rows.
        projection: A, (width, dimension).
        prototypes: (classes, dimension), each of norm at most 1.
        clip: norm that a row's gradient is clipped to.
    """

    features: FittedFeatures
    projection: Floats
    prototypes: Floats
    clip: float = 1.0

    label = "gradient of the projection"
    grid: ClassVar[int] = 2**SUM_BITS

    def __post_init__(self) -> None:
        """Refuse a clip that is none, and more classes than the products have bits for."""
        checks.positive("clip", self.clip)
        if self._room < 1:
            raise ArgumentError(
                f"A projection's gradients are exact for some 60,000 classes; got {len(self.prototypes)}. "
                "Use another method."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(width, dimension)."""
        return len(self.projection), self.features.dimension

    def l2_sensitivity(self, relation: Relation) -> float:
        """1 under add/remove, 2 under replace-one, for each example that a unit counts as."""
        return self.bound.examples * (1.0 if relation is Relation.ADD_REMOVE else 2.0)

    def bounded(self, sums: Integers, groups: Groups) -> Integers:
        """Each person's summed gradient, scaled down to the bound."""
        return scaled_down(sums, groups, self.grid, self.bound.examples * self.grid)

    @property
    def _room(self) -> float:
        """The largest spectral norm of the map, in integers, less what rounding it may add."""
        most = 2.0**52 / (3 * _FACTOR_NORM * math.sqrt(len(self.prototypes)) * _ROUNDED**2)
        return most - 0.5 * math.sqrt(math.prod(self.shape))

    def vectors(self, rows: AnyArray, labels: Labels) -> RowVectors:
        """Clipped gradients, in steps of clip·2⁻³⁰."""
        classes = len(self.prototypes)
        near = np.rint(self.prototypes * _FACTOR_NORM)
        steps = self._room / max(float(np.linalg.norm(self.projection, 2)) * (1 + 1e-9), 1e-9)
        matrix = np.rint(self.projection * steps)
        logits = IntegerLogits.coarse(*nearest_prototype(self.projection, self.prototypes), ROW_NORM)
        # (classes, width · dimension): A p_c p_cᵀ.
        pairs = ((near @ matrix.T)[:, :, None] * near[:, None, :]).reshape(classes, -1)
        unit = 2.0 / (steps * _FACTOR_NORM**3 / _UNCLIPPED)  # of an integer, in the gradient

        def gradients(places: slice | Integers) -> Integers:
            x = lattice_floats(self.features, rows[places], ROW_NORM)
            found = residuals(x, labels[places], logits)
            r = gradient_sums.residual_lattice(found, _UNCLIPPED, _FACTOR_NORM).T
            x = np.rint(x * (_FACTOR_NORM / ROW_NORM))
            v = r @ near
            whole = (x @ matrix.T)[:, :, None] * v[:, None, :]
            whole += (v @ matrix.T)[:, :, None] * x[:, None, :]
            return clipped_lattice(whole.reshape(len(x), -1) - r @ pairs, self.grid, clip=self.clip / unit)

        return gradients


def nearest_prototype(projection: Floats, prototypes: Floats) -> tuple[Floats, Floats]:
    """Weights and offsets whose scores order classes as −‖A x − A p_c‖² does: what they share is left out.

    >>> nearest_prototype(np.eye(2), np.array([[1.0, 0.0], [0.0, 2.0]]))
    (array([[2., 0.],
           [0., 4.]]), array([-1., -4.]))
    """
    seen = prototypes @ projection.T
    weights: Floats = 2 * seen @ projection
    return weights, -np.square(seen).sum(axis=1)
