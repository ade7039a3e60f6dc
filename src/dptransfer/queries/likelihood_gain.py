"""Likelihood gain: how much likelier a public head makes the true classes than a blind guess, in a number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dptransfer.base.types import AnyArray, Floats, Integers, Labels
from dptransfer.exact import softmax
from dptransfer.exact.feature_map import FittedFeatures, lattice_floats
from dptransfer.exact.lattice import SUM_BITS
from dptransfer.exact.sums import Groups
from dptransfer.privacy import Relation
from dptransfer.queries.query import RowSums, RowVectors
from dptransfer.queries.softmax_gradient import ROW_NORM

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
    grid = 2**SUM_BITS
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
