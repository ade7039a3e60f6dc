"""Our own method: noisy counts, a centre, sums and perhaps gradient steps; public data do the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Floats
from dptransfer.compute.people import by_size
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.features import Features, FittedFeatures, FittedPublicMap, OnLattice, PublicMap, apply
from dptransfer.features.lattice import SUM_BITS
from dptransfer.mechanisms import GaussianShares, SharesLeft
from dptransfer.methods.about import INDIGO, About
from dptransfer.methods.base import EmbeddingMethod, Outcome, Outline, Plan
from dptransfer.methods.centre import class_weights, recentred
from dptransfer.methods.hierarchical import Posterior, count_estimates, posterior
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Bound, Budget, Relation, Unit
from dptransfer.queries import (
    ClassCounts,
    ClassSums,
    L2Query,
    SoftmaxGradient,
    WeightedClassSums,
    WeightedTotal,
)
from dptransfer.queries.softmax_gradient import ROW_NORM
from dptransfer.release.heads import QuadraticHead

_MOMENT_ROWS = 5_000  # public rows that say how much each axis varies; more change nothing
_INDEPENDENT_AXES = 25.6  # log densities are tempered as if rows had this many independent axes: they are not
_STEP_LENGTH = 1.6  # of one gradient step, per √class: at most 1.6 logits for a unit row and a class
_STEP_SIGNAL = 3.0  # rows, in norms of the noise on one step's gradient, from which steps lead anywhere


@dataclass(frozen=True)
class PublicPriorPrototypes(EmbeddingMethod):
    """Class means under a hierarchical prior learned from public rows; the default.

    Releases:      noisy class counts; a noisy sum of all rows, around which the map is centred; noisy class
                   sums of mapped rows; and, if the smallest class is well above the noise, noisy softmax
                   gradients. All in shares of one Gaussian budget.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; see
                   `GaussianShares`. Under replace-one counts of examples are free: they move only if a label
                   changes, and then sums move by √2 and not by 2.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `ClassCounts`, `WeightedTotal`, `ClassSums`, `WeightedClassSums`, `SoftmaxGradient`.
    Assumes:       declared classes; a public pool and a public feature map. How many axes are kept and
                   whether steps are taken is decided from the noisy counts, and the centre from the noisy
                   sum, which is post-processing; the shares add up to 1 on every path, for each kind of
                   neighbours.
    Reference:     docs/methods/public-prior.md derives the model and says what was measured.

    Attributes:
        features: the public feature map; fewer of its axes are used when the smallest class is small.
        fewest_axes: axes kept when the smallest class is small; doubled while it exceeds the noise in them.
        count_share: share of the budget for counts; they set scales only, so a little is enough.
        centre_share: share of the budget for the centre of the map; 0 to keep the pool's. A map without a
            centre has none to move, and spends it on sums.
        sum_share: share of the budget for sums when gradient steps follow.
        steps: how many gradient steps there are, if any are taken; 0 to never take any.
        step_threshold: steps are taken if the smallest class is this many times the noise of its gradient.
    """

    features: Features = field(default_factory=lambda: PublicMap(axes=256))
    fewest_axes: int = 128
    count_share: float = 0.03
    centre_share: float = 0.02
    sum_share: float = 0.37
    steps: int = 15
    step_threshold: float = 1.0
    name: ClassVar[str] = "public-prior"
    about: ClassVar[About] = About(
        summary="Noisy class counts, a mean and class sums in public axes, then noisy gradients "
        "where they pay: the default when there is a public pool.",
        card="Class counts, one mean of all private rows, and class sums in axes learned from public data "
        "were released with Gaussian noise; and, where classes are well above the noise, the gradients of a "
        "few steps. The notes say what was spent on what. A hierarchical model turned the noisy sums into "
        "class means with honest uncertainty, which is post-processing.",
        reference="This library's own; docs/methods/public-prior.md in its repository derives it.",
        family="From sums",
        colour=INDIGO,
        marker="D",
        options={"steps": "Noisy steps."},
    )
    needs_public: ClassVar[bool] = True
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    checks: ClassVar[_check.Checks] = {
        "fewest_axes": _check.whole,
        "count_share": _check.fraction,
        "centre_share": _check.non_negative,
        "sum_share": _check.fraction,
        "steps": partial(_check.whole, at_least=0),
        "step_threshold": partial(_check.moderate, or_zero=True),
    }

    def __post_init__(self) -> None:
        """Refuse shares of which nothing is left."""
        super().__post_init__()
        spent = self.count_share + self.centre_share + self.sum_share
        if spent >= 1:
            raise ArgumentError(
                "count_share, centre_share and sum_share must leave something for the gradient steps; they "
                f"add up to {spent:g}. Keep their sum below 1."
            )

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian budget, spent in shares."""
        classes = len(facts.classes)
        bound = facts.bound
        queries: list[L2Query] = [
            self._summing(self.outline(facts, public), np.ones(classes), bound, self.sum_share)
        ]
        label = "class counts, class sums and gradient steps, in shares"
        if self._recentres:
            whole = Outline(facts.dimension, facts.dimension)
            queries.append(WeightedTotal(whole, np.ones(classes), _centre_count(bound), bound=bound))
            label = "class counts, a centre, class sums and gradient steps, in shares"
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
        """Counts, a centre, sums, then perhaps steps; everything between them is post-processing."""
        assert public is not None
        (shares,) = plan.mechanisms
        assert isinstance(shares, GaussianShares)
        purse = shares.open(noise=noise)
        rows: AnyArray = private.rows
        labels, people, bound = private.labels, private.people, private.facts.bound

        counting = ClassCounts(len(private.facts.classes), bound=bound)
        counts = purse.release(counting, self.count_share, rows, labels, people)
        count_scale = purse.scale(counting, self.count_share)
        estimates = count_estimates(counts, count_scale)
        # Less one standard deviation, so that luck alone rarely makes the smallest class look large.
        smallest = float(estimates.min()) - count_scale
        if self._recentres and isinstance(features, FittedPublicMap):
            features = self._recentred(features, estimates, purse, rows, private)
        features = self._narrowed(features, smallest, purse)
        takes_steps = self._takes_steps(features, smallest, estimates, purse)

        if takes_steps:  # the rows are visited many times, so they are mapped once
            rows = features.lattice(rows, 2**SUM_BITS)
        sum_share = self.sum_share if takes_steps else self._main_share(purse)
        mapped = OnLattice(features.dimension, 2**SUM_BITS) if takes_steps else features
        summing = self._summing(mapped, class_weights(estimates), bound, sum_share)
        sums = purse.release(summing, sum_share, rows, labels, people)
        sum_scale = purse.scale(summing, sum_share)
        if isinstance(summing, WeightedClassSums):
            counts, count_scale = sums[:, -1] / summing.count_weight, sum_scale / summing.count_weight
            sums = sums[:, :-1]
        moment = (apply(features, public.rows[:_MOMENT_ROWS]) ** 2).mean(axis=0)
        model = posterior(sums, counts, sum_scale, count_scale, moment)

        axes = features.dimension
        spent = f"{self.count_share:.0%} of the budget on counts, "
        spent += f"{self.centre_share:.0%} on the centre, " if self._recentres else ""
        spent += f"{sum_share:.0%} on sums in {axes} axes"
        if takes_steps:
            spent += f", {self._steps_share(purse):.0%} on {self.steps} gradient steps"
            if bound.unit is Unit.PERSON:  # how frequent classes are, and not how they count in weighted sums
                model = replace(model, counts=estimates)
            head = self._descend(model, purse, rows, private)
        else:
            linear, offset, precision = model.predictive()
            head = QuadraticHead(linear, offset, precision, features.dimension / _INDEPENDENT_AXES)
        if _labels_tell(purse):
            spent += " (a label that stays moves no count, and one that changes moves sums less: "
            spent += "so beyond 100%)"
        note = f"Spent {spent}; decided from the noisy counts."
        return Outcome(head, (shares.event,), notes=(note,), features=features)

    def _summing(
        self, features: FittedFeatures, weights: Floats, bound: Bound, share: float
    ) -> ClassSums | WeightedClassSums:
        """Class sums for this share of the budget; those of persons bring counts of their own.

        A person counts in sums as far as these are long, and in counts as far as those are. So sums that are
        to be divided by counts release them together, as precise as the counts before.

        A person's voice v is shared by their classes. To make the sum over classes of the squared relative
        error, 1/(w_c·n_c)², smallest where Σ (w_c·n_c)² is given, all w_c·n_c are equal: weights fall as
        classes grow. No weight exceeds 1, so classes below the typical size keep what they have.
        """
        if bound.unit is Unit.ROW:
            return ClassSums(features, len(weights))
        counted = min(1.0, math.ceil(math.sqrt(self.count_share / share) * 2**16) / 2**16)
        return WeightedClassSums(features, weights, counted, bound=bound)

    @property
    def _recentres(self) -> bool:
        """Whether the map has a centre, and a share of the budget to move it."""
        return isinstance(self.features, PublicMap) and self.centre_share > 0

    def _main_share(self, purse: SharesLeft) -> float:
        """Share of the budget for sums and steps together.

        A replaced example whose label stays moves no count, so the others share all of the budget. One whose
        label changes spends on counts, and half of the sums' share: no more, as long as counts have at most
        half the share of sums.
        """
        counts = self.count_share
        if _labels_tell(purse):
            counts = max(0.0, counts - self.sum_share / 2)
        return 1 - counts - (self.centre_share if self._recentres else 0.0)

    def _steps_share(self, purse: SharesLeft) -> float:
        """Share of the budget for all steps, where steps are taken."""
        return self._main_share(purse) - self.sum_share

    def _recentred(
        self,
        features: FittedPublicMap,
        counts: Floats,
        purse: SharesLeft,
        rows: AnyArray,
        private: PrivateEmbeddings,
    ) -> FittedPublicMap:
        """The map around a mean of the private rows in which no class outweighs the typical one."""
        weights = class_weights(counts)
        counted = _centre_count(private.facts.bound)
        totalling = WeightedTotal(features.uncentred, weights, counted, bound=private.facts.bound)
        total = purse.release(totalling, self.centre_share, rows, private.labels, private.people)
        scale = purse.scale(totalling, self.centre_share)
        size = float(weights @ counts)
        if counted:
            total, size = total[:-1], max(float(total[-1]) / counted, 1.0)
        return recentred(features, total, size, scale)

    def _narrowed(self, features: FittedFeatures, smallest: float, purse: SharesLeft) -> FittedFeatures:
        """As many axes, in steps of doubling, as keep the noise of a class's sum below the smallest class."""
        if not isinstance(features, FittedPublicMap):
            return features
        axes = min(self.fewest_axes, features.dimension)
        while axes < features.dimension:
            more = min(2 * axes, features.dimension)
            if smallest < self._noise_norm(more, 1.0, purse):
                break
            axes = more
        return features.first(axes)

    def _takes_steps(
        self, features: FittedFeatures, smallest: float, counts: Floats, purse: SharesLeft
    ) -> bool:
        """Whether the smallest class, and all rows together, are large enough beside the noise of gradients.

        The smallest class beside the noise of its row in the sum of all steps; all rows, which a gradient is
        hardly longer than, beside the noise of one step.
        """
        if self.steps == 0:
            return False
        share = self._steps_share(purse)
        of_class = self._noise_norm(features.dimension, share, purse)
        of_step = self._noise_norm(features.dimension * len(counts), share / self.steps, purse)
        return bool(smallest >= self.step_threshold * of_class and counts.sum() >= _STEP_SIGNAL * of_step)

    def _noise_norm(self, dimension: int, share: float, purse: SharesLeft) -> float:
        """Norm of the noise on so many coordinates, at that share of the budget."""
        return purse.scale(purse.budget.query, share) * math.sqrt(dimension)

    def _descend(
        self, model: Posterior, purse: SharesLeft, mapped: AnyArray, private: PrivateEmbeddings
    ) -> QuadraticHead:
        """Softmax steps on top of the tempered posterior; the last half of the iterates is averaged.

        A step has a fixed length, so it needs no step size and no scale of the gradient; one of pure noise
        moves every coordinate by only length/√(classes·axes), and the posterior still decides.
        """
        classes, axes = model.means.shape
        # Toward zero, from the grid of the sums to that of the gradients: a row's norm can only shrink.
        # Exact: the quotient by a power of two is, and the cast cuts off what is behind the point.
        rows = (mapped / (2**SUM_BITS // ROW_NORM)).astype(np.int32)
        labels, people = private.labels, private.people
        if people is not None:  # each one's rows next to each other, once, so that no step has to
            order = by_size(people).order
            rows, labels, people = rows[order], labels[order], people[order]
        temper = _INDEPENDENT_AXES / axes
        linear, offset, precision = (temper * part for part in model.predictive())
        prior = np.log(model.counts)
        share = self._steps_share(purse) / self.steps
        weights, kept = np.zeros_like(linear), []
        for index in range(self.steps):
            query = SoftmaxGradient(
                OnLattice(axes, ROW_NORM),
                linear + weights,
                offset + prior,
                precision,
                bound=private.facts.bound,
            )
            gradient = purse.release(query, share, rows, labels, people)
            length = _STEP_LENGTH * math.sqrt(classes)
            weights = weights - length * gradient / max(float(np.linalg.norm(gradient)), 1e-12)
            if index >= self.steps // 2:
                kept.append(weights)
        return QuadraticHead(linear + np.mean(kept, axis=0), offset, precision)


def _centre_count(bound: Bound) -> float:
    """Weight of the count beside the sum that says where the centre is; 0 where counts are known already.

    A person's rows before centring are about half as long in sum as in number, and a half tells their number
    as precisely as the sum.
    """
    return 0.0 if bound.unit is Unit.ROW else 0.5


def _labels_tell(purse: SharesLeft) -> bool:
    """Whether neighbours differ in one example whose label stays or changes: persons have many labels."""
    return purse.budget.relation is Relation.REPLACE_ONE and purse.budget.query.unit is Unit.ROW
