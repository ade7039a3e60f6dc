"""Heads from noisy second moments: least squares, Newton steps, and gradient descent in their metric.

A second moment has no negative eigenvalues, so those of a noisy one are noise; and the ridge keeps what is
left of them from being divided by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.base.progress import steps as counted
from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks, feature_map
from dptransfer.mechanisms import GaussianRounds, Step, joint_rounds, rounds_of
from dptransfer.methods.about import FEATURES, About, Fraction, Moderate, ModerateOrZero, Whole
from dptransfer.methods.heads.descent import STEP_OPTIONS, STEPS_SEE, HeadRows, UpdateRule, head_rows
from dptransfer.methods.heads.noisy_gd import NoisyGD
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Bound, Budget, Unit
from dptransfer.queries import ClassSums, L2Query, SecondMoments, SoftmaxGradient
from dptransfer.queries.second_moments import OfAll, OfClasses, OfProbabilities
from dptransfer.release.heads import LinearHead


def solve_ridge(matrix: Floats, target: Floats, ridge: float) -> Floats:
    """(matrix⁺ + ridge)⁻¹ target, for one target."""
    values, vectors = _floored(matrix, ridge)
    return vectors @ ((vectors.T @ target) / values)


def ridge_inverse(matrix: Floats, ridge: float) -> Floats:
    """(matrix⁺ + ridge)⁻¹ itself, for many targets."""
    values, vectors = _floored(matrix, ridge)
    return (vectors / values) @ vectors.T


def _floored(matrix: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Eigenvalues of matrix⁺ + ridge, and the eigenvectors."""
    with chunks.one_blas_thread(len(matrix)):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0) + ridge, vectors


