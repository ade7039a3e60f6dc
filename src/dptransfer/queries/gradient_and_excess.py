"""A softmax gradient with, in the same answer, how many examples' gradients are longer than a threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.compute.people import by_size, over_people
from dptransfer.compute.softmax_gradient import norms_above, residuals
from dptransfer.errors import ArgumentError
from dptransfer.features.chunks import over_chunks
from dptransfer.features.on_lattice import lattice_floats
from dptransfer.privacy import Relation
from dptransfer.queries.base import BoundedQuery
from dptransfer.queries.softmax_gradient import ROW_NORM, SoftmaxGradient

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
        count = sum(int(long.sum()) for long in self._long_ones(rows, labels))
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
        counted = np.concatenate([np.zeros(0), *self._long_ones(rows, labels)]) * (self._steps / self.grid)
        return np.hypot(self.gradient.contribution_norms(rows, labels), counted)

    def _long_ones(self, rows: AnyArray, labels: Labels) -> Iterator[NDArray[np.bool_]]:
        """For each chunk, whose gradients are longer than the threshold."""
        asked = self.gradient
        logits = asked.logits

        def long_ones(chunk: slice) -> NDArray[np.bool_]:
            mapped = lattice_floats(asked.features, rows[chunk], ROW_NORM)
            long: NDArray[np.bool_] = norms_above(residuals(mapped, labels[chunk], logits)) > self.threshold
            return long

        return over_chunks(long_ones, len(rows), asked.features.input_dimension)


def require_count_weight(name: str, value: float) -> float:
    """A weight with which counts are whole numbers of steps, and those of 2²⁹ rows fit int64."""
    value = _check.positive(name, value)
    if not 2.0**-16 <= value <= 16:
        raise ArgumentError(
            f"{name} must lie between 2**-16 and 16; got {value!r}. Stay near the default, 0.25."
        )
    return value
