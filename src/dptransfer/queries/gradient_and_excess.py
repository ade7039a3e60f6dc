"""A softmax gradient with, in the same answer, how many examples' gradients are longer than a threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats, Integers, Labels
from dptransfer.compute.softmax_gradient import norms_above, residuals
from dptransfer.errors import ArgumentError
from dptransfer.features.chunks import over_chunks
from dptransfer.features.on_lattice import lattice_floats
from dptransfer.privacy import Relation, Unit
from dptransfer.queries.softmax_gradient import ROW_NORM, SoftmaxGradient


@dataclass(frozen=True, eq=False)
class GradientAndExcess:
    """The gradient, flattened, and `weight` times the number of gradients longer than `threshold`.

    Releases:      a vector of classes × dimension + 1 coordinates; the last is the weighted count.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   L2. One example moves the gradient by at most 1 (in units of its clip) and the count by
                   `weight` or not at all: √(1 + weight²). Replace: gradients 2; counts differ by `weight`:
                   √(4 + weight²).
    Assumes:       what `SoftmaxGradient` assumes; threshold and weight are public or released.
    Reference:     Esipova et al. (2023): the noisy count that adapts the upper clip, here in one release with
                   the gradient of the same sample.

    Attributes:
        gradient: the gradient's own question.
        threshold: norm above which an example is counted.
        weight: of the count in the answer; a multiple of 2⁻¹⁶.
    """

    gradient: SoftmaxGradient
    threshold: float
    weight: float

    label = "softmax gradient and count of long ones"
    unit = Unit.ROW
    grid = SoftmaxGradient.grid

    def __post_init__(self) -> None:
        """Refuse a weight that the grid cannot hold, before rows are read."""
        require_count_weight("count_weight", self.weight)

    @property
    def shape(self) -> tuple[int]:
        """Gradient coordinates, and one."""
        return (math.prod(self.gradient.shape) + 1,)

    @property
    def _steps(self) -> int:
        """The weight in grid steps, a whole number of them."""
        return int(self.weight * 2**16) * (self.grid // 2**16)

    def l2_sensitivity(self, relation: Relation) -> float:
        """√(1 + weight²) under add/remove, √(4 + weight²) under replace-one."""
        return math.hypot(self.gradient.l2_sensitivity(relation), self._steps / self.grid)

    def __call__(self, rows: AnyArray, labels: Labels) -> Integers:
        """Gradient and count, in grid steps."""
        count = sum(int(long.sum()) for long in self._long_ones(rows, labels))
        return np.append(self.gradient(rows, labels).ravel(), count * self._steps)

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
    if not 2.0**-16 <= _check.positive(name, value) <= 16:
        raise ArgumentError(
            f"{name} must lie between 2**-16 and 16; got {value!r}. Stay near the default, 0.25."
        )
    return value
