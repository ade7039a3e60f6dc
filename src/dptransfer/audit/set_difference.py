"""Two-sample test for a membership attack: do members and non-members differ without the model?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dptransfer.arrays import Floats, Integers
from dptransfer.compute.threads import one_blas_thread

_MOST_ROWS = 2000  # of each set and half: the classifier costs the cube of it
_FEWEST = 8  # of each set: halves with fewer than four say nothing
_RIDGE = 1.0  # of a kernel whose mean diagonal is 1


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of one set, their class positions, and whose each row is: a number from 0 for each unit."""

    rows: Any
    labels: Integers
    units: Integers

    @property
    def count(self) -> int:
        """Number of units: rows, or people."""
        return int(self.units.max()) + 1


def model_free_areas(members: UnitRows, others: UnitRows) -> tuple[tuple[Floats, Floats], ...]:
    """Scores of members and others by a classifier of rows and classes alone, cross-validated in two folds.

    Both sets are halved at random, by unit. A classifier (kernel ridge regression) learns on one half of each
    which row is a member's and scores the units of the other halves, lower for likelier members; then the
    other way round. If both sets are draws of one distribution, the units that are scored are exchangeable
    whatever was learned, so each fold's area under the curve has its usual interval. Nothing if a set has
    fewer than eight units.

    The kernel of two examples is (1 + ⟨x, x'⟩)², twice that where their classes agree, for rows of unit norm,
    with standardised columns. So it sees shifts of the mean, of the spread, of class shares, and of rows
    within a class.
    """
    if min(members.count, others.count) < _FEWEST:
        return ()
    rng = np.random.default_rng(0)  # which half a unit is in changes the power of the test alone
    halves = [_halves(one, rng) for one in (members, others)]
    return tuple(
        _fold(members, others, halves[0][fold], halves[1][fold], halves[0][1 - fold], halves[1][1 - fold])
        for fold in (0, 1)
    )


def _halves(given: UnitRows, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Positions of the rows of two disjoint halves of the units; of some units where there are many rows."""
    order = rng.permutation(given.count)
    sizes = np.bincount(given.units, minlength=given.count)
    found = []
    for half in (order[::2], order[1::2]):
        taken = half[: max(_FEWEST // 2, int(np.searchsorted(np.cumsum(sizes[half]), _MOST_ROWS, "right")))]
        found.append(np.flatnonzero(np.isin(given.units, taken)))
    return found[0], found[1]


def _fold(
    members: UnitRows,
    others: UnitRows,
    inside: Integers,
    outside: Integers,
    inside_test: Integers,
    outside_test: Integers,
) -> tuple[Floats, Floats]:
    """Train on `inside` and `outside`; the scores of the units of the test positions."""
    x = np.concatenate([_unit(members.rows[inside]), _unit(others.rows[outside])])
    y = np.concatenate([members.labels[inside], others.labels[outside]])
    # Each set counts alike, whatever its size: the mean of the targets is zero.
    weights = np.repeat([0.5 / len(inside), 0.5 / len(outside)], [len(inside), len(outside)])
    targets = np.repeat([-1.0, 1.0], [len(inside), len(outside)])
    mean = weights @ x
    deviation = np.sqrt(weights @ np.square(x - mean))
    scale = np.where(deviation > 1e-9, deviation, np.inf) * np.sqrt(x.shape[1])

    def standardised(rows: Floats) -> Floats:
        clipped: Floats = np.clip((rows - mean) / scale, -10.0, 10.0)
        return clipped

    x = standardised(x)
    kernel = _kernel(x, y, x, y)
    size = float(kernel.trace()) / len(kernel)
    half = np.sqrt(weights * len(weights))
    system = kernel / size * half[:, None] * half + _RIDGE * np.eye(len(kernel))
    with one_blas_thread(len(system)):
        duals = half * np.linalg.solve(system, half * targets)

    def scores(given: UnitRows, positions: Integers) -> Floats:
        rows, labels = standardised(_unit(given.rows[positions])), given.labels[positions]
        each = _kernel(rows, labels, x, y) @ duals
        units = np.unique(given.units[positions], return_inverse=True)[1]
        means: Floats = np.bincount(units, each) / np.bincount(units)
        return means

    return scores(members, inside_test), scores(others, outside_test)


def _kernel(x: Floats, y: Integers, others: Floats, labels: Integers) -> Floats:
    agreed: Floats = (1.0 + x @ others.T) ** 2 * (1.0 + (y[:, None] == labels[None, :]))
    return agreed


def _unit(rows: Any) -> Floats:
    """Rows of unit norm, a row that is not finite as zeros, as feature maps take them."""
    wide = np.asarray(rows).reshape(len(rows), -1).astype(np.float64)
    wide[~np.isfinite(wide).all(axis=1)] = 0.0
    wide /= np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    unit: Floats = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return unit
