"""K public points per class, chosen privately in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dptransfer import _check
from dptransfer.accounting import selection_epsilon_for
from dptransfer.compute.cuda import require_cuda
from dptransfer.compute.similarity import DEVICES, GRID_NORM
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError
from dptransfer.features import FittedFeatures
from dptransfer.mechanisms import TopKMechanism
from dptransfer.methods.base import Outcome, Plan, PrivateMethod, with_query
from dptransfer.methods.public_prototypes import unscored
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget
from dptransfer.queries.similarity import grid_rows
from dptransfer.release.heads import MeanCosineHead


@dataclass(frozen=True)
class TopKPrototypes(PrivateMethod):
    """K prototypes per class: public rows similar to the class's private rows, chosen as an unordered set.

    Releases:      K positions in the public pool per class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one example, or replace one example; the budget says which.
    Sensitivity:   see `SimilarityScores` and `TopKMechanism`.
    Assumes:       declared classes; a public pool of at least K rows and a public feature map.
    Reference:     Wahdany et al. (2025), Appendices C.3 and C.4, with the corrections derived in
                   `TopKMechanism`.

    Attributes:
        k: prototypes per class.
        features: the public feature map, applied to private and public rows alike.
        lowest: d_min, the smallest 1 + cosine that counts.
        highest: d_max, the largest that counts.
        precision: integer grid of the scores, 'float16' or 'int8'.
        device: where scores are computed, 'cpu' or 'cuda'; a setting of speed, which changes no score.
    """

    k: int = 5
    lowest: float = 0.0
    highest: float = 2.0
    precision: str = "float16"
    device: str = "cpu"
    name: ClassVar[str] = "top-k"
    needs_public: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        _check.whole("k", self.k)
        _check.one_of("precision", self.precision, GRID_NORM)
        _check.one_of("device", self.device, DEVICES)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One set per class, all classes together at the largest ε that fits."""
        if public is not None and len(public) < self.k:
            raise ArgumentError(
                f"Choosing {self.k} prototypes needs at least that many public rows; got {len(public)}. "
                "Lower k or use a larger pool."
            )
        if self.device == "cuda":
            require_cuda()  # before anything is charged
        query = unscored(
            self.outline(facts, public), len(facts.classes), self.lowest, self.highest, self.precision
        )
        epsilon = selection_epsilon_for(
            budget, lambda e: [TopKMechanism(query, self.k, e, budget.relation).event]
        )
        return self.make_plan([TopKMechanism(query, self.k, epsilon, budget.relation)], budget)

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """Score the pool, choose K rows per class, and classify by mean cosine to them."""
        assert public is not None
        candidates = grid_rows(features, public.rows, self.precision)
        (selection,) = (
            with_query(m, features=features, candidates=candidates, device=self.device)
            for m in plan.mechanisms
        )
        chosen = selection.release(private.rows, private.labels, noise=noise)
        prototypes = candidates[chosen] / float(GRID_NORM[self.precision])
        return Outcome(MeanCosineHead(prototypes), (selection.event,), prototypes=chosen.tolist())
