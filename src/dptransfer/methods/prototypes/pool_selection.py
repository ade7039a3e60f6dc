"""Prototypes chosen privately from the public pool: one public row for each class, or K of them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.accounting import selection_epsilon_for
from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact import cuda, public_map
from dptransfer.exact.capped_similarity import GRID_NORM
from dptransfer.exact.feature_map import Features, FittedFeatures
from dptransfer.mechanisms import SELECTIONS, Selection, TopKMechanism
from dptransfer.methods.about import PROTOTYPES, About, Whole, one_of
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask, with_query
from dptransfer.privacy import Budget, Unit
from dptransfer.queries import SimilarityScores, similarity
from dptransfer.release.heads import CosineHead, Head, MeanCosineHead

_CAPS = {"lowest": "Smallest similarity counted.", "highest": "Largest similarity counted."}

_AXES = 256  # of a public map, for every unit of ε: more axes spread similarities less, and noise hides them
_PASSING, _MOST_NOISE = 0.005, 4.0  # of chance pairs, for each example that noise is worth up to so many
_UNLIKE, _UNLIKE_CENTRED = 0.1, 0.5
_CAP_ROWS = 1024


def public_caps(pool: similarity.GridPool, members: int, noise: float) -> tuple[float, float]:
    """Caps on 1 + cosine from similarities within the pool: no private row is read, so they cost nothing.

    A capped score ÷ (highest − lowest) is the mean, over all thresholds between the caps, of the number of
    private rows that are more similar to the candidate than the threshold. Each such number has sensitivity
    1. It tells a good candidate from a chance one by the share of rows that pass for the first, less the
    share that passes for the second, and this difference is what the caps should make large on average. For
    a chance candidate the share is about that of random pairs of public rows. Where nearly all pairs pass,
    or nearly none, the difference is nearly nothing, and such thresholds only take part of the range.

    So the caps are quantiles of these similarities, behind the map. A threshold that a share p of chance
    pairs passes tells by some multiple of p·(rows of a class) at most; the rarer it is, the finer it tells,
    until that is lost in the noise: so p at the highest is in proportion to the noise. Constants: chosen with
    each of ten development sets left out (docs/methods/public.md). Half of all pairs are unlike where a map
    has centred the rows, and say nothing; plain rows have a direction in common.

    Products of rows on the grid are exact, so the caps do not depend on the machine. A pool whose rows are
    all alike has none.

    Args:
        pool: with the map.
        members: how many rows are chosen for a class: the noise of a set is in proportion to them.
        noise: how many examples, or persons, the noise of one choice is worth.
    """
    count = min(len(pool), _CAP_ROWS)
    rows = pool[np.arange(count) * len(pool) // count].astype(np.float64)
    one = float(GRID_NORM[pool.precision] ** 2)
    pairs = np.clip((rows @ rows.T)[np.triu_indices(count, 1)], -one, one)
    if not len(pairs) or pairs.min() == pairs.max():
        return 0.0, 2.0
    unlike = _UNLIKE_CENTRED if isinstance(pool.features, public_map.FittedPublicMap) else _UNLIKE
    shares = unlike, 1 - min(_PASSING * members * min(noise, _MOST_NOISE), 0.5)
    low, high = 1 + np.quantile(pairs, shares, method="lower") / one
    return (float(low), float(high)) if low < high else (0.0, 2.0)


@dataclass(frozen=True)
class PoolSelection(EmbeddingMethod):
    """Base of the methods whose prototypes are public rows; a subclass says how they are chosen and used.

    Releases:      positions in the public pool for each class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SimilarityScores` and the subclass's mechanism.
    Assumes:       declared classes; a public pool and a public feature map.
    Reference:     see the subclasses.

    Attributes:
        features: the public feature map, applied to private and public rows alike; of the axes of a
            `PublicMap` no more than 256 for every unit of ε from 1 on.
        lowest: d_min, the smallest 1 + cosine that counts. If neither is given, both are read off the pool,
            see `public_caps`.
        highest: d_max, the largest that counts.
        precision: integer grid of the scores, 'float16' or 'int8'.
        device: where scores are computed, 'cpu' or 'cuda'; a setting of speed, which changes no score.
    """

    lowest: float | None = None
    highest: float | None = None
    precision: Annotated[str, one_of(*GRID_NORM)] = "float16"
    device: Annotated[str, one_of(*cuda.DEVICES)] = "cpu"
    needs_public: ClassVar[bool] = True
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    @abstractmethod
    def selection(self, query: SimilarityScores, epsilon: float, budget: Budget) -> Selection:
        """The mechanism that chooses, at this ε."""

    @abstractmethod
    def head(self, prototypes: Floats) -> Head:
        """The head on (classes, chosen, dimension) prototypes."""

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """All classes together, at the largest ε that fits."""
        cuda.use_cuda(self.device)  # refused, where there is none, before anything is charged
        outline = self.outline(facts, public)
        query = SimilarityScores(
            features=outline,
            candidates=np.zeros((0, outline.dimension), dtype=np.int64),  # `run` puts the mapped pool here
            classes=len(facts.classes),
            lowest=self._own_caps[0],  # the widest that `run` may put here
            highest=self._own_caps[1],
            precision=self.precision,
            bound=facts.bound,
        )
        epsilon = selection_epsilon_for(budget, lambda e: [self.selection(query, e, budget).event])
        selection = self.selection(query, epsilon, budget)
        if selection.scale > selection.widest:
            raise BudgetError(
                f"The noise of '{selection.name}' must be at most {selection.widest:g} grid steps wide; this "
                f"budget asks for {selection.scale:g}. Raise epsilon: it allows no useful release."
            )
        return self.make_plan([selection], budget)

    @property
    def _own_caps(self) -> tuple[float, float]:
        """As they are set, or as wide as there are."""
        return self.lowest or 0.0, 2.0 if self.highest is None else self.highest

    @property
    def is_capped(self) -> bool:
        """Whether some similarities count for less or more than they are."""
        return (self.lowest, self.highest) == (None, None) or self._own_caps != (0.0, 2.0)

    def narrow(self, features: FittedFeatures, selection: Selection) -> FittedFeatures:
        """Keep as many axes of a public map as the noise allows."""
        if not isinstance(features, public_map.FittedPublicMap):
            return features
        epsilon = selection.query.score_range / selection.scale
        return features.first(round(_AXES * max(1.0, epsilon)))

    def caps(self, pool: similarity.GridPool, selection: Selection) -> tuple[float, float]:
        """Lowest and highest as they are set, or read off the pool."""
        if (self.lowest, self.highest) != (None, None):
            return self._own_caps
        return public_caps(pool, selection.members, selection.scale / selection.query.score_range)

    def run(self, task: RowsTask) -> Outcome:
        """Score the pool, choose, and take the chosen public rows as prototypes."""
        assert task.public is not None
        planned = task.plan.single_step(Selection)
        features = self.narrow(task.prepared, planned)
        candidates = similarity.GridPool(features, task.public.rows, self.precision)
        lowest, highest = self.caps(candidates, planned)
        how = {"device": self.device, "workers": task.public.workers, "lowest": lowest, "highest": highest}
        selection = with_query(planned, features=features, candidates=candidates, **how)
        chosen = selection.release(*task.examples, noise=task.noise)
        chosen = chosen.reshape(len(task.facts.classes), -1)  # one or several for each class
        prototypes = candidates[chosen.ravel()].reshape(*chosen.shape, -1) / float(GRID_NORM[self.precision])
        note = f"Caps on 1 + cosine: {lowest:.4f} and {highest:.4f}, from public rows or set."
        head = self.head(prototypes)
        return Outcome(head, (selection.event,), chosen.tolist(), notes=(note,), features=features)


@dataclass(frozen=True)
class PublicPrototypes(PoolSelection):
    """One public row per class: pure ε, and prototypes that can be shown as pictures.

    One prototype per class: the public row most similar to the class's private rows, chosen with noise.

    Releases:      one position in the public pool per class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SimilarityScores`: each score moves by at most `highest` − `lowest`, monotone.
    Assumes:       declared classes; a public pool and a public feature map.
    Reference:     Wahdany et al. (2025), Section 4.2 and Appendix D.1. All classes together cost one ε,
                   because an example has one label, and a person's rows share one range.

    Attributes:
        mechanism: 'exponential', 'permute-and-flip', 'laplace', or 'best': permute-and-flip on a pure budget,
            where it is never worse, and exponential otherwise, since its bounded range composes better.
    """

    mechanism: Annotated[str, one_of(*[*SELECTIONS, "best"])] = "best"
    name: ClassVar[str] = "public"
    about: ClassVar[About] = About(
        card="For each class one public example was chosen as its prototype, with a probability that grows "
        "with its likeness to the private rows of that class; a row is given the class of the nearest "
        "prototype.",
        paper_names=("dppl-public",),
        reference=f"{PROTOTYPES}, DPPL-Public.",
        family="From public rows",
        options={"mechanism": "How public rows are chosen.", **_CAPS},
    )

    def selection(self, query: SimilarityScores, epsilon: float, budget: Budget) -> Selection:
        """The named mechanism, or the one that suits the budget."""
        best = "permute-and-flip" if budget.flavour == "pure" else "exponential"
        mechanism = SELECTIONS[best if self.mechanism == "best" else self.mechanism]
        return mechanism(query, epsilon, budget.relation)

    def head(self, prototypes: Floats) -> CosineHead:
        """Cosine to the one prototype of each class."""
        return CosineHead(prototypes[:, 0])


@dataclass(frozen=True)
class TopKPrototypes(PoolSelection):
    """K public rows per class: like public, for more private rows.

    K prototypes per class: public rows similar to the class's private rows, chosen as an unordered set.

    Releases:      K positions in the public pool per class.
    Guarantee:     one SelectionEvent whose ε is the largest that fits the budget.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SimilarityScores` and `TopKMechanism`.
    Assumes:       declared classes; a public pool of at least K rows and a public feature map.
    Reference:     Wahdany et al. (2025), Appendices C.3 and C.4, with the corrections derived in
                   `TopKMechanism`.

    Attributes:
        features: the public feature map; by default axes of the pool, half-whitened, as many as ε allows:
            means of several rows gain from it what single rows do not (docs/methods/top-k.md).
        k: prototypes per class.
    """

    features: Features = field(default_factory=lambda: public_map.PublicMap(axes=1024))
    k: Whole = 5
    name: ClassVar[str] = "top-k"
    about: ClassVar[About] = About(
        card="For each class a set of public examples was chosen as prototypes, with a probability that "
        "grows with their likeness to the private rows of that class; a row is given the class whose "
        "prototypes are nearest on average.",
        paper_names=("dppl-public-top-k", "dppl-publick"),
        reference=f"{PROTOTYPES}, DPPL-PublicK, with the set weights corrected to C(y−1, K−1).",
        family="From public rows",
        options={"k": "Prototypes per class.", **_CAPS},
    )

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
        return TopKMechanism(query, epsilon, budget.relation, self.k)

    def head(self, prototypes: Floats) -> MeanCosineHead:
        """Mean cosine to the k prototypes of each class (equation 10)."""
        return MeanCosineHead(prototypes)
