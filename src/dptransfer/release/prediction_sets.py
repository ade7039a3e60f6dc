"""Prediction sets (conformal prediction): classes that an example may well have, with guaranteed coverage.

The set of a row is its predicted class and every class of probability at least τ, both by the head's own
softmax, which was fixed before any test row was looked at. τ is picked from a released histogram (the block
`chances` of a charged evaluation), so all of it is post-processing and costs no privacy.

**Which τ.** Let miss(τ) be the share of the examples that the classifier will meet whose class is not in the
set: the prediction is wrong and the true class has a probability below τ. It grows with τ. For every edge τ_1
< τ_2 < … of the public grid, ask whether miss(τ_j) > α = 1 − coverage could still be. With `missed` for the
noisy count below τ_j, and `total` for all, D = missed − α·total has at miss = α the mean 0 and a variance of

    bound · α(1 − α) · E total  +  the noise in D

at most (`charged_evaluation` derives the first term, for persons too), and more misses make D larger. So D ≤
−z times that standard deviation, with z the normal quantile of the wanted confidence, happens with
probability 1 − confidence at most while miss(τ_j) ≥ α. Ask the edges from below and stop at the first that
does not pass; τ is the last that did. **One error probability is enough**: there is one first edge, τ_*,
with miss ≥ α, fixed before the noise and the sample. To end at it or beyond, τ_* must have passed, which has
probability 1 − confidence at most; no union over edges is needed (fixed-sequence testing).

**Noise in D.** Wrong predictions are K cells of noise variance v, the first j of them missed; right ones are
the last cell. Other blocks tell the number of wrong predictions too, independently. Least squares pools both
for the sum S and shares what S is off among the cells alike, so missed = Σ_{b<j} x_b + (j/K)(S − Σ_{b<K} x_b)
has the error of (j − j²/K)·v, plus that of (j/K)·S, independent of it. Hence for D = missed − α·S − α·R

    variance = (j − j²/K)·v + (j/K − α)²·Var S + α²·Var R.

Without an edge that passes τ is 0: every class is in every set, which covers, and says nothing.

**A coverage that is chosen after looking** at what the counts allow. Fix an edge j. Whoever passes it at a
coverage passes it at every smaller one, so that it ever passes at some α < miss(τ_j) has the probability of
passing at the largest such α of the grid, 1 − confidence at most. Over all edges that adds up to their number
times as much. So with a confidence of 1 − (1 − confidence) ÷ edges any coverage may be taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats, Integers
from dptransfer.exact.evaluation_layout import CHANCE_EDGES, chance_slack
from dptransfer.release.charged_evaluation import NoisyCounts, pool_counts


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """For each row the classes that it may well have.

    Attributes:
        members: (rows, classes), whether a class is in the row's set.
        classes: the declared classes.
        threshold: the probability from which on a class is in a set; at 0 every class is, because nothing
            less can be guaranteed from the counts that were released.
        coverage: the least share of true classes in their sets, among examples like the tested ones; where
            persons were protected, each person's share counts as much as any other's, or, where they may
            count as several examples, as much as their examples up to that bound.
        confidence: the probability, over test sample and noise, with which that holds.
    """

    members: NDArray[np.bool_]
    classes: tuple[str | int, ...]
    threshold: float
    coverage: float
    confidence: float

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        facts = f"{len(self)} rows, coverage {self.coverage:g} with confidence {self.confidence:g}"
        size = f", average size {self.average_size:.2f} of {len(self.classes)}" if len(self) else ""
        return f"{type(self).__name__}({facts}{size})"

    @property
    def informative(self) -> bool:
        """Whether the counts allowed for anything less than all classes for every row."""
        return self.threshold > 0

    @property
    def sizes(self) -> Integers:
        """The number of classes in each set; at least one."""
        sizes: Integers = self.members.sum(axis=1, dtype=np.int64)
        return sizes

    @property
    def average_size(self) -> float:
        """The mean size, of at least one row."""
        return float(self.sizes.mean())

    @property
    def labels(self) -> list[tuple[str | int, ...]]:
        """The classes in each set, in declared order."""
        return [tuple(self.classes[c] for c in np.flatnonzero(row)) for row in self.members]

    def abstains(self, above: int = 1) -> NDArray[np.bool_]:
        """Whether a row's set has more classes than this, so that rather no label should be given."""
        chosen: NDArray[np.bool_] = self.sizes > checks.whole("above", above, at_least=1)
        return chosen


def sets_of(chances: Floats, threshold: float) -> NDArray[np.bool_]:
    """Which classes are in each row's set: the likeliest, and those with at least `threshold`.

    The histogram's probabilities and these are computed in two ways that differ by a known part, so edges are
    lowered by it, and what may have been the likeliest there is in the set as well.

    >>> sets_of(np.array([[0.6, 0.3, 0.1], [0.4, 0.3, 0.3]]), 0.3).tolist()
    [[True, True, False], [True, True, True]]
    """
    likeliest = chances.max(axis=1, keepdims=True)
    slack = chance_slack(chances.shape[1])
    members: NDArray[np.bool_] = chances >= np.minimum(threshold, likeliest) * (1 - slack)
    return members


def threshold_for(counts: NoisyCounts, coverage: float, confidence: float) -> float:
    """The largest edge at which the sets cover that much with that confidence; 0 if there is none."""
    alpha = 1 - checks.fraction("coverage", coverage)
    z = NormalDist().inv_cdf(checks.fraction("confidence", confidence))
    cells: AnyArray = counts.blocks["chances"]
    v = counts.noise["chances"] ** 2
    k = len(cells) - 1
    own = float(cells[:-1].sum())
    wrong = pool_counts(counts.cells("chances", slice(None, -1)), counts.wrong)
    right = pool_counts(counts.cells("chances", -1), counts.right)
    j = np.arange(1, k + 1)
    missed = np.cumsum(cells[:-1]) + j / k * (wrong.count - own)
    total = wrong.count + right.count
    noise = (j - j**2 / k) * v + (j / k - alpha) ** 2 * wrong.variance + alpha**2 * right.variance
    sampled = counts.bound.examples * alpha * (1 - alpha) * max(total, 0.0)
    passed = missed - alpha * total <= -z * np.sqrt(sampled + noise)
    last = k if passed.all() else int(np.argmin(passed))
    return CHANCE_EDGES[last - 1] if last else 0.0


def coverage_after_looking(
    counts: NoisyCounts, below: float, confidence: float
) -> tuple[float, float] | None:
    """The largest coverage in whole percent, below one that says nothing, that leaves classes out.

    With the confidence to ask for, which makes up for the choice: see the head of this file. None if there is
    no such coverage.
    """
    strict = 1 - (1 - confidence) / len(CHANCE_EDGES)
    strict = math.ceil(strict * 10_000) / 10_000
    for percent in range(math.ceil(below * 100) - 1, 0, -1):
        if threshold_for(counts, percent / 100, strict):
            return percent / 100, strict
    return None
