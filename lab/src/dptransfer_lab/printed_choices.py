"""Choices from the public pool as DPPL's paper prints them, or as its script runs them. NOT PRIVATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dptransfer.errors import DataError
from dptransfer_lab.printed import printed_log_weights, script_epsilon, selection_epsilon
from dptransfer_lab.unprotected import PREFIX, FloatArray, Unprotected, class_sums, unit_rows

if TYPE_CHECKING:
    from dptransfer.privacy import Budget
    from dptransfer_lab.tasks import Task


@dataclass(frozen=True)
class ScriptedPublic:
    """DPPL-Public as its authors' script runs it: in float32, and at twice the pure ε that it is given.

    As printed it is private: Algorithm 1 and Theorem 3 of Wahdany et al. (2025) choose with weight
    exp(ε·u/Δ), which for a monotone score is ε-DP under add/remove. The script turns its setting ε into ρ =
    ε²/2, what any ε-DP step costs at most, and that into a selection at √(8ρ) = 2ε, the largest that costs
    ρ. So the ρ is true; the ε is half of the pure one. In float32 weights below e^−104 are 0, which no pure ε
    allows.
    """

    name: ClassVar[str] = PREFIX + "public"
    why: ClassVar[str] = (
        "the paper's algorithm is ε-DP, but its script selects at √(8ρ) with ρ = ε²/2, which is 2ε-DP; only "
        "the ρ is true"
    )

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit."""
        epsilon = script_epsilon(budget)
        pool, utility = _utilities(task, more_than=0)
        chosen = np.stack([self.choose(scores, epsilon, rng) for scores in utility])
        return _from_pool(task, pool, chosen, f"one choice per class at exponent {epsilon:.4g}")

    def choose(
        self, scores: FloatArray, epsilon: float, rng: np.random.Generator, *, times: int = 1
    ) -> NDArray[np.int64]:
        """Positions, by weights in float32."""
        exponents = np.float32(epsilon) * scores.astype(np.float32)
        weights = np.exp(exponents - exponents.max())
        chosen: NDArray[np.int64] = rng.choice(len(scores), times, p=weights / weights.sum())
        return chosen


@dataclass(frozen=True)
class PrintedTopK:
    """DPPL-PublicK as printed: worst rank y with weight C(y, K)·exp(ε·u/2Δ), where C(y−1, K−1) is right.

    Wahdany et al. (2025), Appendix C.3.

    Attributes:
        k: prototypes per class.
        from_zero: count ranks from 0 in the weight, as an array does: the best set then has probability 0.
    """

    k: int = 5
    from_zero: bool = False

    @property
    def name(self) -> str:
        """Its name in studies."""
        return PREFIX + ("top-k-from-zero" if self.from_zero else "top-k")

    @property
    def why(self) -> str:
        """What is wrong."""
        if self.from_zero:
            return "ranks counted from 0 give the best set probability 0, and its neighbour's best set too"
        return "C(y, K) counts sets whose worst member is another, so a set's weight depends on its rank"

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit."""
        epsilon = selection_epsilon(budget)
        pool, utility = _utilities(task, more_than=self.k)
        chosen = np.stack([self.choose(scores, epsilon, rng)[0] for scores in utility])
        return _from_pool(task, pool, chosen, f"K = {self.k} at exponent {epsilon:.4g}/2")

    def choose(
        self, scores: FloatArray, epsilon: float, rng: np.random.Generator, *, times: int = 1
    ) -> NDArray[np.int64]:
        """(times, K) positions: worst rank by the printed weight, the others uniform among better ones."""
        order = np.argsort(-scores, kind="stable")
        logits = (
            printed_log_weights(len(scores), self.k, from_zero=self.from_zero) + epsilon / 2 * scores[order]
        )
        worst = (logits + rng.gumbel(size=(times, len(order)))).argmax(axis=1)
        lots = rng.random((times, len(order)))
        lots[np.arange(len(order)) >= worst[:, None]] = 2.0  # only better ranks are drawn
        better = np.argpartition(lots, self.k - 1, axis=1)[:, : self.k - 1]
        chosen: NDArray[np.int64] = np.sort(order[np.column_stack([better, worst])], axis=1)
        return chosen


def _utilities(task: Task, *, more_than: int) -> tuple[FloatArray, FloatArray]:
    """The pool as unit rows, and for each class Σ (1 + cos) ÷ 2 of its candidates, of sensitivity 1."""
    if task.public is None:
        raise DataError("This chooses public rows; none were given. Name a pool in the study.")
    if len(task.public) <= more_than:
        raise DataError(f"Top-K needs more than {more_than} public rows; there are {len(task.public)}.")
    pool = unit_rows(task.public.rows)
    sums, counts = class_sums(task)
    return pool, (counts[:, None] + sums @ pool.T) / 2


def _from_pool(task: Task, pool: FloatArray, chosen: NDArray[np.int64], note: str) -> Unprotected:
    """A classifier by the mean of each class's chosen rows; `chosen` is (classes, K)."""
    rows = dict(zip(map(str, task.classes), chosen.tolist(), strict=True))
    return Unprotected(pool[chosen].mean(axis=1), np.zeros(len(chosen)), note=note, prototypes=rows)
