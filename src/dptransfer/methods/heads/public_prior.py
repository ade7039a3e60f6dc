"""Our own method: noisy counts, a centre and noisy gradient steps in public axes, or sums in public words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from dptransfer.base.progress import steps as counted
from dptransfer.base.types import Floats
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import STRETCHES, Features, FittedFeatures, FittedSideBySide, apply
from dptransfer.exact.lattice import LARGEST_DIMENSION
from dptransfer.exact.public_map import FittedPublicMap, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap
from dptransfer.mechanisms import GaussianShares, SharesLeft
from dptransfer.methods.about import About, Fraction, Moderate, NonNegative, Whole, one_of
from dptransfer.methods.heads.descent import HeadRows, head_rows
from dptransfer.methods.heads.hierarchical import class_weights, count_estimates, posterior, recentre
from dptransfer.methods.heads.public_start import (
    START_SHARE,
    ClassStart,
    notes_on_names,
    public_start,
    read_start,
    sources_of_start,
    with_known_names,
)
from dptransfer.methods.heads.words import CONFIDENCE_SHARE, read_words
from dptransfer.methods.method import EmbeddingMethod, Outcome, Outline, Plan, Task
from dptransfer.privacy import Bound, Budget, Unit
from dptransfer.queries import ClassCounts, ClassSums, L2Query, SoftmaxGradient, WeightedTotal
from dptransfer.release.heads import LinearHead, QuadraticHead

_AXES = 32  # axes kept, for every √(typical class ÷ noise); docs/methods/public-prior.md has what others give
_FEWEST_AXES = 64
_TAIL_AXES = 128
_LONG_TAIL = 1.15  # spread of log class sizes: up to 0.9 on sets that steps suit, 1.3 and more in long tails
_READABLE = 32.0  # smallest class, over the noise, from which steps suit a long tail too
_MOMENT_ROWS = 5_000  # public rows that say how much each axis varies; more change nothing
_INDEPENDENT_AXES = 25.6  # log densities are tempered as if rows had this many independent axes: they are not
_MOST_ENTRIES = 2**24  # rows · axes; where there are more rows, the last axes add nothing but time
_STEP_REACH = 16.0  # most that a step may move a logit by if all rows of a class of mean size pull as one


@dataclass(frozen=True)
class PublicPriorPrototypes(EmbeddingMethod):
    """Softmax regression in as many public axes as the classes are large beside the noise; the default.

    Releases:      noisy class counts; a noisy sum of all rows, around which the map is centred; noisy softmax
                   gradients of mapped rows, or class sums where classes have a long tail. Where class names
                   or labelled public rows say something about the classes, whether that helps. Where the
                   encoder has words of its own, how sure it is of them, and where it is, noisy class sums in
                   words. All in shares of one Gaussian budget.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; see
                   `GaussianShares`.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `ClassCounts`, `LikelihoodGain`, `WeightedTotal`, `SoftmaxGradient`, `ConfidenceTotal`,
                   `ClassSums`.
    Assumes:       declared classes; a public pool and a public feature map. How many axes are kept and what
                   words are worth is decided from the noisy counts and the noisy confidence, and the centre
                   from the noisy sum, which is post-processing; the shares add up to 1 on every path.
    Reference:     docs/methods/public-prior.md derives the rules and says what was measured.

    Attributes:
        features: the public feature map; fewer of its axes are used where classes are small.
        count_share: share of the budget for counts; they set scales only, so a little is enough.
        centre_share: share of the budget for the centre of the map; 0 to keep the pool's. A map without a
            centre has none to move, and spends it on steps.
        steps: how many gradient steps there are; up to twice as many where classes are very large.
        clip: norm that the residual of a row is clipped to.
        logit_noise: standard deviation of the noise that all steps together put on a logit of a unit row, in
            parts of log(classes), by which a logit must rise to be as likely as all others together; it sets
            how far the steps go.
        names: 'auto' to start from the class names where they are words and the encoder reads texts, or their
            rows come with the pool; 'off' to leave them out.
        form: 'steps' for all of this; 'sums' for counts and class sums in 128 axes at once, and a model of
            them, whatever the classes are like: less accurate, and no question waits for an answer.
    """

    features: Features = field(default_factory=lambda: PublicMap(axes=1024))
    count_share: Fraction = 0.03
    centre_share: NonNegative = 0.02
    steps: Whole = 30
    clip: Moderate = 0.3
    logit_noise: Moderate = 0.3
    names: Annotated[str, one_of("auto", "off")] = "auto"
    form: Annotated[str, one_of("steps", "sums")] = "steps"
    name: ClassVar[str] = "public-prior"
    about: ClassVar[About] = About(
        summary="Noisy class counts, a mean, then noisy gradient steps in axes that public data show: the "
        "default when there is a public pool.",
        card="Class counts, one mean of all private rows, and the gradients of softmax steps in axes learned "
        "from public data (class sums instead of gradients, if the classes have a long tail) were released "
        "with Gaussian noise. With a public start, or an encoder that has labels of its own, noisy measures "
        "of how well these fit and class sums over the labels were released, too. The noisy counts decided "
        "how the budget was divided, as the notes say.",
        reference="This library's own; docs/methods/public-prior.md in its repository derives it.",
        family="From sums",
        options={"steps": "Noisy steps."},
    )
    needs_public: ClassVar[bool] = True
    reads_words: ClassVar[bool] = True
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    @property
    def takes_words(self) -> bool:
        """Not in sums, but for a feature map that does."""
        return super().takes_words if self.form == "steps" else isinstance(self.features, VocabularyMap)

    @property
    def questions_at_once(self) -> int:
        """Counts and sums, where there is nothing else."""
        return 2 if self.form == "sums" else 1

    def __post_init__(self) -> None:
        """Refuse shares of which nothing is left."""
        super().__post_init__()
        spent = self.count_share + self.centre_share
        most = 1 - CONFIDENCE_SHARE - START_SHARE  # whether these are asked for shows only after the charge
        if spent >= most:
            raise ArgumentError(
                "count_share and centre_share must leave something for the gradient steps; they add up to "
                f"{spent:g}. Keep their sum below {most:g}."
            )

    def with_words(self, public: PublicEmbeddings | None, facts: Facts) -> PublicEmbeddings | None:
        """Add the words of the encoder, and what it makes of class names."""
        found = super().with_words(public, facts)
        if found is None or self.form == "sums":
            return found
        return with_known_names(found, facts) if self.names == "auto" else found.with_names(None)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian budget, spent in shares."""
        classes, bound = len(facts.classes), facts.bound
        described = self.with_words(public, facts)
        outline, words = self.outline(facts, public), _words_of(described)
        if self.form == "sums":
            width = min(_TAIL_AXES, outline.dimension) if self._has_axes else outline.dimension
            summing = ClassSums(Outline(width, facts.dimension), classes, bound=bound)
            said = "class counts, class sums, in shares"
            return self.calibrated_plan(lambda z: [GaussianShares(summing, z, budget.relation, said)], budget)
        zero = np.zeros((classes, 1))
        queries: list[L2Query] = [SoftmaxGradient(outline, zero, zero[:, 0], bound=bound)]
        label = "gradient steps, in shares"
        if words:
            queries.append(ClassSums(Outline(words, facts.dimension), classes, bound=bound))
            label = f"encoder confidence, class sums over the encoder's labels, {label}"
        if self._recentres:
            whole = Outline(facts.dimension, facts.dimension)
            queries.append(WeightedTotal(whole, np.ones(classes), _centre_count(bound), bound=bound))
            label = f"a centre, {label}"
        if sources := sources_of_start(described, facts):
            label = f"whether {' and '.join(sources)} help, {label}"
        largest = max(queries, key=lambda query: math.prod(query.shape))
        label = f"class counts, {label}"
        made = self.calibrated_plan(lambda z: [GaussianShares(largest, z, budget.relation, label)], budget)
        return replace(made, notes=notes_on_names(described, facts)) if self.names == "auto" else made

    def prepare(self, facts: Facts, public: PublicEmbeddings | None) -> _Maps:
        """The map into axes, the one into words where the encoder has some, and what is public of classes."""
        described, axes = self.with_words(public, facts), super().prepare(facts, public)
        # Side by side they must not be too wide for exact norms, which a run would find out after the charge.
        both_fit = axes.dimension + _words_of(described) <= LARGEST_DIMENSION
        has_words = _words_of(described) > 0 and both_fit and self.form == "steps"
        words = VocabularyMap().fit(facts.dimension, described) if has_words else None
        beside = axes.dimension + facts.dimension <= LARGEST_DIMENSION
        start = public_start(described, facts) if beside and self.form == "steps" else None
        return _Maps(axes, words, start)

    def run(self, task: Task[_Maps, PrivateEmbeddings, PublicEmbeddings | None]) -> Outcome:
        """Counts, words, a centre, steps; everything between them is post-processing."""
        shares, private = task.plan.single_step(GaussianShares), task.private
        purse = shares.open(noise=task.noise)
        spent = [f"{self.count_share:.0%} on counts"]
        counting = ClassCounts(len(task.facts.classes), bound=task.facts.bound)
        noisy = purse.release(counting, self.count_share, *task.examples)
        count_scale = purse.scale(counting, self.count_share)
        features = task.prepared.axes
        if self.form == "sums":
            if isinstance(features, FittedPublicMap):
                features = features.first(_TAIL_AXES)
            return self._from_sums(task, purse, features, noisy, spent)
        counts = count_estimates(noisy, count_scale)
        noise_of_sum = purse.scale(purse.budget.query, 1.0)
        typical = math.exp(float(np.log(counts).mean())) / noise_of_sum

        start, said = task.prepared.start, ""
        start = start if start is not None and start.may_help(typical) else None
        if start is not None:
            helps, said = read_start(purse, start, private, counts)
            spent.append(f"{START_SHARE:.0%} on whether {start.what} help")
            start = start if helps else None
        words, in_words = task.prepared.words, None
        if words is not None and start is None:
            in_words, on_words, part = read_words(purse, words, private, typical, noisy, count_scale)
            spent += on_words
            if in_words is not None and part == 1:
                alone = LinearHead(in_words, np.zeros(len(counts)))
                return Outcome(alone, (shares.event,), notes=(_note(spent, said),), features=words)

        sums_suit = (
            start is None
            and in_words is None
            and private.people is None
            and _has_long_tail(counts, noise_of_sum)
        )
        if isinstance(features, FittedPublicMap):
            readable = min(_AXES * math.sqrt(typical), _MOST_ENTRIES / float(counts.sum()))
            features = features.first(_TAIL_AXES if sums_suit else max(_FEWEST_AXES, round(readable)))
            if self._recentres:
                share = self.centre_share * (1 if in_words is None else purse.left)
                features = self._recentred(features, counts, purse, share, private)
                spent.append(f"{share:.0%} on the centre")
        if sums_suit:
            return self._from_sums(task, purse, features, noisy, spent, said)
        rest = purse.left
        axes, way = features.dimension, 1.0
        weights = np.zeros((len(counts), axes))
        if start is not None:
            features, way = FittedSideBySide(features, start.features), start.way(typical)
            weights = np.hstack([weights, STRETCHES[1] * start.beside(typical)])
        elif words is not None and in_words is not None:
            features = FittedSideBySide(features, words)
            # What all classes have in common tells none from another, and would cost steps their precision.
            weights = np.hstack([weights, STRETCHES[1] * (in_words - in_words.mean(axis=0))])
        seen = head_rows(features, private)
        weights, steps = self._descend(seen, weights, axes, counts, purse, rest, way)
        spent.append(f"{rest:.0%} on {steps} gradient steps in {axes} axes")
        weights[:, :axes] = _evened(weights[:, :axes])
        if in_words is not None:  # as they were read, so that the card can show them
            weights[:, axes:] = STRETCHES[1] * in_words
        linear = LinearHead(weights, np.zeros(len(counts)))
        return Outcome(linear, (shares.event,), notes=(_note(spent, said),), features=features)

    def _from_sums(
        self,
        task: Task[_Maps, PrivateEmbeddings, PublicEmbeddings | None],
        purse: SharesLeft,
        features: FittedFeatures,
        noisy: Floats,
        spent: list[str],
        said: str = "",
    ) -> Outcome:
        """Class sums for all that is left, and a model of them."""
        assert task.public is not None
        rest = purse.left
        count_scale = purse.scale(ClassCounts(len(noisy), bound=task.facts.bound), self.count_share)
        summing = ClassSums(features, len(noisy), bound=task.facts.bound)
        sums = purse.release(summing, rest, *task.examples)
        moment = (apply(features, task.public.rows[:_MOMENT_ROWS]) ** 2).mean(axis=0)
        model = posterior(sums, noisy, purse.scale(summing, rest), count_scale, moment)
        head = QuadraticHead(*model.predictive(), temperature=features.dimension / _INDEPENDENT_AXES)
        spent.append(f"{rest:.0%} on class sums in {features.dimension} axes")
        return Outcome(head, (purse.budget.event,), notes=(_note(spent, said),), features=features)

    @property
    def _has_axes(self) -> bool:
        return isinstance(self.features, PublicMap)

    @property
    def _recentres(self) -> bool:
        """Whether the map has a centre, and a share of the budget to move it."""
        return self._has_axes and self.centre_share > 0

    def _recentred(
        self,
        features: FittedPublicMap,
        counts: Floats,
        purse: SharesLeft,
        share: float,
        private: PrivateEmbeddings,
    ) -> FittedPublicMap:
        """The map around a mean of the private rows in which no class outweighs the typical one."""
        weights = class_weights(counts)
        counted = _centre_count(private.facts.bound)
        totalling = WeightedTotal(features.uncentred_rows, weights, counted, bound=private.facts.bound)
        total = purse.release(totalling, share, private.rows, private.labels, private.people)
        scale = purse.scale(totalling, share)
        size = float(weights @ counts)
        if counted:
            total, size = total[:-1], max(float(total[-1]) / counted, 1.0)
        return recentre(features, total, size, scale)

    def _descend(
        self,
        seen: HeadRows,
        start: Floats,
        axes: int,
        counts: Floats,
        purse: SharesLeft,
        share: float,
        way: float,
    ) -> tuple[Floats, int]:
        """Weights after the steps, of which only those of the axes moved, and how many steps there were.

        A step adds rate · (gradient + noise). T steps that share a budget have noise of √T times that of one
        with all of it, and add up to rate · T times that: so whatever T is, the noise they leave in every
        weight, and in the logit of a unit row, is as asked for if rate · T is that over the noise of one. How
        many there are matters only where that is a long way: no step may be longer than `_STEP_REACH`. Where
        `steps` such steps are less than it, they go half of the rest, in logarithms, and are up to twice as
        many: noise is not all that ends the way, and where classes are large and few a longer one pays.

        While steps are taken classes are as frequent as their counts, which prediction leaves out again.
        """
        bound = seen.private.facts.bound
        # A person's voice is shared by their classes, and of large ones there is enough without it.
        weights = None if bound.unit is Unit.ROW else class_weights(counts)
        heard = counts if weights is None else counts * weights
        query = SoftmaxGradient(
            seen.features, start, np.log(heard), clip=self.clip, along=axes, weights=weights, bound=bound
        )
        typical = float(counts.mean())
        noise = way * self.logit_noise * math.log(max(len(counts), 2))
        reach = noise / purse.scale(query, share) * typical
        far = math.sqrt(reach * _STEP_REACH * self.steps)
        taken = min(max(self.steps, math.ceil(far / _STEP_REACH)), 2 * self.steps)
        rate = min(reach / taken, _STEP_REACH) / typical
        found = start.copy()
        for _ in counted(taken, "noisy gradient step"):
            here = replace(query, linear=found)
            answer = purse.release(here, share / taken, *seen.examples)
            found[:, :axes] -= rate * answer
        return found, taken


class _Maps(NamedTuple):
    """What public data give: maps into axes, and into words where the encoder has some, and a start."""

    axes: FittedFeatures
    words: FittedVocabularyMap | None
    start: ClassStart | None


def _note(spent: list[str], said: str) -> str:
    """What the shares of the budget were spent on, as a sentence for the card, after what was found out."""
    return f"{said} Spent {', '.join(spent)} (shares of the budget, decided from the noisy counts).".lstrip()


def _has_long_tail(counts: Floats, noise: float) -> bool:
    """Whether sizes are so uneven that the weights of small classes would be noise.

    Of their sums a model of all classes can still make something: that a row unlike the others may be theirs.
    """
    uneven = float(np.log(counts).std()) > _LONG_TAIL
    return uneven and float(counts.min()) < _READABLE * noise


def _words_of(public: PublicEmbeddings | None) -> int:
    """Number of words of the pool's encoder; mostly 0."""
    vocabulary = None if public is None else public.vocabulary
    return 0 if vocabulary is None else len(vocabulary)


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
