"""Least squares from noisy second moments and class sums: no steps, one solve per class.

A second moment has no negative eigenvalues, so those of a noisy one are noise; and the ridge keeps what is
left of them from being divided by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.chunks import one_blas_thread
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.mechanisms import GaussianRounds, Step, jointly, rounds_of
from dptransfer.methods.about import FEATURES, GREEN, About
from dptransfer.methods.heads.gradient_head import head_rows
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask
from dptransfer.methods.settings import Moderate, ModerateOrZero
from dptransfer.privacy import Bound, Budget, Unit
from dptransfer.queries import ClassSums, L2Query, SecondMoments
from dptransfer.queries.second_moments import OfAll, OfClasses
from dptransfer.release.heads import LinearHead


def solved(matrix: Floats, target: Floats, ridge: float) -> Floats:
    """(matrix⁺ + ridge)⁻¹ target, for one target."""
    values, vectors = _floored(matrix, ridge)
    return vectors @ ((vectors.T @ target) / values)


def inverse(matrix: Floats, ridge: float) -> Floats:
    """(matrix⁺ + ridge)⁻¹ itself, for many targets."""
    values, vectors = _floored(matrix, ridge)
    return (vectors / values) @ vectors.T


def _floored(matrix: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Eigenvalues of matrix⁺ + ridge, and the eigenvectors."""
    with one_blas_thread(len(matrix)):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0) + ridge, vectors


@dataclass(frozen=True)
class LeastSquares(EmbeddingMethod):
    """One-against-all least squares: θ_c = (A_c + α·G + ridge)⁻¹ b_c, from noisy G, A_c and b_c.

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
        summary="Noisy second moments and class sums: few dimensions, many rows.",
        card="Three things were released once, with Gaussian noise: the second moments of all private rows, "
        "those of each class, and the class sums. A regularised least-squares problem per class is solved "
        "from them.",
        reference=f"{FEATURES}, DP-LS, with exact composition: noise multiplier 6.46 at epsilon 1 (5.94 "
        "under replace-one), where the published conversion needs 8.49.",
        family="Linear heads",
        colour=GREEN,
        marker="p",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """Three Gaussian releases at one noise multiplier."""
        outline, classes = self.outline(facts, public), len(facts.classes)
        queries: tuple[L2Query, ...] = _queries(outline, classes, facts.bound)
        labels = ("second moment of all rows", "second moments of each class", "class sums")

        def steps(z: float) -> list[Step]:
            parts = [
                GaussianRounds(query, z, budget.relation, 1, label)
                for query, label in zip(queries, labels, strict=True)
            ]
            return jointly(parts, "second moments and class sums, jointly")

        return self.calibrated_plan(steps, budget)

    def run(self, task: RowsTask) -> Outcome:
        """Release the three, then solve: post-processing."""
        seen = head_rows(task.prepared, task.private)
        everyone, each, sums = _queries(seen.features, len(task.facts.classes), task.facts.bound)
        asked: tuple[L2Query, ...] = (everyone, each, sums)
        answers, scales = [], []
        for paid, query in zip(rounds_of(task.plan.mechanisms), asked, strict=True):
            answers.append(paid.open(noise=task.noise).release(query, seen.rows, seen.labels, seen.people))
            scales.append(paid.scale)
        everything = everyone.symmetric(answers[0])[0]
        own = each.symmetric(answers[1])
        strength = self.ridge * each.noise_norm(scales[1]) * math.hypot(1, self.alpha)
        weights = np.stack(
            [
                solved(own_c + self.alpha * everything, target, strength)
                for own_c, target in zip(own, answers[2], strict=True)
            ]
        )
        return Outcome(LinearHead(weights, np.zeros(len(weights)), _temperature(weights)), task.plan.events)


def _queries(
    features: FittedFeatures, classes: int, bound: Bound
) -> tuple[SecondMoments, SecondMoments, ClassSums]:
    return (
        SecondMoments(features, OfAll(), bound=bound),
        SecondMoments(features, OfClasses(classes), bound=bound),
        ClassSums(features, classes, bound=bound),
    )


def _temperature(weights: Floats) -> float:
    """Scores of least squares are not log odds: spread them by their usual size."""
    return max(0.1 * float(np.linalg.norm(weights)) / math.sqrt(len(weights)), 1e-12)
