"""Choosing an unordered set of K public candidates per class, in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers, Labels, People
from dptransfer.mechanisms.selection import Selection
from dptransfer.noise import NoiseSource
from dptransfer.noise.race import Choice
from dptransfer.noise.score_bins import ScoreBins


@dataclass(frozen=True)
class TopKMechanism(Selection):
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
    bounded_range: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check K and ε."""
        super().__post_init__()
        _check.whole("k", self.k)

    def _draw(self, rows: AnyArray, labels: Labels, people: People | None, noise: NoiseSource) -> Integers:
        return self._sets(self.k, rows, labels, people, noise)

    def choice(self, bins: ScoreBins, noise: NoiseSource) -> Choice:
        """A set of K."""
        return noise.best_set(bins, self.k, self.scale)
