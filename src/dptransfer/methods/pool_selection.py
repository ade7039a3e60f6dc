"""What methods share that choose prototypes from the public pool: scores, caps, grid and device."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.accounting import selection_epsilon_for
from dptransfer.arrays import Floats
from dptransfer.compute.device import DEVICES, use_cuda
from dptransfer.compute.similarity import GRID_NORM
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.features import FittedFeatures
from dptransfer.mechanisms import Selection, TopKMechanism
from dptransfer.methods.base import EmbeddingMethod, Outcome, Plan, with_query
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget
from dptransfer.queries import SimilarityScores
from dptransfer.queries.similarity import grid_rows
from dptransfer.release.heads import Head


@dataclass(frozen=True)
class PoolSelection(EmbeddingMethod):
    """Base of the methods whose prototypes are public rows; a subclass says how they are chosen and used.

    Releases:      positions in the public pool for each class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one example, or replace one example; the budget says which.
    Sensitivity:   see `SimilarityScores` and the subclass's mechanism.
    Assumes:       declared classes; a public pool and a public feature map.
    Reference:     see the subclasses.

    Attributes:
        features: the public feature map, applied to private and public rows alike.
        lowest: d_min, the smallest 1 + cosine that counts.
        highest: d_max, the largest that counts.
        precision: integer grid of the scores, 'float16' or 'int8'.
        device: where scores are computed, 'cpu' or 'cuda'; a setting of speed, which changes no score.
    """

    lowest: float = 0.0
    highest: float = 2.0
    precision: str = "float16"
    device: str = "cpu"
    needs_public: ClassVar[bool] = True
    checks: ClassVar[_check.Checks] = {  # and the query checks the caps
        "precision": partial(_check.one_of, allowed=GRID_NORM),
        "device": partial(_check.one_of, allowed=DEVICES),
    }

    @abstractmethod
    def selection(self, query: SimilarityScores, epsilon: float, budget: Budget) -> Selection | TopKMechanism:
        """The mechanism that chooses, at this ε."""

    @abstractmethod
    def head(self, prototypes: Floats) -> Head:
        """The head on (classes, chosen, dimension) prototypes."""

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """All classes together, at the largest ε that fits."""
        use_cuda(self.device)  # refused, where there is none, before anything is charged
        outline = self.outline(facts, public)
        query = SimilarityScores(
            features=outline,
            candidates=np.zeros((0, outline.dimension), dtype=np.int64),  # `run` puts the mapped pool here
            classes=len(facts.classes),
            lowest=self.lowest,
            highest=self.highest,
            precision=self.precision,
        )
        epsilon = selection_epsilon_for(budget, lambda e: [self.selection(query, e, budget).event])
        return self.make_plan([self.selection(query, epsilon, budget)], budget)

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
            with_query(step, features=features, candidates=candidates, device=self.device)
            for step in plan.mechanisms
        )
        chosen = selection.release(private.rows, private.labels, noise=noise)
        chosen = chosen.reshape(len(private.facts.classes), -1)  # one or several for each class
        prototypes = candidates[chosen] / float(GRID_NORM[self.precision])
        return Outcome(self.head(prototypes), (selection.event,), prototypes=chosen.tolist())
