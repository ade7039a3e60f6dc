"""One public point per class, chosen privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.accounting import selection_epsilon_for
from dptransfer.compute.cuda import require_cuda
from dptransfer.compute.similarity import DEVICES, GRID_NORM
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.features import FittedFeatures
from dptransfer.mechanisms import SELECTIONS
from dptransfer.methods.base import Outcome, Outline, Plan, PrivateMethod, with_query
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget
from dptransfer.queries import SimilarityScores
from dptransfer.queries.similarity import grid_rows
from dptransfer.release.heads import CosineHead


@dataclass(frozen=True)
class PublicPrototypes(PrivateMethod):
    """One prototype per class: the public row most similar to the class's private rows, chosen with noise.

    Releases:      one position in the public pool per class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one example, or replace one example; the budget says which.
    Sensitivity:   see `SimilarityScores`: each score moves by at most `highest` − `lowest`, monotone.
    Assumes:       declared classes; a public pool and a public feature map.
    Reference:     Wahdany et al. (2025), Section 4.2 and Appendix D.1. All classes together cost one ε,
                   because an example has one label.

    Attributes:
        features: the public feature map, applied to private and public rows alike.
        mechanism: 'exponential', 'permute-and-flip', 'laplace', or 'best': permute-and-flip on a pure budget,
            where it is never worse, and exponential otherwise, since its bounded range composes better.
        lowest: d_min, the smallest 1 + cosine that counts.
        highest: d_max, the largest that counts.
        precision: integer grid of the scores, 'float16' or 'int8'.
        device: where scores are computed, 'cpu' or 'cuda'; a setting of speed, which changes no score.
    """

    mechanism: str = "best"
    lowest: float = 0.0
    highest: float = 2.0
    precision: str = "float16"
    device: str = "cpu"
    name: ClassVar[str] = "public"
    needs_public: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        _check.one_of("mechanism", self.mechanism, [*SELECTIONS, "best"])
        _check.one_of("precision", self.precision, GRID_NORM)
        _check.one_of("device", self.device, DEVICES)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One selection per class, all classes together at the largest ε that fits."""
        best = "permute-and-flip" if budget.flavour == "pure" else "exponential"
        make = SELECTIONS[best if self.mechanism == "best" else self.mechanism]
        if self.device == "cuda":
            require_cuda()  # before anything is charged
        query = unscored(
            self.outline(facts, public), len(facts.classes), self.lowest, self.highest, self.precision
        )
        epsilon = selection_epsilon_for(budget, lambda e: [make(query, e, budget.relation).event])
        return self.make_plan([make(query, epsilon, budget.relation)], budget)

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """Score the pool, choose, and take the chosen public rows as prototypes."""
        assert public is not None
        candidates = grid_rows(features, public.rows, self.precision)
        (selection,) = (
            with_query(m, features=features, candidates=candidates, device=self.device)
            for m in plan.mechanisms
        )
        chosen = selection.release(private.rows, private.labels, noise=noise)
        prototypes = candidates[chosen] / float(GRID_NORM[self.precision])
        return Outcome(CosineHead(prototypes), (selection.event,), prototypes=chosen[:, None].tolist())


def unscored(
    outline: Outline, classes: int, lowest: float, highest: float, precision: str
) -> SimilarityScores:
    """The score query of a plan: everything but the mapped candidates."""
    candidates = np.zeros((0, outline.dimension), dtype=np.int64)
    return SimilarityScores(outline, candidates, classes, lowest, highest, precision)
