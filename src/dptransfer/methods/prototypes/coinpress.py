"""CoinPress: class means by clipping around ever better centres; replace-one, with public class sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer.base import checks
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.about import BROWN, About
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, PrivateMethod, RowsTask, with_query
from dptransfer.privacy import LABEL_KEPT, Budget, Relation
from dptransfer.queries import RecentredSums
from dptransfer.release.heads import CosineHead


@dataclass(frozen=True)
class CoinPressPrototypes(EmbeddingMethod):
    """One prototype per class: a mean estimated in steps, each clipping around the previous estimate.

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
        summary="Noisy class sums around moving centres, replace-one only: for comparison, where "
        "class sizes are public.",
        card="The mean of each class was estimated in a few steps, each with Gaussian noise and a smaller "
        "search region than the one before. Class sizes are public.",
        reference="Biswas, Dong, Kamath, Ullman: CoinPress (NeurIPS 2020).",
        family="From sums",
        colour=BROWN,
        marker="P",
    )
    rows_only: ClassVar[str] = "it divides by public numbers of rows, which do not say how much persons count"
    plans_by_facts: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = (
        *PrivateMethod.assumptions,
        LABEL_KEPT,
    )

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
