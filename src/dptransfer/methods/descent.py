"""Projected descent along noisy gradients, with a weighted average of the iterates; post-processing only.

A step has a planned length along the noisy gradient rather than a learning rate times it. So it needs no
scale of the gradient, which would be the number of private rows: a private number that a rate would have to
be tuned to. The planned lengths fall linearly and add up to `reach`·√classes.

A gradient of pure noise should move nothing, least of all a good start. The norm of the noise is known, and
in thousands of coordinates it hardly varies: with g = signal + noise, ‖g‖² ≈ ‖signal‖² + noise². So a step
from a start that knows something is shortened by the estimated share √(1 − noise²/‖g‖²) of the signal in what
was seen. A start of zeros has nothing to lose, and its steps keep their length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats


@dataclass(frozen=True)
class Pace:
    """How far descent goes.

    Attributes:
        reach: length of the whole path, per √class; for rows of unit norm, a bound on how far a class's logit
            can move.
        weight_decay: share of the distance to the start that each step takes back, times its share of the
            path; 0 for none.
        radius: most that the weights may be away from the start, per √class.
    """

    reach: float = 50.0
    weight_decay: float = 0.0
    radius: float = 50.0

    def __post_init__(self) -> None:
        """Check the settings."""
        _check.moderate("reach", self.reach)
        _check.moderate("weight_decay", self.weight_decay, or_zero=True)
        _check.moderate("radius", self.radius)


class Descent:
    """The state of one descent: weights, and their average so far.

    Args:
        start: (classes, dimension), or any matrix.
        steps: how many there will be.
        pace: how far they go.
        knows: whether the start has something to lose; by default, if it is not zero.
    """

    def __init__(self, start: Floats, steps: int, pace: Pace, *, knows: bool | None = None) -> None:
        self.weights = start
        self._start, self._steps, self._pace = start, steps, pace
        self._away = np.zeros_like(start)
        self._knows = bool(start.any()) if knows is None else knows
        self._taken = 0
        self._average = np.zeros_like(start)

    def step(self, gradient: Floats, noise: float) -> None:
        """One step against a gradient that holds noise of this norm."""
        self._taken += 1
        unit = math.sqrt(len(self._start))
        share = 2 * (self._steps + 1 - self._taken) / (self._steps * (self._steps + 1))
        seen = max(_length(gradient), 1e-300)
        signal = math.sqrt(1 - min(1.0, noise / seen) ** 2) if self._knows else 1.0
        length = self._pace.reach * unit * share * signal / seen
        away = self._away  # changed in place: with many classes these passes are a good part of a step
        if self._pace.weight_decay:
            away *= max(0.0, 1 - self._pace.weight_decay * share)
        away -= length * gradient
        # Projection to the ball, line 5 of Algorithm 1 of Golatkar et al. (2022).
        if (inside := self._pace.radius * unit / max(_length(away), 1e-300)) < 1:
            away *= inside
        self.weights = self._start + away
        # Weights 2t/(T(T+1)): later iterates count for more, as in their Theorem 3.
        self._average += (2 * self._taken / (self._steps * (self._steps + 1))) * away

    @property
    def average(self) -> Floats:
        """The weighted average of the iterates, once all steps are taken."""
        return self._start + self._average


def _length(matrix: Floats) -> float:
    """Frobenius norm, without linear algebra: its threads would go on waiting, on the next step's time."""
    return math.sqrt(float(np.einsum("ij,ij->", matrix, matrix)))
