"""Noisy class sums over noisy class counts, classified by the nearest centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.cuda import DEVICES, use_cuda
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.about import SKY, About
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask, with_query
from dptransfer.methods.settings import Positive, one_of
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.queries import ClassSumsAndCounts
from dptransfer.release.heads import EuclideanHead


@dataclass(frozen=True)
class MeanEstimation(EmbeddingMethod):
    """One centre per class: noisy sum of unit-norm rows ÷ noisy count.

    Releases:      the (classes, dimension + 1) matrix of class sums and weighted counts, all classes at once.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `ClassSumsAndCounts`: √(1 + w²) under add/remove, 2 under replace-one for w ≤ 1.
    Assumes:       declared classes; a public feature map.
    Reference:     Zhu and Zhang, "Mean Estimation Strikes Back", Algorithm 1. Its Theorem 2.1 is unsafe (see
                   `ClassSumsAndCounts`). A noisy count at or below zero would flip the centre, so it is
                   raised to `smallest_count`, which is post-processing.

    Attributes:
        features: the public feature map.
        count_weight: w, the weight of a count beside a sum. By default what leaves a centre the least noise:
            with variance σ² on every coordinate, a centre of norm a ≤ 1 in d dimensions moves by
            (σ/n)²·(d + a²/w²), squared. Under add/remove σ² grows like 1 + w², so w² = a/√d is best; a = 1 is
            taken, and w = d^(−1/4). Under replace-one σ is the same for all w up to 1, so w = 1.
        smallest_count: noisy counts below it are raised to it.
        device: where rows are mapped and summed, 'cpu' or 'cuda'; a setting of speed, which changes no sum.
    """

    smallest_count: Positive = 1.0
    device: Annotated[str, one_of(*DEVICES)] = "cpu"
    count_weight: Positive | None = None
    name: ClassVar[str] = "mean-estimation"
    about: ClassVar[About] = About(
        summary="Noisy class sums and counts: where distances to class means are wanted.",
        card="Sums and counts of the private rows of each class were released together with Gaussian noise; "
        "a row is given the class whose noisy mean is nearest.",
        reference="Zhu, Zhang: Mean Estimation Strikes Back! An Efficient Solution to Private "
        "Classification, Algorithm 1, with the noise recalibrated: the printed one is too small.",
        family="From sums",
        colour=SKY,
        marker="v",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian release of sums and counts together."""
        use_cuda(self.device)  # refused, where there is none, before anything is charged
        outline = self.outline(facts, public)
        weight = self.count_weight
        if weight is None:
            weight = outline.dimension**-0.25 if budget.relation is Relation.ADD_REMOVE else 1.0
        query = ClassSumsAndCounts(outline, len(facts.classes), weight=weight, bound=facts.bound)
        return self.calibrated_plan(lambda z: [GaussianMechanism(query, z, budget.relation)], budget)

    def run(self, task: RowsTask) -> Outcome:
        """Release sums and counts; centres are their quotients."""
        (planned,) = task.plan.mechanisms
        mechanism = with_query(planned, features=task.prepared, device=self.device)
        released = mechanism.release(*task.examples, noise=task.noise)
        counts = np.maximum(released[:, -1] / mechanism.query.exact_weight, self.smallest_count)
        return Outcome(EuclideanHead(released[:, :-1] / counts[:, None]), (mechanism.event,))
