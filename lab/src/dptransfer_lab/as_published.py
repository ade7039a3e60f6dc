"""Mechanisms as papers print them, or as their scripts run them, which are NOT PRIVATE or waste budget.

They run in the laboratory alone, beside the right ones, so that the difference can be seen. They are no
`PrivateMethod`: no plan, no ledger, no guarantee, and what they return cannot be saved. A study names them as
it names methods: see `method_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer.base.types import JsonObject
from dptransfer.errors import ArgumentError, BudgetError, DataError
from dptransfer.methods import ImageMethod, PrivateMethod, configuration_of
from dptransfer.methods.configuration import configure, named_method, setting_names
from dptransfer.privacy import Budget
from dptransfer_lab.unprotected import (
    PREFIX,
    WITHOUT_NOISE,
    ClassMeans,
    FloatArray,
    NotPrivate,
    Paragon,
    Unprotected,
    WithoutNoise,
    class_sums,
    nearest,
    unit_rows,
)

if TYPE_CHECKING:
    from dptransfer_lab.tasks import Task


def printed_mean_deviation(rho: float, counts: NDArray[np.int64]) -> FloatArray:
    """2r/(n·√(2ρ)) with r = 1."""
    return np.asarray(2.0 / (counts * math.sqrt(2 * rho)), dtype=np.float64)


def printed_theorem_noise(epsilon: float, delta: float) -> float:
    """The smallest σ that meets the printed condition Φ(1/2σ − σε/2) − e^ε·Φ(−1/2σ − σε/2) ≤ δ/2.

    >>> round(printed_theorem_noise(1.0, 1e-5), 2)
    1.23
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(sigma: float) -> float:
        near, far = 1 / (2 * sigma), sigma * epsilon / 2
        return float(ndtr(near - far) - math.exp(epsilon) * ndtr(-near - far)) - delta / 2

    return float(brentq(excess, 1e-6, 1e6, xtol=1e-15))


def printed_log_weights(candidates: int, k: int, *, from_zero: bool = False) -> FloatArray:
    """Log C(y, K) for the ranks y = 1, 2, ... of all candidates, or y = 0, 1, ...; −∞ where it is 0.

    >>> np.exp(printed_log_weights(4, 2)).round(6).tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    from scipy.special import gammaln

    rank = np.arange(candidates, dtype=np.float64) + (0 if from_zero else 1)
    with np.errstate(invalid="ignore"):
        log = gammaln(rank + 1) - gammaln(k + 1) - gammaln(np.maximum(rank - k, 0) + 1)
    weights: FloatArray = np.where(rank >= k, log, -np.inf)
    return weights


def printed_steps(rho: float, noise_multiplier: float) -> int:
    """The largest T with T²/2σ² ≤ ρ.

    >>> printed_steps(0.0359, 20.0)
    5
    """
    return math.floor(noise_multiplier * math.sqrt(2 * rho))


def rho_of_budget(budget: Budget) -> float:
    """ρ of Gaussian noise that spends the budget exactly."""
    if budget.rho is not None:
        return budget.rho
    if budget.mu is not None:
        return budget.mu**2 / 2
    if budget.flavour == "pure":
        raise BudgetError("Gaussian noise has no pure guarantee; give delta > 0, or rho.")
    assert budget.epsilon is not None
    return mu_for(budget.epsilon, budget.delta) ** 2 / 2


def epsilon_delta(budget: Budget) -> tuple[float, float]:
    """(ε, δ) of the budget."""
    if budget.flavour == "pure":
        raise BudgetError("Gaussian noise has no pure guarantee; give delta > 0.")
    if budget.epsilon is not None:
        return budget.epsilon, budget.delta
    return epsilon_of_mu(math.sqrt(2 * rho_of_budget(budget)), budget.delta), budget.delta


def script_epsilon(budget: Budget) -> float:
    """ε of the selection that DPPL's script runs: it takes ρ = ε²/2 for the ε it is given, and then √(8ρ).

    >>> script_epsilon(Budget.pure(1.0))
    2.0
    """
    rho = rho_of_budget(budget) if budget.epsilon is None else budget.epsilon**2 / 2
    return math.sqrt(8 * rho)


def selection_epsilon(budget: Budget) -> float:
    """ε of a selection: the budget's own if it is pure, else √(8ρ), which is ρ-zCDP."""
    if budget.flavour == "pure":
        assert budget.epsilon is not None
        return budget.epsilon
    return math.sqrt(8 * rho_of_budget(budget))


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


_REACH = 50.0  # length of the whole path of a descent, per √class


