"""Choosing one public candidate per class: exponential, permute-and-flip, Laplace noisy max.

All three take integer scores whose range per unit is Δ, and all three add up over classes in the same way.

Examples. Under add/remove an example moves the scores of one class, and only upward when it is added, so a
selection at rate ε/Δ is ε-DP. Under replace-one the scores of one class may move both ways, or those of two
classes one way each: half the rate, ε/2Δ, covers both (the two classes then cost ε/2 each). A caller cannot
ask for the better rate: the relation decides.

Persons. A person who is added raises the scores of class c by integers in [0, Δ_c], with Σ Δ_c ≤ Δ. At rate
ε/Δ the choice for class c loses at most ε_c = ε·Δ_c/Δ. Choices are drawn independently, so log-ratios add up
over classes: to at most Σ ε_c ≤ ε. Where the log-ratio of each class lies in an interval of length ε_c, so
does the sum in one of length ε: bounded range holds for all classes together. Under replace-one one person's
Δ_c come off and another's Δ'_c come on: at half the rate that costs ε(Δ_c + Δ'_c)/2Δ for class c, as loss and
as length of the interval, and at most ε over all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers, Labels, People
from dptransfer.compute.cores import usable_cores
from dptransfer.mechanisms import row_shares
from dptransfer.mechanisms.base import ROUND_UP, exact_answer
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Relation, SelectionEvent
from dptransfer.queries.base import ScoreQuery

_Chosen = TypeVar("_Chosen")
_COLUMNS = 8  # eight int64 are one line of the cache
_ROWS = 2**14


@dataclass(frozen=True)
class Selection:
    """What the three mechanisms share: the rate, the event, and one choice per class."""

    query: ScoreQuery
    epsilon: float
    relation: Relation

    name: ClassVar[str]
    bounded_range: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check ε."""
        _check.positive("epsilon", self.epsilon)

    @property
    def scale(self) -> float:
        """Width of the noise in grid steps: Δ/ε under add/remove, 2Δ/ε under replace-one."""
        directions = 1 if self.relation is Relation.ADD_REMOVE else 2
        return directions * self.query.score_range / self.epsilon * ROUND_UP

    @property
    def event(self) -> SelectionEvent:
        """What it costs, for all classes together."""
        query = self.query
        return SelectionEvent(
            self.epsilon, self.relation, self.bounded_range, self.name, query.label, query.unit
        )

    def release(
        self, rows: AnyArray, labels: Labels, people: People | None = None, *, noise: NoiseSource
    ) -> Integers:
        """(classes,) positions of the chosen candidates."""
        return noise.once(self.query.label, lambda: self._draw(rows, labels, people, noise))

    def _draw(self, rows: AnyArray, labels: Labels, people: People | None, noise: NoiseSource) -> Integers:
        row_shares.note(self, self.query, rows, labels, people)
        scores = exact_answer(self.query, rows, labels, people)
        return np.array(for_each_class(self.choose, scores, noise), dtype=np.int64)

    def choose(self, scores: Integers, *, noise: NoiseSource) -> int:
        """Position of the chosen candidate."""
        raise NotImplementedError


@dataclass(frozen=True)
class ExponentialMechanism(Selection):
    """Chooses candidate j with probability ∝ exp(score_j ÷ scale).

    Releases:      one position per class.
    Guarantee:     SelectionEvent(ε), bounded range: (ε²/8)-zCDP.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   the query's score range Δ. Adding a row multiplies each weight by a factor in [1, e^ε] and
                   the normaliser likewise, so log-ratios lie in an interval of length ε around 0. Persons: in
                   one of length ε·Δ_c/Δ for class c, and these lengths add up to ε at most.
    Assumes:       an exact Gumbel race on integer scores (`noise.race`).
    Reference:     McSherry and Talwar (2007); Dong, Durfee and Rogers (2020) for bounded range.
    """

    name: ClassVar[str] = "exponential"
    bounded_range: ClassVar[bool] = True

    def choose(self, scores: Integers, *, noise: NoiseSource) -> int:
        """Gumbel race."""
        return noise.gumbel_argmax(scores, self.scale)


@dataclass(frozen=True)
class PermuteAndFlip(Selection):
    """Chooses the largest score + exponential noise of mean `scale`.

    Releases:      one position per class.
    Guarantee:     SelectionEvent(ε), pure; never a worse choice on average than the exponential mechanism at
                   the same ε.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   the query's score range Δ. With the other draws fixed, j wins when its own draw passes a
                   threshold, which a neighbour moves by at most Δ (monotone) or 2Δ; an exponential tail pays
                   e^(Δ/scale) for that. Persons: e^(Δ_c/scale) for class c, and the product is the same.
    Assumes:       an exact exponential race on integer scores (`noise.race`).
    Reference:     McKenna and Sheldon (2020); Ding et al. (2021) for the noisy-max form.
    """

    name: ClassVar[str] = "permute-and-flip"

    def choose(self, scores: Integers, *, noise: NoiseSource) -> int:
        """Exponential race."""
        return noise.exponential_argmax(scores, self.scale)


@dataclass(frozen=True)
class LaplaceNoisyMax(Selection):
    """Chooses the largest score + discrete Laplace noise; for comparison with permute-and-flip.

    Releases:      one position per class.
    Guarantee:     SelectionEvent(ε), pure.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   the query's score range Δ, by the threshold argument of permute-and-flip: the tail of a
                   discrete Laplace draw falls by at most e^(Δ/scale) over Δ integer steps; and over Δ_c of
                   them where a person moves class c by so many. Ties go to the smaller position, a public
                   rule.
    Assumes:       an exact discrete Laplace sampler (`noise.integer_noise`).
    Reference:     Dwork and Roth (2014), Claim 3.9.
    """

    name: ClassVar[str] = "laplace"

    def choose(self, scores: Integers, *, noise: NoiseSource) -> int:
        """Argmax of noisy integers."""
        return int(np.argmax(scores + noise.discrete_laplace(self.scale, scores.shape)))


def for_each_class(choose: Callable[..., _Chosen], scores: Integers, noise: NoiseSource) -> list[_Chosen]:
    """`choose(scores of a class, noise=noise)` for each column, in order of class.

    Columns are copied out some at a time, so that a million candidates are read once and not once per class.
    A secure source has no state that an order could change, so it chooses for several classes side by side; a
    seeded one goes class by class, and repeats itself.
    """
    chosen: list[_Chosen] = []
    workers = 1 if noise.seeded else usable_cores()
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, scores.shape[1], _COLUMNS):
            block = scores[:, start : start + _COLUMNS]
            columns = np.empty(block.shape[::-1], dtype=np.int64)

            def copy(first: int, block: Integers = block, columns: Integers = columns) -> None:
                columns[:, first : first + _ROWS] = block[first : first + _ROWS].T

            for _ in pool.map(copy, range(0, len(block), _ROWS)):
                pass
            chosen += pool.map(lambda column: choose(column, noise=noise), columns)
    return chosen


SELECTIONS: dict[str, type[Selection]] = {
    mechanism.name: mechanism for mechanism in (ExponentialMechanism, PermuteAndFlip, LaplaceNoisyMax)
}
