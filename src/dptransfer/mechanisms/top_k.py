"""Choosing an unordered set of K public candidates per class, in one step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats, Integers, Labels, People
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.mechanisms import row_shares
from dptransfer.mechanisms.base import ROUND_UP, exact_answer
from dptransfer.mechanisms.selection import for_each_class
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Relation, SelectionEvent, Unit
from dptransfer.queries.base import ScoreQuery

_ROUNDING_STEPS = 4
# Of K·Δ ÷ rate; times log(candidates) < 2⁶, so that log C in score units fits in int64.
_LARGEST_WEIGHT = 2.0**56


@dataclass(frozen=True)
class TopKMechanism:
    """The exponential mechanism over all sets of K candidates, with the worst member's score as utility.

    Releases:      K positions per class, without order.
    Guarantee:     SelectionEvent(ε), bounded range: (ε²/8)-zCDP.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   min over the set of scores that each rise by an integer in [0, Δ] rises by one in [0, Δ]:
                   monotone, range Δ. So exp(min·ε/Δ) is ε-DP under add/remove; replace-one halves the rate as
                   for single selections. Persons: the same with Δ_c for class c, where Σ Δ_c ≤ Δ.
    Assumes:       an exact Gumbel race on integer scores; ties in score are ranked by position, a public
                   order.
    Reference:     Wahdany et al. (2025), Appendix C.3, with two corrections. The printed utility subtracts
                   the K-th best score, which is the same for every set and cancels, so the factor 2 for a
                   non-monotone score is not needed. The number of sets whose worst member has rank y (1 is
                   best) is C(y−1, K−1): the member itself, and K−1 of the y−1 better ones. The printed
                   C(y, K) makes the loss exceed ε (11.95 at ε = 1 with 1.28 million candidates).

    How it is drawn: the worst rank y with probability ∝ C(y−1, K−1)·exp(score_y/scale), then K−1 of the
    better ranks uniformly. log C is rounded down to integer score units, a data-independent weight log w(y) =
    log C(y−1, K−1) + θ(y) whose error θ spans at most 1/scale + 2·e, with e the float error of log C
    (`log_error`). A neighbour moves a set from rank y to y', which changes the log-ratio by θ(y) − θ(y'), and
    the normaliser by as much: 2/scale + 4·e in all, for each class whose scores it moves. An example moves
    those of one under add/remove, and of two, at half the rate, under replace-one: to pay for it `scale` is
    widened from Δ/ε to (Δ + 4)/(ε − 4·e); 2 of the 4 steps are to spare. A person may move those of all C
    classes: (Δ + 4·C)/(ε − 4·e·C).
    """

    query: ScoreQuery
    k: int
    epsilon: float
    relation: Relation

    name: ClassVar[str] = "top-k"

    def __post_init__(self) -> None:
        """Check K and ε."""
        _check.whole("k", self.k)
        _check.positive("epsilon", self.epsilon)

    @property
    def scale(self) -> float:
        """Width of the Gumbel noise in grid steps."""
        directions = 1 if self.relation is Relation.ADD_REMOVE else 2
        touched = 1 if self.query.unit is Unit.ROW else self.query.classes
        rate = self.epsilon / directions - 4 * log_error(self.k) * touched
        if rate <= self.epsilon / 4 or self.k * self.query.score_range > _LARGEST_WEIGHT * rate:
            raise BudgetError(
                f"The weights of sets of {self.k} are exact enough from a larger epsilon on; "
                f"got {self.epsilon!r}. Raise epsilon or lower k."
            )
        return (self.query.score_range + _ROUNDING_STEPS * touched) / rate * ROUND_UP

    @property
    def event(self) -> SelectionEvent:
        """What it costs, for all classes together."""
        return SelectionEvent(self.epsilon, self.relation, True, self.name, self.query.label, self.query.unit)

    def release(
        self, rows: AnyArray, labels: Labels, people: People | None = None, *, noise: NoiseSource
    ) -> Integers:
        """(classes, K) positions of the chosen candidates, each row in increasing order."""
        _ = self.scale  # refuses, where it has to, before a row is read
        return noise.once(self.query.label, lambda: self._draw(rows, labels, people, noise))

    def _draw(self, rows: AnyArray, labels: Labels, people: People | None, noise: NoiseSource) -> Integers:
        row_shares.note(self, self.query, rows, labels, people)
        scores = exact_answer(self.query, rows, labels, people)
        return np.stack(for_each_class(self.choose, scores, noise))

    def choose(self, scores: Integers, *, noise: NoiseSource) -> Integers:
        """K positions for one class."""
        if len(scores) < self.k:
            raise ArgumentError(
                f"Choosing {self.k} candidates needs at least that many public rows; got {len(scores)}. "
                "Lower k or use a larger pool."
            )
        order = by_falling_score(scores)
        # Ranks K and below K cannot be the worst of K members, so the race starts at rank K (position K − 1).
        entries = scores[order[self.k - 1 :]] + set_weights(len(scores), self.k, self.scale)
        worst = self.k - 1 + noise.gumbel_argmax(entries, self.scale)
        better = noise.subset(worst, self.k - 1)
        return np.sort(np.append(order[better], order[worst]))


def by_falling_score(scores: Integers) -> Integers:
    """Positions by falling score; equal scores in order of position.

    Distance from the best and position are put into one integer where both fit, and such integers are sorted
    several times faster than positions are.

    >>> by_falling_score(np.array([3, 9, 3, 5])).tolist()
    [1, 3, 0, 2]
    """
    best, bits = int(scores.max()), (len(scores) - 1).bit_length()
    if best - int(scores.min()) >= 2 ** (63 - bits):
        return np.argsort(~scores, kind="stable")  # ~ turns the order round, that of the smallest int64 too
    keys: Integers = best - scores
    keys <<= bits
    keys |= np.arange(len(scores))
    keys.sort()
    keys &= 2**bits - 1
    return keys


@lru_cache(maxsize=8)
def set_weights(candidates: int, k: int, scale: float) -> Integers:
    """`log_sets_with_worst_rank` rounded down to score units; the same for every class."""
    return np.floor(log_sets_with_worst_rank(candidates, k) * scale).astype(np.int64)


@lru_cache(maxsize=8)
def log_sets_with_worst_rank(candidates: int, k: int) -> Floats:
    """Log C(y−1, K−1) for y = K..candidates, as a sum of K−1 logarithms; `log_error` bounds its error.

    >>> np.exp(log_sets_with_worst_rank(5, 3)).round(6).tolist()
    [1.0, 3.0, 6.0]
    """
    rank = np.arange(k, candidates + 1, dtype=np.float64)
    total = np.zeros_like(rank)
    for member in range(1, k):
        total += np.log((rank - k + member) / member)
    return total


def log_error(k: int) -> float:
    """Bound on the float error of log C(y−1, K−1) and of its product with the scale, up to 2³² candidates.

    Each of K−1 logarithms is at most 23. It is off by 4 units in the last place (2⁻⁵²·92) and by the rounding
    of its argument (2⁻⁵³); K−1 additions of a total below 23·K are off by half a unit each (2⁻⁵³·23·K²), the
    product with the scale once more (2⁻⁵³·23·K). Together below 2⁻⁵²·(12·K² + 105·K).
    """
    return 2.0**-52 * (12 * k * k + 105 * k)
