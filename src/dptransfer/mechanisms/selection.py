"""Select one or K public candidates per class: exponential, permute-and-flip, Laplace noisy max.

All take integer scores whose range per unit is Δ, as does `top_k`, and all add up over classes alike.

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

import sys
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dptransfer.base import checks, progress
from dptransfer.base.types import AnyArray, Integers, Labels, Owners
from dptransfer.errors import ArgumentError
from dptransfer.exact.cuda import on_host
from dptransfer.mechanisms import pool_choice, row_shares
from dptransfer.mechanisms.mechanism import ROUND_UP, exact_answer
from dptransfer.mechanisms.pool_choice import ScoredPool, ScoreTable
from dptransfer.noise import NoiseSource, noise_source
from dptransfer.noise.race import Candidate, Choice, ScoreBins
from dptransfer.privacy import Relation, SelectionEvent
from dptransfer.queries.query import ScoreQuery
from dptransfer.queries.similarity import PoolScores

_DRAWN_AT_ONCE = 2**23  # scores, 64 MiB of them; with another number a seed gives other noise


@dataclass(frozen=True)
class Selection:
    """Base of the selection mechanisms: the rate, the event, and a choice for each class."""

    query: ScoreQuery
    epsilon: float
    relation: Relation

    name: ClassVar[str]
    bounded_range: ClassVar[bool] = False
    widest: ClassVar[float] = sys.float_info.max
    """The largest `scale` that can be drawn."""

    def __post_init__(self) -> None:
        """Check ε."""
        checks.positive("epsilon", self.epsilon)

    @property
    def members(self) -> int:
        """How many candidates are chosen for each class."""
        return 1

    @property
    def scale(self) -> float:
        """Width of the noise in grid steps: Δ/ε under add/remove, 2Δ/ε under replace-one."""
        directions = 1 if self.relation is Relation.ADD_REMOVE else 2
        return directions * self.query.score_range / self.epsilon * ROUND_UP

    @property
    def event(self) -> SelectionEvent:
        """What it costs, for all classes together."""
        own = self.query
        return SelectionEvent(self.epsilon, self.relation, self.bounded_range, self.name, own.label, own.unit)

    def release(
        self, rows: AnyArray, labels: Labels, people: Owners = None, *, noise: NoiseSource
    ) -> Integers:
        """(classes,) positions of the chosen candidates, or (classes, members) where sets are chosen."""
        return noise.draw_once(self.query.label, lambda: self._draw(rows, labels, people, noise))

    def _draw(self, rows: AnyArray, labels: Labels, people: Owners, noise: NoiseSource) -> Integers:
        return self._sets(rows, labels, people, noise)[:, 0]

    def _sets(self, rows: AnyArray, labels: Labels, people: Owners, noise: NoiseSource) -> Integers:
        """(classes, members) positions."""
        scored, choice = self._candidates(rows, labels, people), partial(self.choice, noise=noise)
        return pool_choice.choose_candidates(scored, choice, self.scale, self.members, noise)

    def _candidates(self, rows: AnyArray, labels: Labels, people: Owners) -> ScoredPool:
        """The candidates with their scores, of which there must be enough."""
        row_shares.note(self, self.query, rows, labels, people)
        scored = _in_pieces(self.query, rows, labels, people)
        if len(scored) < self.members:
            raise ArgumentError(
                f"Choosing {self.members} candidates needs at least that many public rows; "
                f"got {len(scored)}. Lower k or use a larger pool."
            )
        return scored

    def choice(self, bins: ScoreBins, noise: NoiseSource) -> Choice:
        """The choice for one class; whoever draws noise for every candidate makes none."""
        raise NotImplementedError


def _in_pieces(query: ScoreQuery, rows: AnyArray, labels: Labels, people: Owners) -> ScoredPool:
    """The candidates of a query, scored a piece at a time where it can do that, or all at once."""
    if not hasattr(query, "pool_scores"):
        return ScoreTable(exact_answer(query, rows, labels, people))
    scored: PoolScores = query.pool_scores(rows, labels, people)
    return ScoreTable(scored.all(), candidate_bytes=scored.bytes_each) if scored.fits_here else scored


@dataclass(frozen=True)
class ExponentialMechanism(Selection):
    """Chooses candidate j with probability ∝ exp(score_j ÷ scale).

    Releases:      one position per class.
    Guarantee:     SelectionEvent(ε), bounded range: (ε²/8)-zCDP.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   the query's score range Δ. Adding a row multiplies each weight by a factor in [1, e^ε] and
                   the normaliser likewise, so log-ratios lie in an interval of length ε around 0. Persons: in
                   one of length ε·Δ_c/Δ for class c, and these lengths add up to ε at most.
    Assumes:       exact draws by integer scores (`noise.race`).
    Reference:     McSherry and Talwar (2007); Dong, Durfee and Rogers (2020) for bounded range.
    """

    name: ClassVar[str] = "exponential"
    bounded_range: ClassVar[bool] = True

    def choice(self, bins: ScoreBins, noise: NoiseSource) -> Choice:
        """A set of so many members."""
        return noise.best_set(bins, self.members, self.scale)


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
    Assumes:       exact draws by integer scores (`noise.race`).
    Reference:     McKenna and Sheldon (2020); Ding et al. (2021) for the noisy-max form.
    """

    name: ClassVar[str] = "permute-and-flip"

    def choice(self, bins: ScoreBins, noise: NoiseSource) -> Choice:
        """One candidate, by permute-and-flip."""
        return noise.permute_and_flip(bins, self.scale)


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
    widest: ClassVar[float] = noise_source.LARGEST_LAPLACE_SCALE

    def _draw(self, rows: AnyArray, labels: Labels, people: Owners, noise: NoiseSource) -> Integers:
        """Draw noise for every candidate, in order and in this process."""
        scored = self._candidates(rows, labels, people)
        best: dict[int, Candidate] = {}
        step = max(1, _DRAWN_AT_ONCE // scored.classes)  # not by files: a candidate has the same draw in any
        with pool_choice.unchanged_pool(scored):
            for start in range(0, len(scored), step):
                part = slice(start, min(start + step, len(scored)))
                scores = np.concatenate([on_host(slab) for slab in pool_choice.score_slabs(scored, part)])
                for own, column in enumerate(scores.T):
                    noisy = column + noise.discrete_laplace(self.scale, column.shape)
                    place = int(noisy.argmax())
                    if own not in best or noisy[place] > best[own].score:
                        best[own] = Candidate(start + place, int(noisy[place]))
                progress.tell(part.stop, len(scored), "public row")
        return np.array([best[own].position for own in range(scored.classes)], dtype=np.int64)


SELECTIONS: dict[str, type[Selection]] = {
    one.name: one for one in (ExponentialMechanism, PermuteAndFlip, LaplaceNoisyMax)
}


@dataclass(frozen=True)
class TopKMechanism(ExponentialMechanism):
    """The exponential mechanism over all sets of K candidates, with the worst member's score as utility.

    Releases:      K positions per class, without order.
    Guarantee:     SelectionEvent(ε), bounded range: (ε²/8)-zCDP.
    Relation:      add/remove one unit, or replace one unit: an example, or a person with all their examples.
    Sensitivity:   min over the set of scores that each rise by an integer in [0, Δ] rises by one in [0, Δ]:
                   monotone, range Δ. So exp(min·ε/Δ) is ε-DP under add/remove; replace-one halves the rate as
                   for single selections. Persons: the same with Δ_c for class c, where Σ Δ_c ≤ Δ.
    Assumes:       exact draws by integer scores (`noise.race`).
    Reference:     Wahdany et al. (2025), Appendix C.3, with two corrections. The printed utility subtracts
                   the K-th best score, which is the same for every set and cancels, so the factor 2 for a
                   non-monotone score is not needed. The number of sets whose worst member has rank y (1 is
                   best) is C(y−1, K−1): the member itself, and K−1 of the y−1 better ones. The printed
                   C(y, K) makes the loss exceed ε (11.95 at ε = 1 with 1.28 million candidates). Here sets
                   are counted by bins of scores, in whole numbers, and no rank and no logarithm is taken.
    """

    k: int = 1

    name: ClassVar[str] = "top-k"

    def __post_init__(self) -> None:
        """Check K and ε."""
        super().__post_init__()
        checks.whole("k", self.k)

    @property
    def members(self) -> int:
        """K."""
        return self.k

    def _draw(self, rows: AnyArray, labels: Labels, people: Owners, noise: NoiseSource) -> Integers:
        return self._sets(rows, labels, people, noise)
