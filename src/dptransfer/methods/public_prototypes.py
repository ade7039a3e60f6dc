"""One public point per class, chosen privately."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from dptransfer import _check
from dptransfer.arrays import Floats
from dptransfer.mechanisms import SELECTIONS, Selection
from dptransfer.methods.about import VERMILION, About
from dptransfer.methods.citations import PROTOTYPES
from dptransfer.methods.pool_selection import PoolSelection
from dptransfer.privacy import Budget
from dptransfer.queries import SimilarityScores
from dptransfer.release.heads import CosineHead


@dataclass(frozen=True)
class PublicPrototypes(PoolSelection):
    """One prototype per class: the public row most similar to the class's private rows, chosen with noise.

    Releases:      one position in the public pool per class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one example, or replace one example; the budget says which.
    Sensitivity:   see `SimilarityScores`: each score moves by at most `highest` − `lowest`, monotone.
    Assumes:       declared classes; a public pool and a public feature map.
    Reference:     Wahdany et al. (2025), Section 4.2 and Appendix D.1. All classes together cost one ε,
                   because an example has one label.

    Attributes:
        mechanism: 'exponential', 'permute-and-flip', 'laplace', or 'best': permute-and-flip on a pure budget,
            where it is never worse, and exponential otherwise, since its bounded range composes better.
    """

    mechanism: str = "best"
    name: ClassVar[str] = "public"
    about: ClassVar[About] = About(
        summary="One public row per class: pure ε, and prototypes that can be shown as pictures.",
        card="For each class one public example was chosen as its prototype, with a probability that grows "
        "with its likeness to the private rows of that class; a row is given the class of the nearest "
        "prototype.",
        reference=f"{PROTOTYPES}, DPPL-Public.",
        family="From public rows",
        colour=VERMILION,
        marker="s",
        options={
            "mechanism": "How public rows are chosen.",
            "lowest": "Smallest similarity counted.",
            "highest": "Largest similarity counted.",
        },
    )
    checks: ClassVar[_check.Checks] = {"mechanism": partial(_check.one_of, allowed=[*SELECTIONS, "best"])}

    def selection(self, query: SimilarityScores, epsilon: float, budget: Budget) -> Selection:
        """The named mechanism, or the one that suits the budget."""
        best = "permute-and-flip" if budget.flavour == "pure" else "exponential"
        mechanism = SELECTIONS[best if self.mechanism == "best" else self.mechanism]
        return mechanism(query, epsilon, budget.relation)

    def head(self, prototypes: Floats) -> CosineHead:
        """Cosine to the one prototype of each class."""
        return CosineHead(prototypes[:, 0])
