"""Prototypes from noisy sums of each class: their directions, their means, and CoinPress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base import checks
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.exact.cuda import DEVICES, use_cuda
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.about import PROTOTYPES, About, Positive, one_of
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, PrivateMethod, RowsTask, with_query
from dptransfer.privacy import LABEL_KEPT, Budget, Relation, Unit
from dptransfer.queries import ClassSums, ClassSumsAndCounts, RecentredSums
from dptransfer.release.heads import CosineHead, EuclideanHead


@dataclass(frozen=True)
class MeanPrototypes(EmbeddingMethod):
    """Noisy class sums: needs no public pool, and is the simplest to explain.

    One prototype per class: the noisy sum of its unit-norm rows.

    Releases:      the (classes, dimension) matrix of class sums, all classes at once.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `ClassSums`: 1 under add/remove, 2 under replace-one.
    Assumes:       declared classes; a public feature map.
    Reference:     Wahdany et al. (2025), Section 4.1. Printed there: class means with noise 2r/(n_c·√(2ρ)).
                   That noise tells n_c, which is private under add/remove (claimed ε = 1.99, true ε = 97.6
                   for a class of 5). Sums need no n_c, half the noise, and cosine needs no count; an empty
                   class is a prototype of pure noise, not an error.

    Attributes:
        features: `UnitNorm()`, `UnitNorm(pool=4)` to average neighbouring features first, or a `PublicMap`.
        device: where rows are mapped and summed, 'cpu' or 'cuda'; a setting of speed, which changes no sum.
    """

    device: Annotated[str, one_of(*DEVICES)] = "cpu"
    name: ClassVar[str] = "mean"
    about: ClassVar[About] = About(
        card="The sum of the private rows of each class was released with Gaussian noise, all classes in one "
        "release; a row is given the class whose sum it points along.",
        paper_names=("dppl-mean",),
        reference=f"{PROTOTYPES}, DPPL-Mean, with sums in place of means: the printed noise reveals class "
        "sizes.",
        family="From sums",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian release of all class sums."""
        use_cuda(self.device)  # refused, where there is none, before anything is charged
        query = ClassSums(self.outline(facts, public), len(facts.classes), bound=facts.bound)
        return self.calibrated_plan(lambda z: [GaussianMechanism(query, z, budget.relation)], budget)

    def run(self, task: RowsTask) -> Outcome:
        """Release the sums; their directions are the prototypes."""
        sums = with_query(task.plan.mechanisms[0], features=task.prepared, device=self.device)
        released = sums.release(*task.examples, noise=task.noise)
        return Outcome(CosineHead(released), (sums.event,))


