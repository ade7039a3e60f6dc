"""Our own method: noisy counts, a centre and noisy gradient steps in axes that public rows show."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.features import Features, FittedFeatures, FittedPublicMap, PublicMap
from dptransfer.mechanisms import GaussianShares, SharesLeft
from dptransfer.methods.about import INDIGO, About
from dptransfer.methods.base import EmbeddingMethod, Outcome, Outline, Plan
from dptransfer.methods.centre import class_weights, recentred
from dptransfer.methods.class_sizes import count_estimates
from dptransfer.methods.head_rows import HeadRows, head_rows
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Bound, Budget, Unit
from dptransfer.progress import steps as counted
from dptransfer.queries import ClassCounts, L2Query, SoftmaxGradient, WeightedTotal
from dptransfer.release.heads import LinearHead

_AXES = 32  # axes kept, for every √(typical class ÷ noise); docs/methods/public-prior.md has what others give
_FEWEST_AXES = 64
_STEP_REACH = 32.0  # most that a step may move a logit by if all rows of a class of mean size pull as one


@dataclass(frozen=True)
class PublicPriorPrototypes(EmbeddingMethod):
    """Softmax regression in as many public axes as the classes are large beside the noise; the default.

    Releases:      noisy class counts; a noisy sum of all rows, around which the map is centred; noisy softmax
                   gradients of mapped rows. All in shares of one Gaussian budget.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; see
                   `GaussianShares`.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `ClassCounts`, `WeightedTotal`, `SoftmaxGradient`.
    Assumes:       declared classes; a public pool and a public feature map. How many axes are kept and how
                   many steps are taken is decided from the noisy counts, and the centre from the noisy sum,
                   which is post-processing; the shares add up to 1 on every path.
    Reference:     docs/methods/public-prior.md derives the rules and says what was measured.

    Attributes:
        features: the public feature map; fewer of its axes are used where classes are small.
        count_share: share of the budget for counts; they set scales only, so a little is enough.
        centre_share: share of the budget for the centre of the map; 0 to keep the pool's. A map without a
            centre has none to move, and spends it on steps.
        steps: how many gradient steps there are, at least; up to twice as many where classes are very large.
        clip: norm that the residual of a row is clipped to.
        logit_noise: standard deviation of the noise that all steps together put on a logit of a unit row; it
            sets how far they go.
    """

    features: Features = field(default_factory=lambda: PublicMap(axes=1024))
    count_share: float = 0.03
    centre_share: float = 0.02
    steps: int = 30
    clip: float = 0.3
    logit_noise: float = 1.2
    name: ClassVar[str] = "public-prior"
    about: ClassVar[About] = About(
        summary="Noisy class counts, a mean, then noisy gradient steps in axes that public data show: the "
        "default when there is a public pool.",
        card="Class counts, one mean of all private rows, and the gradients of softmax steps in axes learned "
        "from public data were released with Gaussian noise. How many axes and steps there are was decided "
        "from the noisy counts; the notes say what was spent on what.",
        reference="This library's own; docs/methods/public-prior.md in its repository derives it.",
        family="From sums",
        colour=INDIGO,
        marker="D",
        options={"steps": "Noisy steps."},
    )
    needs_public: ClassVar[bool] = True
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    checks: ClassVar[_check.Checks] = {
        "count_share": _check.fraction,
        "centre_share": _check.non_negative,
        "steps": _check.whole,
        "clip": partial(_check.moderate),
        "logit_noise": _check.moderate,
    }

    def __post_init__(self) -> None:
        """Refuse shares of which nothing is left."""
        super().__post_init__()
        spent = self.count_share + self.centre_share
        if spent >= 1:
            raise ArgumentError(
                "count_share and centre_share must leave something for the gradient steps; they add up to "
                f"{spent:g}. Keep their sum below 1."
            )

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian budget, spent in shares."""
        classes, bound = len(facts.classes), facts.bound
        queries: list[L2Query] = [
            self._gradient(self.outline(facts, public), np.zeros((classes, 1)), np.ones(classes), bound)
        ]
        label = "class counts and gradient steps, in shares"
        if self._recentres:
            whole = Outline(facts.dimension, facts.dimension)
            queries.append(WeightedTotal(whole, np.ones(classes), _centre_count(bound), bound=bound))
            label = "class counts, a centre and gradient steps, in shares"
        largest = max(queries, key=lambda query: math.prod(query.shape))
        return self.calibrated_plan(lambda z: [GaussianShares(largest, z, budget.relation, label)], budget)

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """Counts, a centre, steps; everything between them is post-processing."""
        (shares,) = plan.mechanisms
        assert isinstance(shares, GaussianShares)
        purse = shares.open(noise=noise)
        counting = ClassCounts(len(private.facts.classes), bound=private.facts.bound)
        counts = count_estimates(
            purse.release(counting, self.count_share, private.rows, private.labels, private.people),
            purse.scale(counting, self.count_share),
        )
        features = self._narrowed(features, counts, purse)
        if self._recentres and isinstance(features, FittedPublicMap):
            features = self._recentred(features, counts, purse, private)
        weights, steps = self._descend(head_rows(features, private), counts, purse)
        centre = f"{self.centre_share:.0%} on the centre, " if self._recentres else ""
        note = (
            f"Spent {self.count_share:.0%} of the budget on counts, {centre}{self._steps_share:.0%} on "
            f"{steps} gradient steps in {features.dimension} axes; decided from the noisy counts."
        )
        head = LinearHead(_evened(weights), np.zeros(len(counts)))
        return Outcome(head, (shares.event,), notes=(note,), features=features)

    def _gradient(
        self, features: FittedFeatures, weights: Floats, counts: Floats, bound: Bound
    ) -> SoftmaxGradient:
        """Where to step; classes are as frequent as their counts, which prediction leaves out again."""
        return SoftmaxGradient(features, weights, np.log(counts), clip=self.clip, bound=bound)

    @property
    def _recentres(self) -> bool:
        """Whether the map has a centre, and a share of the budget to move it."""
        return isinstance(self.features, PublicMap) and self.centre_share > 0

    @property
    def _steps_share(self) -> float:
        """Share of the budget for all steps."""
        return 1 - self.count_share - (self.centre_share if self._recentres else 0.0)

    def _narrowed(self, features: FittedFeatures, counts: Floats, purse: SharesLeft) -> FittedFeatures:
        """As many axes as a class of typical size, beside the noise on one sum of rows, can be read in."""
        if not isinstance(features, FittedPublicMap):
            return features
        typical = math.exp(float(np.log(counts).mean())) / purse.scale(purse.budget.query, 1.0)
        return features.first(max(_FEWEST_AXES, round(_AXES * math.sqrt(typical))))

    def _recentred(
        self, features: FittedPublicMap, counts: Floats, purse: SharesLeft, private: PrivateEmbeddings
    ) -> FittedPublicMap:
        """The map around a mean of the private rows in which no class outweighs the typical one."""
        weights = class_weights(counts)
        counted = _centre_count(private.facts.bound)
        totalling = WeightedTotal(features.uncentred, weights, counted, bound=private.facts.bound)
        total = purse.release(totalling, self.centre_share, private.rows, private.labels, private.people)
        scale = purse.scale(totalling, self.centre_share)
        size = float(weights @ counts)
        if counted:
            total, size = total[:-1], max(float(total[-1]) / counted, 1.0)
        return recentred(features, total, size, scale)

    def _descend(self, seen: HeadRows, counts: Floats, purse: SharesLeft) -> tuple[Floats, int]:
        """Weights after the steps, and how many these were.

        A step adds rate · (gradient + noise). T steps that share a budget have noise of √T times that of one
        with all of it, and add up to rate · T times that: so whatever T is, the noise they leave in every
        weight, and in the logit of a unit row, is `logit_noise` if rate · T is that over the noise of one.
        How many there are matters only where that is a long way: no step may be longer than `_STEP_REACH`.
        """
        classes, axes, bound = len(counts), seen.features.dimension, seen.private.facts.bound
        weights = np.zeros((classes, axes))
        whole = purse.scale(self._gradient(seen.features, weights, counts, bound), self._steps_share)
        typical = float(counts.mean())
        reach = self.logit_noise / whole * typical
        taken = min(max(self.steps, math.ceil(reach / _STEP_REACH)), 2 * self.steps)
        rate = min(reach / taken, _STEP_REACH) / typical
        for _ in counted(taken, "noisy gradient step"):
            query = self._gradient(seen.features, weights, counts, bound)
            answer = purse.release(query, self._steps_share / taken, seen.rows, seen.labels, seen.people)
            weights = weights - rate * answer
        return weights, taken


def _evened(weights: Floats) -> Floats:
    """Weights around their mean, lengths of classes nearer to one another by a square root.

    Steps take a small class less far than a large one, and the length of its weights would then speak
    against it (Kang et al., "Decoupling representation and classifier for long-tailed recognition", 2020).
    """
    centred = weights - weights.mean(axis=0)
    lengths = np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    typical = np.exp(np.log(lengths).mean())
    evened: Floats = centred * np.sqrt(typical / lengths)
    return evened


def _centre_count(bound: Bound) -> float:
    """Weight of the count beside the sum that says where the centre is; 0 where counts are known already.

    A person's rows before centring are about half as long in sum as in number, and a half tells their number
    as precisely as the sum.
    """
    return 0.0 if bound.unit is Unit.ROW else 0.5
