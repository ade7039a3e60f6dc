"""Mechanisms as papers or their scripts have them, which are NOT PRIVATE, or not what they could be.

They run in the laboratory alone, beside the right ones, so that the difference can be seen. They are no
`PrivateMethod`: no plan, no ledger, no guarantee, and what they return cannot be saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dptransfer_lab.printed import (
    epsilon_delta,
    printed_mean_deviation,
    printed_steps,
    printed_theorem_noise,
    rho_of_budget,
)
from dptransfer_lab.printed_choices import PrintedTopK, ScriptedPublic
from dptransfer_lab.unprotected import PREFIX, NotPrivate, Unprotected, class_sums, nearest, unit_rows
from dptransfer_lab.without_noise import ClassMeans, Paragon

if TYPE_CHECKING:
    from dptransfer.privacy import Budget
    from dptransfer_lab.tasks import Task

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