@dataclass(frozen=True)
class MeanEstimation(EmbeddingMethod):
    """Noisy class sums and counts: where distances to class means are wanted.

    One centre per class: noisy sum of unit-norm rows ÷ noisy count.

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
        card="Sums and counts of the private rows of each class were released together with Gaussian noise; "
        "a row is given the class whose noisy mean is nearest.",
        reference="Zhu, Zhang: Mean Estimation Strikes Back! An Efficient Solution to Private "
        "Classification, Algorithm 1, with the noise recalibrated: the printed one is too small.",
        family="From sums",
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
        mechanism = with_query(task.plan.mechanisms[0], features=task.prepared, device=self.device)
        released = mechanism.release(*task.examples, noise=task.noise)
        counts = np.maximum(released[:, -1] / mechanism.query.exact_weight, self.smallest_count)
        return Outcome(EuclideanHead(released[:, :-1] / counts[:, None]), (mechanism.event,))


@dataclass(frozen=True)
class CoinPressPrototypes(EmbeddingMethod):
    """Noisy class sums around moving centres, replace-one only: for comparison, where class sizes are public.

    One prototype per class: a mean estimated in steps, each clipping around the previous estimate.

    Releases:      one (classes, dimension) matrix of recentred class sums per step.
    Guarantee:     one GaussianEvent per step; the shares of the squared GDP parameter follow `shares`.
    Relation:      replace one example by another of the same class: class sizes are declared and public. Not
                   comparable with add/remove methods without conversion.
    Sensitivity:   see `RecentredSums`: 2 per step.
    Assumes:       declared classes and class sizes, which stay as declared whatever the rows are.
    Reference:     Biswas et al. (2020); Wahdany et al. (2025), Appendices A.4 and C.2. With rows scaled to
                   norm √d: c₀ = 0, r₀ = √d, γ² = d + 2√(d ln 100) + 2 ln 100, clip = min(√(r² + 6r + γ²), r +
                   γ), mean noise s = 2·clip·z/n, r' = γ√(1/n + s²). Wrong class sizes cost accuracy, not
                   privacy: noise goes on sums, whose scale does not depend on them.

    Attributes:
        features: the public feature map.
        shares: how the budget is divided over the steps.
    """

    shares: tuple[float, ...] = (5 / 64, 7 / 64, 52 / 64)
    name: ClassVar[str] = "coinpress"
    about: ClassVar[About] = About(
        card="The mean of each class was estimated in a few steps, each with Gaussian noise and a smaller "
        "search region than the one before. Class sizes are public.",
        reference="Biswas, Dong, Kamath, Ullman: CoinPress (NeurIPS 2020).",
        family="From sums",
    )
    rows_only: ClassVar[str] = "it divides by public numbers of rows, which do not say how much persons count"
    plans_by_facts: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = (*PrivateMethod.assumptions, LABEL_KEPT)

    def __post_init__(self) -> None:
        """Check the shares."""
        super().__post_init__()
        for share in self.shares:
            checks.positive("shares", share)
        if not self.shares or abs(sum(self.shares) - 1) > 1e-9:
            raise ArgumentError(f"shares must add up to 1; got {self.shares!r}.")

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian release per step."""
        self.require_unit(facts)
        if budget.relation is not Relation.REPLACE_ONE:
            raise RelationMismatch(
                "CoinPress divides by public class sizes, so its guarantee is for replacing one example; "
                f"the budget is for {budget.relation.value}. Use Budget(..., relation=Relation.REPLACE_ONE) "
                "(on the command line: --relation replace-one), or the method 'mean'."
            )
        if facts.class_counts is None:
            raise ArgumentError(
                "CoinPress needs declared class sizes; none were declared. Pass class_counts=[...] "
                "(on the command line: --set data.class_counts=120,80,...) if they are public, or use the "
                "method 'mean'."
            )
        outline, classes = self.outline(facts, public), len(facts.classes)
        query = RecentredSums(outline, np.zeros((classes, outline.dimension)), np.ones(classes))

        def steps(total: float) -> list[GaussianMechanism]:
            return [GaussianMechanism(query, total / math.sqrt(s), budget.relation) for s in self.shares]

        return self.calibrated_plan(steps, budget)

    def run(self, task: RowsTask) -> Outcome:
        """Clip, release, recentre; every radius is a function of declared and released numbers."""
        dimension = task.prepared.dimension
        counts = np.maximum(np.array(task.facts.class_counts, dtype=np.float64), 1.0)
        length = math.sqrt(dimension)  # the analysis is for rows of norm √d; the query's rows have norm 1
        tail = math.sqrt(dimension + 2 * math.sqrt(dimension * math.log(100)) + 2 * math.log(100))
        centres = np.zeros((len(counts), dimension))
        radius = np.full(len(counts), length)
        events = []
        for step in task.plan.mechanisms:
            clip = np.minimum(np.sqrt(radius**2 + 6 * radius + tail**2), radius + tail)
            step = with_query(step, features=task.prepared, centres=centres / length, radii=clip / length)
            sums = step.release(task.private.rows, task.private.labels, noise=task.noise)
            centres = centres + clip[:, None] * sums / counts[:, None]
            radius = tail * np.sqrt(1 / counts + (clip * step.scale / counts) ** 2)
            events.append(step.event)
        return Outcome(CosineHead(centres), tuple(events))
