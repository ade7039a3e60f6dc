"""The gradient of a linear map that brings rows near their class's prototype, each row's part clipped."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers, Labels, People
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures, lattice_floats
from dptransfer.exact.gradient_sums import residual_lattice, residuals
from dptransfer.exact.lattice import SUM_BITS, clipped_lattice
from dptransfer.exact.softmax import IntegerLogits
from dptransfer.exact.sums import Groups, add_up, add_up_people, scaled_down
from dptransfer.privacy import Relation
from dptransfer.queries.query import BoundedQuery
from dptransfer.queries.softmax_gradient import ROW_NORM

_GRID: int = 2**SUM_BITS
_FACTOR_NORM = 2**12  # of rows, prototypes and residuals, in integers
_ROUNDED = _FACTOR_NORM + 64  # rounding moves each of at most 2¹⁴ coordinates by at most ½
_UNCLIPPED = 1.5  # more than √2, which no residual is longer than


@dataclass(frozen=True, eq=False)
class ProjectionGradient(BoundedQuery):
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
    grid = _GRID

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

    def of_rows(self, rows: AnyArray, labels: Labels) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰."""
        return add_up(self._gradients(rows, labels), len(rows), math.prod(self.shape), self.shape)

    def of_people(self, rows: AnyArray, labels: Labels, people: People) -> Integers:
        """The summed gradient in steps of clip·2⁻³⁰, that of each person scaled down to the bound."""

        def bounded(sums: Integers, groups: Groups) -> Integers:
            return scaled_down(sums, groups, _GRID, self.bound.examples * _GRID)

        gradients = self._gradients(rows, labels)
        return add_up_people(gradients, people, math.prod(self.shape), self.shape, bounded)

    @property
    def _room(self) -> float:
        """The largest spectral norm of the map, in integers, less what rounding it may add."""
        most = 2.0**52 / (3 * _FACTOR_NORM * math.sqrt(len(self.prototypes)) * _ROUNDED**2)
        return most - 0.5 * math.sqrt(math.prod(self.shape))

    def _gradients(self, rows: AnyArray, labels: Labels) -> Callable[[slice | Integers], Integers]:
        """Clipped gradients, (rows, width · dimension), of the rows at some places."""
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
            r = residual_lattice(found, _UNCLIPPED, _FACTOR_NORM).T
            x = np.rint(x * (_FACTOR_NORM / ROW_NORM))
            v = r @ near
            whole = (x @ matrix.T)[:, :, None] * v[:, None, :]
            whole += (v @ matrix.T)[:, :, None] * x[:, None, :]
            return clipped_lattice(whole.reshape(len(x), -1) - r @ pairs, _GRID, clip=self.clip / unit)

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
