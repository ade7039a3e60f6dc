"""K public points per class, chosen privately in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dptransfer import _check
from dptransfer.arrays import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import TopKMechanism
from dptransfer.methods.about import GOLD, About
from dptransfer.methods.base import Plan
from dptransfer.methods.citations import PROTOTYPES
from dptransfer.methods.pool_selection import PoolSelection
from dptransfer.privacy import Budget
from dptransfer.queries import SimilarityScores
from dptransfer.release.heads import MeanCosineHead


@dataclass(frozen=True)
class TopKPrototypes(PoolSelection):
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
    """

    k: int = 5
    name: ClassVar[str] = "top-k"
    about: ClassVar[About] = About(
        summary="K public rows per class: like public, for more private rows.",
        card="For each class a set of public examples was chosen as prototypes, with a probability that "
        "grows with their likeness to the private rows of that class; a row is given the class whose "
        "prototypes are nearest on average.",
        reference=f"{PROTOTYPES}, DPPL-PublicK, with the set weights corrected to C(y−1, K−1).",
        family="From public rows",
        colour=GOLD,
        marker="^",
        options={
            "k": "Prototypes per class.",
            "lowest": "Smallest similarity counted.",
            "highest": "Largest similarity counted.",
        },
    )
    checks: ClassVar[_check.Checks] = {"k": _check.whole}

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One set per class, all classes together at the largest ε that fits."""
        if public is not None and len(public) < self.k:
            raise ArgumentError(
                f"Choosing {self.k} prototypes needs at least that many public rows; got {len(public)}. "
                "Lower k or use a larger pool."
            )
        return super().plan(facts, budget, public)

    def selection(self, query: SimilarityScores, epsilon: float, budget: Budget) -> TopKMechanism:
        """The exponential mechanism over sets of k."""
        return TopKMechanism(query, self.k, epsilon, budget.relation)

    def head(self, prototypes: Floats) -> MeanCosineHead:
        """Mean cosine to the k prototypes of each class (equation 10)."""
        return MeanCosineHead(prototypes)