@dataclass(frozen=True)
class PrintedMean:
    """DPPL-Mean as printed: the mean of each class plus Gaussian noise of deviation 2r/(n_c·√(2ρ)).

    Wahdany et al. (2025), Section 4.1 and Appendix A.4, say add/remove. The deviation depends on the private
    n_c, which it therefore reveals: no ρ holds, and small classes are exposed most.
    """

    name: ClassVar[str] = PREFIX + "mean"
    why: ClassVar[str] = "the noise's deviation is a function of the private class size, and reveals it"

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit."""
        rho = rho_of_budget(budget)
        sums, counts = class_sums(task)
        deviation = printed_mean_deviation(rho, np.maximum(counts, 1))
        means = sums / np.maximum(counts, 1)[:, None] + deviation[:, None] * rng.standard_normal(sums.shape)
        return nearest(means, f"noise of deviation 2/(n·√(2ρ)) at ρ = {rho:.4g}")


@dataclass(frozen=True)
class PrintedMeanEstimation:
    """Mean estimation with the noise of its Theorem 2.1: 1.23 at ε = 1, δ = 1e-5, where 5.276 is needed."""

    name: ClassVar[str] = PREFIX + "mean-estimation"
    why: ClassVar[str] = (
        "Theorem 2.1 prints the Gaussian curve with σε/2 for σε, and leaves out that a count moves too"
    )

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit."""
        scale = printed_theorem_noise(*epsilon_delta(budget))
        sums, counts = class_sums(task)
        noisy = sums + scale * rng.standard_normal(sums.shape)
        released = counts + scale * rng.standard_normal(counts.shape)
        centres = noisy / np.where(released == 0, 1.0, released)[:, None]
        offset = -0.5 * (centres**2).sum(axis=1)  # nearest centre: x·q − ‖q‖²/2
        return Unprotected(centres, offset, note=f"noise of deviation {scale:.4g} on sums and counts")


@dataclass(frozen=True)
class PrintedNoisyGD:
    """NoisyGD with the printed ρ = T²/2σ² (it is T/2σ²): not unsafe but wasteful, with far too few steps.

    Golatkar et al. (2022), Algorithm 1.

    Attributes:
        noise_multiplier: σ.
    """

    noise_multiplier: float = 20.0
    name: ClassVar[str] = PREFIX + "noisy-gd"
    why: ClassVar[str] = (
        "ρ = T²/2σ² overstates the cost of T steps, so the budget is not used up; the noise here is float"
    )

    def fit(self, task: Task, budget: Budget, rng: np.random.Generator) -> Unprotected:
        """Fit."""
        from scipy.special import softmax

        steps = max(1, printed_steps(rho_of_budget(budget), self.noise_multiplier))
        rows, target = unit_rows(task.rows), np.eye(len(task.classes))[task.labels]
        weights = average = np.zeros((target.shape[1], rows.shape[1]))
        for step in range(1, steps + 1):
            miss = softmax(rows @ weights.T, axis=1) - target
            clipped = miss / np.maximum(1.0, np.linalg.norm(miss, axis=1, keepdims=True))
            gradient = clipped.T @ rows + self.noise_multiplier * rng.standard_normal(weights.shape)
            # The library's own pace: lengths that fall linearly, later iterates counting for more.
            length = _REACH * np.sqrt(len(weights)) * 2 * (steps + 1 - step) / (steps * (steps + 1))
            weights = weights - length * gradient / np.linalg.norm(gradient)
            average = average + 2 * step / (steps * (steps + 1)) * weights
        note = f"{steps} steps at noise {self.noise_multiplier:g}"
        return Unprotected(average, np.zeros(len(average)), temperature=1.0, note=note)


AS_PUBLISHED: dict[str, NotPrivate] = {
    one.name: one
    for one in (
        PrintedMean(),
        PrintedMeanEstimation(),
        ScriptedPublic(),
        PrintedTopK(),
        PrintedTopK(from_zero=True),
        PrintedNoisyGD(),
        Paragon(),
        ClassMeans(),
    )
}
"""What a study may name beside the methods; every one of them is marked NOT PRIVATE wherever it is shown."""


def method_of(name: str, given: JsonObject) -> PrivateMethod | NotPrivate | WithoutNoise:
    """What runs under this name with these settings.

    >>> method_of("mean", {}).name
    'mean'
    >>> method_of("as-published-mean-without-noise", {}).method.name
    'mean'
    """
    if name.startswith(PREFIX) and name.endswith(WITHOUT_NOISE):
        return WithoutNoise(named_method(name.removeprefix(PREFIX).removesuffix(WITHOUT_NOISE), given))
    return named_method(name, given) if is_private(name) else _printed(name, given)


def settings_of(name: str, given: JsonObject) -> JsonObject:
    """All settings, JSON-ready: what was given, and the defaults of the rest."""
    method = method_of(name, given)
    whole: JsonObject = configuration_of(method.method if isinstance(method, WithoutNoise) else method)
    return {field: value for field, value in whole.items() if field != "type"}


def is_private(name: str) -> bool:
    """Whether it is a private method; all others run here alone, and are marked NOT PRIVATE.

    >>> is_private("mean"), is_private("as-published-mean")
    (True, False)
    """
    return not name.startswith(PREFIX)


def sees_pictures(method: PrivateMethod | NotPrivate | WithoutNoise) -> TypeGuard[ImageMethod]:
    """Whether it takes pictures; what is printed takes rows."""
    return isinstance(method.method if isinstance(method, WithoutNoise) else method, ImageMethod)


def _printed(name: str, given: JsonObject) -> NotPrivate:
    if name not in AS_PUBLISHED:
        raise ArgumentError(f"A printed mechanism is one of {', '.join(AS_PUBLISHED)}; got '{name}'.")
    default: Any = AS_PUBLISHED[name]
    known = setting_names(default)
    if not set(known) >= given.keys():
        its = ", ".join(known) or "none"
        raise ArgumentError(f"A setting must be a field of '{name}'; got {dict(given)}. Its settings: {its}.")
    chosen: Any = configure(default, given)
    if chosen.name != name:
        raise ArgumentError(f"These settings make another mechanism, '{chosen.name}'; name that one instead.")
    return cast(NotPrivate, chosen)
