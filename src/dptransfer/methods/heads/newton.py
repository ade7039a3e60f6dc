"""Softmax regression by noisy Newton steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.base.progress import steps as counted
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.mechanisms import GaussianRounds, rounds_of
from dptransfer.methods.about import FEATURES, TEAL, About
from dptransfer.methods.heads.gradient_head import head_rows
from dptransfer.methods.heads.least_squares import solved
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask
from dptransfer.methods.settings import Fraction, Moderate, Whole
from dptransfer.privacy import Budget, Unit
from dptransfer.queries import SecondMoments, SoftmaxGradient
from dptransfer.queries.second_moments import OfProbabilities
from dptransfer.release.heads import LinearHead


@dataclass(frozen=True)
class NewtonHead(EmbeddingMethod):
    """A few second-order steps: each class's gradient is divided by a noisy curvature of its own.

    The curvature of softmax regression is diag(p) − ppᵀ in the classes, times x xᵀ. Its upper bound diag(p)
    has one block Σ p_c(x)·x xᵀ per class: dividing by it is cautious, and the weights p have norm at most 1,
    so the release needs no clip.

    Releases:      per step, the sum of clipped gradients, and one second moment per class weighted by its
                   probability.
    Guarantee:     GaussianEvents: `steps` gradients at z/√(1 − share), `steps` curvatures at z/√share, with z
                   the smallest that fits.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient` and `SecondMoments`.
    Assumes:       declared classes; a public feature map. The noise of every class and step is independent.
    Reference:     Mehta et al. (2023), DP-Newton, with an upper bound in place of the Hessian.

    Attributes:
        features: the public feature map; the cost grows with the square of its width.
        steps: how many.
        share: of the budget that curvatures get.
        ridge: added to the diagonal, in units of 2·scale·√width, about the noise's spectral norm.
        clip: norm that each example's gradient is clipped to.
    """

    steps: Whole = 8
    share: Fraction = 0.5
    ridge: Moderate = 0.3
    clip: Moderate = 1.0
    name: ClassVar[str] = "newton"
    about: ClassVar[About] = About(
        summary="Noisy gradients and curvatures: few dimensions of unequal spread.",
        card="A linear softmax head was trained by a few second-order steps; every step saw the private rows "
        "only through a sum of clipped gradients and through a curvature matrix for each class, both with "
        "Gaussian noise. What divides the gradient is the noisy curvature, which is post-processing.",
        reference=f"{FEATURES}, DP-Newton, with an upper bound in place of the Hessian.",
        family="Linear heads",
        colour=TEAL,
        marker="d",
        options={"steps": "Noisy steps.", "clip": "Longest gradient of one example."},
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """Rounds of gradients and rounds of curvatures."""
        outline = self.outline(facts, public)
        zero = np.zeros((len(facts.classes), outline.dimension))
        gradient = SoftmaxGradient(outline, zero, np.zeros(len(zero)), bound=facts.bound)
        curvature = SecondMoments(outline, OfProbabilities(zero), bound=facts.bound)

        def rounds(z: float) -> list[GaussianRounds]:
            return [
                GaussianRounds(gradient, z / (1 - self.share) ** 0.5, budget.relation, self.steps),
                GaussianRounds(curvature, z / self.share**0.5, budget.relation, self.steps, "curvatures"),
            ]

        return self.calibrated_plan(rounds, budget)

    def run(self, task: RowsTask) -> Outcome:
        """Gradient, curvature, solve; and again."""
        of_gradients, of_curvatures = rounds_of(task.plan.mechanisms)
        gradients, curvatures = of_gradients.open(noise=task.noise), of_curvatures.open(noise=task.noise)
        bound = task.facts.bound
        weights = np.zeros((len(task.facts.classes), task.prepared.dimension))
        offset = np.zeros(len(weights))
        seen = head_rows(task.prepared, task.private)
        for _ in counted(self.steps, "noisy Newton step"):
            slope = SoftmaxGradient(seen.features, weights, offset, clip=self.clip, bound=bound)
            bend = SecondMoments(seen.features, OfProbabilities(weights), bound=bound)
            gradient = self.clip * gradients.release(slope, seen.rows, seen.labels, seen.people)
            curvature = bend.symmetric(curvatures.release(bend, seen.rows, seen.labels, seen.people))
            strength = self.ridge * bend.noise_norm(of_curvatures.scale)
            weights = weights - np.stack(
                [solved(own, against, strength) for own, against in zip(curvature, gradient, strict=True)]
            )
        return Outcome(LinearHead(weights, offset), task.plan.events)