@dataclass(frozen=True)
class LeastSquares(EmbeddingMethod):
    """Noisy second moments and class sums: few dimensions, many rows.

    One-against-all least squares: θ_c = (A_c + α·G + ridge)⁻¹ b_c, from noisy G, A_c and b_c.

    Without noise it minimises Σ_{i in c} (θ·x − 1)² + α·Σ_i (θ·x)² + ridge·‖θ‖²: ridge regression in which a
    class's own examples are weighted 1 + α with target 1/(1 + α), and the others α with target 0.

    Releases:      the second moment of all rows, that of each class's rows, and the class sums.
    Guarantee:     three GaussianEvents at one multiplier, the smallest that fits: 6.46 at ε = 1, δ = 1e-5.
                   Under replace-one a single GaussianEvent for all three (see `JointRounds`), and 5.94.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SecondMoments` and `ClassSums`, and `joint_reach` for the three at once: no pair of
                   rows is the worst for moments and sums, so they reach 81/32 where one by one they cost 3.
    Assumes:       declared classes; a public feature map. The noise of every class and matrix is independent.
    Reference:     Mehta et al. (2023), DP-LS. The published conversion needs 8.49 at ε = 1; the exact
                   composition of three Gaussian releases 6.46.

    Attributes:
        features: the public feature map; the cost grows with the square of its width.
        alpha: weight of the other classes' examples, α.
        ridge: added to the diagonal, in units of 2·scale·√width, about the noise's spectral norm.
    """

    alpha: ModerateOrZero = 1.0
    ridge: Moderate = 0.3
    name: ClassVar[str] = "least-squares"
    about: ClassVar[About] = About(
        card="Three things were released once, with Gaussian noise: the second moments of all private rows, "
        "those of each class, and the class sums. A regularised least-squares problem per class is solved "
        "from them.",
        paper_names=("dp-ls",),
        reference=f"{FEATURES}, DP-LS, with exact composition: noise multiplier 6.46 at epsilon 1 (5.94 "
        "under replace-one), where the published conversion needs 8.49.",
        family="Linear heads",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    @property
    def questions_at_once(self) -> int:
        """Moments of all and of each class, and sums."""
        return 3

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """Three Gaussian releases at one noise multiplier."""
        outline, classes = self.outline(facts, public), len(facts.classes)
        queries: tuple[L2Query, ...] = _queries(outline, classes, facts.bound)
        labels = ("second moment of all rows", "second moments of each class", "class sums")

        def steps(z: float) -> list[Step]:
            both = zip(queries, labels, strict=True)
            parts = [GaussianRounds(query, z, budget.relation, 1, label) for query, label in both]
            return joint_rounds(parts, "second moments and class sums, jointly")

        return self.calibrated_plan(steps, budget)

    def run(self, task: RowsTask) -> Outcome:
        """Release the three, then solve: post-processing."""
        seen = head_rows(task.prepared, task.private)
        everyone, each, sums = _queries(seen.features, len(task.facts.classes), task.facts.bound)
        asked: tuple[L2Query, ...] = (everyone, each, sums)
        paid = rounds_of(task.plan.mechanisms)
        moment, moments, targets = (
            rounds.open(noise=task.noise).release(query, *seen.examples)
            for rounds, query in zip(paid, asked, strict=True)
        )
        everything = self.alpha * everyone.symmetric(moment)[0]
        strength = self.ridge * each.noise_norm(paid[1].scale) * math.hypot(1, self.alpha)
        classes = zip(each.symmetric(moments), targets, strict=True)
        weights = np.stack([solve_ridge(own + everything, target, strength) for own, target in classes])
        # Scores of least squares are not log odds: spread them by their usual size.
        spread = max(0.1 * float(np.linalg.norm(weights)) / math.sqrt(len(weights)), 1e-12)
        head = LinearHead(weights, np.zeros(len(weights)), temperature=spread)
        return Outcome(head, task.plan.events)


def _queries(
    features: feature_map.FittedFeatures, classes: int, bound: Bound
) -> tuple[SecondMoments, SecondMoments, ClassSums]:
    everyone, each = (SecondMoments(features, of, bound=bound) for of in (OfAll(), OfClasses(classes)))
    return everyone, each, ClassSums(features, classes, bound=bound)


@dataclass(frozen=True)
class NewtonHead(EmbeddingMethod):
    """Noisy gradients and curvatures: few dimensions of unequal spread.

    A few second-order steps: each class's gradient is divided by a noisy curvature of its own.

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
        card="A linear softmax head was trained by a few second-order steps; every step saw the private rows "
        "only through a sum of clipped gradients and through a curvature matrix for each class, both with "
        "Gaussian noise. What divides the gradient is the noisy curvature, which is post-processing.",
        paper_names=("dp-newton",),
        reference=f"{FEATURES}, DP-Newton, with an upper bound in place of the Hessian.",
        family="Linear heads",
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
            gradient = self.clip * gradients.release(slope, *seen.examples)
            curvature = bend.symmetric(curvatures.release(bend, *seen.examples))
            strength = self.ridge * bend.noise_norm(of_curvatures.scale)
            steps = [solve_ridge(*both, strength) for both in zip(curvature, gradient, strict=True)]
            weights = weights - np.stack(steps)
        return Outcome(LinearHead(weights, offset), task.plan.events)


class _InMetric(UpdateRule):
    """The private gradient, times a released matrix, `metric`."""

    def read_released(self, paid: list[GaussianRounds], seen: HeadRows, noise: NoiseSource) -> None:
        """Take counts and the metric of the moment."""
        *counting, paid_moment = paid
        super().read_released(counting, seen, noise)
        query = SecondMoments(seen.features, OfAll(), bound=self.bound)
        released = paid_moment.open(noise=noise).release(query, *seen.examples)
        strength = self.method.ridge * query.noise_norm(paid_moment.scale)
        self.metric = ridge_inverse(query.symmetric(released)[0], strength)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The answer in the metric."""
        return answer @ self.metric

    def noise_norm(self, answer: Floats, scale: float) -> float:
        """Each class's noise has the covariance scale²·metric², whose trace is the squared norm to expect."""
        return scale * float(np.linalg.norm(self.metric)) * math.sqrt(len(answer))


@dataclass(frozen=True)
class FeatureCovariance(NoisyGD):
    """One noisy second moment, then noisy gradients: like newton, with more dimensions.

    Softmax regression with gradients divided by a noisy feature covariance, released once.

    Releases:      the second moment of all rows, then `steps` sums of clipped gradients.
    Guarantee:     GaussianEvents: the moment at z/√share, the gradients at z·√(steps/(1 − share)), with z the
                   smallest that fits. Under replace-one a single GaussianEvent for both: see `JointRounds`.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SecondMoments` and `SoftmaxGradient`, and `joint_reach` for both at once: no pair of
                   rows is the worst for moment and gradients, so with share = 0.2 the reach is 0.8 of what
                   they cost one by one (for `width` 1; about 1e-5·√width more for the moment's grid).
    Assumes:       declared classes; a public feature map; a start that is public.
    Reference:     Mehta et al. (2023), DP-FC.

    Attributes:
        share: of the budget that the second moment gets.
        ridge: added to the diagonal, in units of 2·scale·√width, about the noise's spectral norm.
    """

    share: Fraction = 0.2
    ridge: Moderate = 3.0
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    rule_kind: ClassVar[type[UpdateRule]] = _InMetric
    name: ClassVar[str] = "feature-covariance"
    about: ClassVar[About] = About(
        card="The second moments of the private rows were released once with Gaussian noise; a linear "
        f"softmax head was then trained by gradient descent in the metric they give, and {STEPS_SEE}.",
        paper_names=("dp-fc",),
        reference=f"{FEATURES}, DP-FC.",
        family="Linear heads",
        options=STEP_OPTIONS,
    )

    def __post_init__(self) -> None:
        """Refuse noise that is given."""
        super().__post_init__()
        if self.noise_multiplier is not None:
            raise ArgumentError(
                "'feature-covariance' finds its own noise, by `share`, for its two kinds of release; got "
                f"noise_multiplier={self.noise_multiplier!r}. Leave it out, and set steps or share."
            )

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One second moment, then rounds of gradients."""
        outline, steps = self.outline(facts, public), self.steps or self.default_steps
        moment = SecondMoments(outline, OfAll(), bound=facts.bound)
        gradient = self.planned_question(outline, facts)

        def releases(z: float) -> list[Step]:
            parts = [
                GaussianRounds(moment, z / self.share**0.5, budget.relation, 1),
                GaussianRounds(gradient, z * (steps / (1 - self.share)) ** 0.5, budget.relation, steps),
            ]
            counts = self.pre_steps(parts[1], outline, facts)
            return [*counts, *joint_rounds(parts, f"second moments and {steps} softmax gradients, jointly")]

        return self.calibrated_plan(releases, budget)
