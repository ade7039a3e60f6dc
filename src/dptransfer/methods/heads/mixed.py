"""Heads for mixed public and private data: AdaMix, whose clip is a quantile, and its baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from dptransfer.base.types import Floats, Labels
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact import chunks, feature_map
from dptransfer.methods.about import MIXED, RIGHT_STEPS, About, Fraction, Moderate, ModerateOrZero, Whole
from dptransfer.methods.heads import start as starts
from dptransfer.methods.heads.descent import STEP_OPTIONS, STEPS_SEE, GradientHead, UpdateRule
from dptransfer.methods.heads.noisy_gd import NoisyGD
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask
from dptransfer.privacy import Budget, Unit
from dptransfer.queries import L2Query
from dptransfer.release.heads import Head, LinearHead

SMALLEST_CLIP = 0.3  # shots that are fitted well have hardly any gradient left to take a quantile of
REUSES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # pulls toward the private head that the shots are asked about

_PARTS = 5  # that the shots are cut into to choose among them
_SCALES = 2.0 ** np.arange(-3, 6)  # of logits, whose length says nothing about their order
_INDISTINCT = 1.92  # nats of log likelihood of all shots: the 95 % limit of a likelihood ratio of one number


class _LedByShots(UpdateRule):
    """What the public rows say at the current weights; `clip` is that of the latest question.

    Attributes:
        shots: mapped rows and their labels.
        axes: (dimension, axes) that steps look along; None for all.
    """

    def read_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Map the shots, and find the axes that their gradient has at zero weights."""
        self.shots = starts.mapped_shots(self.features, facts, public)
        self.axes: Floats | None = None
        if self.method.axes is not None:
            # Left singular vectors of the (dimension, classes) gradient: right ones of ours.
            gradient = starts.residuals(np.zeros_like(self.start), *self.shots).T @ self.shots[0]
            count = self.method.axes_of(self.features.dimension, len(facts.classes))
            with chunks.one_blas_thread(min(gradient.shape)):
                self.axes = np.linalg.svd(gradient, full_matrices=False)[2][:count].T

    def question(self, weights: Floats, features: feature_map.FittedFeatures) -> L2Query:
        """The private gradient, clipped and projected as the public one says."""
        residual = starts.residuals(weights, *self.shots)
        self.public_gradient = residual.T @ self.shots[0]
        if self.method.quantile is not None:
            norms = starts.gradient_norms(residual, self.shots[0])
            self.clip = max(float(np.quantile(norms, self.method.quantile)), SMALLEST_CLIP)
        return self.clipped_gradient(weights, features, projection=self.axes)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The private gradient, back from its axes and units, and the public one."""
        private = answer if self.axes is None else answer @ self.axes.T
        beside: Floats = self.method.public_weight * self.public_gradient
        return self.clip * private + beside

    def noise_norm(self, answer: Floats, scale: float) -> float:
        """The answer is in units of the step's clip, and carrying it back from its axes lengthens nothing."""
        return self.clip * scale * math.sqrt(answer.size)


@dataclass(frozen=True)
class AdaMix(NoisyGD):
    """Softmax regression on public shots and private rows together, each adaptive part switchable.

    Every step takes its clip from a quantile of the public gradients' norms, asks the private rows for their
    clipped gradient, along the public gradient's axes if `axes` says so, and adds the public gradient to the
    answer. Private rows are asked as rows whose classes have the sizes that a noisy count said, so that the
    weights learn what tells classes apart, as the shots do, and not which of them is large.

    Releases:      the class counts, then `steps` sums of clipped gradients over all rows, with Gaussian
                   noise. Counts that are declared public are not released.
    Guarantee:     GaussianEvents: `steps` gradients at z, and counts at z·√((1 − share)/(share·steps)) with
                   share = `count_share`; together √(steps/(1 − share))/z-GDP, exactly.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`: in units of the step's clip it does not depend on the clip; and
                   `ClassCounts`.
    Assumes:       declared classes; labelled public rows, which the private rows did not influence. Clips and
                   axes come from public rows and released weights.
    Reference:     Golatkar et al. (2022), Section 3.2 and Algorithm 2, with T/2σ² for the printed T²/2σ². The
                   gradient is clipped after the projection, which only shortens it, so that less is cut off.
                   Printed there: axes of the public gradient at the current weights. Weights that fit the
                   shots leave it nothing but what the hardest shots lack; here the axes are those at zero
                   weights, where it spans what tells the shots' classes apart. The counts are ours; what they
                   are for is the adjusted softmax of Ren et al. (2020) and Menon et al. (2021).

    Attributes:
        features: the public feature map.
        steps: how many; by default 30, or as many as the budget allows at the given noise.
        noise_multiplier: noise of one step ÷ clip; by default as small as the budget allows.
        pace: how far the steps go; beside a public start less far where classes are small beside the noise.
        device: where gradients are computed; a projection needs 'cpu'.
        start: where the weights start, and what weight decay pulls toward.
        quantile: of the public gradients' norms that a step's clip is; None for the fixed `clip`.
        clip: norm that each example's gradient is clipped to, where no quantile is taken.
        axes: how many singular vectors of the public gradient the steps look along; None, the default, for
            all axes: what few shots leave out is more than what the smaller noise gains.
        public_weight: how often a public example counts for one private one.
        count_share: share of the budget, in μ², for class counts; 0 to take the private classes for as large
            as one another. Free where class sizes are declared.
    """

    start: starts.FromZero | starts.FromShots | starts.FromNames = field(default_factory=starts.FromShots)
    quantile: Fraction | None = 0.9
    axes: Whole | None = None
    public_weight: ModerateOrZero = 1.0
    rule_kind: ClassVar[type[UpdateRule]] = _LedByShots
    name: ClassVar[str] = "adamix"
    about: ClassVar[About] = About(
        summary="Noisy class counts, and noisy gradients whose clip labelled public rows choose: a "
        "few labelled examples per class are public.",
        card="A linear softmax head was trained on private rows and a few labelled public rows together; "
        f"{STEPS_SEE}. Class sizes were declared, counted with noise or not used. Start, clips and axes were "
        "fixed or came from public data, which are not protected.",
        paper_names=("mixed-dp",),
        reference=f"{MIXED}, Algorithm 2, {RIGHT_STEPS}",
        family="Linear heads that need labelled public rows",
        options=NoisyGD.about.options,
    )
    needs_public: ClassVar[bool] = True

    @property
    def devices(self) -> tuple[str, ...]:  # type: ignore[override]  # one class variable depends on a setting
        """A projected gradient is computed on the CPU."""
        return super().devices if self.axes is None else ("cpu",)

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Labelled rows, and what the start needs."""
        super().require_public(facts, public)
        starts.labelled_rows(facts, public)

    def planned_question(self, outline: feature_map.FittedFeatures, facts: Facts) -> L2Query:
        """A gradient in as many axes as a step looks along."""
        width, classes = outline.dimension, len(facts.classes)
        axes = None if self.axes is None else np.eye(width, self.axes_of(width, classes))
        return self.planned_gradient(outline, facts, projection=axes)

    @property
    def uses_counts(self) -> bool:
        """Whether class sizes are looked at: the shots are in the loss, whatever the start is."""
        return self.count_share > 0

    def axes_of(self, width: int, classes: int) -> int:
        """A public gradient has as many singular vectors as its smaller side."""
        return width if self.axes is None else min(self.axes, width, classes)


@dataclass(frozen=True)
class OnlyPublic(EmbeddingMethod):
    """Nothing about private rows, ε = 0: where labelled public rows suffice, and the baseline to beat.

    Softmax regression on the labelled public rows; no private row is looked at.

    Releases:      nothing about the private rows.
    Guarantee:     ε = 0: there is no event.
    Relation:      either.
    Sensitivity:   0.
    Assumes:       labelled public rows that the private rows did not influence.
    Reference:     Golatkar et al. (2022), Section 4, "Only-Public".

    Attributes:
        features: the public feature map.
        start: how the shots are fitted.
    """

    start: starts.FromShots | starts.FromNames = field(default_factory=starts.FromShots)
    name: ClassVar[str] = "only-public"
    about: ClassVar[About] = About(
        card="A linear softmax head was fitted to labelled public rows. No private row was used.",
        paper_names=("adamix-only-public",),
        reference=f"{MIXED}, the baseline Only-Public.",
        family="Without private rows",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    needs_public: ClassVar[bool] = True

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """What the start needs."""
        super().require_public(facts, public)
        self.start.require(facts, public)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """No steps."""
        return self.make_plan([], budget, facts.unit)

    def run(self, task: RowsTask) -> Outcome:
        """The start is all there is."""
        weights = self.start.weights(task.prepared, task.facts, task.public)
        return Outcome(LinearHead(weights, np.zeros(len(weights))), ())


class _WithShots(UpdateRule):
    """The private gradient, in units of the clip, and that of public rows, if there are any, clipped too."""

    def read_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Map the shots of declared classes."""
        shots = None if public is None or public.shots is None else public.shots.labelled
        known = shots is not None and set(shots.classes) <= set(facts.classes)
        self.shots = starts.mapped_shots(self.features, facts, public) if known else None

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The sum over all rows."""
        if self.shots is None:
            return answer
        return answer + starts.clipped_gradient(weights, *self.shots, self.clip) / self.clip


@dataclass(frozen=True)
class FullyPrivate(GradientHead):
    """Noisy gradients over all rows: the baseline of adamix that treats public rows as private.

    Labelled public rows, if there are any, add their clipped gradients to the noisy sums: the noise of a sum
    is that of a sum over all rows.

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps).
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`.
    Assumes:       declared classes.
    Reference:     Golatkar et al. (2022), Section 4, "Fully-Private".

    Attributes:
        clip: norm that each example's gradient is clipped to.
    """

    clip: Moderate = 0.3
    rule_kind: ClassVar[type[UpdateRule]] = _WithShots
    name: ClassVar[str] = "fully-private"
    about: ClassVar[About] = About(
        card=f"A linear softmax head was trained from zero by full-batch gradient descent; {STEPS_SEE}. "
        "Labelled public rows, if there were any, were treated like them, but are not protected.",
        paper_names=("adamix-fully-private",),
        reference=f"{MIXED}, the baseline Fully-Private, {RIGHT_STEPS}",
        family="Linear heads",
        options={**STEP_OPTIONS, "clip": "Longest gradient of one example."},
    )


@dataclass(frozen=True)
class NGD(AdaMix):
    """Noisy gradients over all rows: the baseline of adamix with one clip and all axes.

    AdaMix without its adaptive parts: public shots start it and are in its loss; one clip, all axes.

    Releases:      the class counts, then `steps` sums of clipped gradients over all rows, as of `AdaMix`.
    Guarantee:     GaussianEvents, as of `AdaMix`.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient` and `ClassCounts`.
    Assumes:       declared classes; labelled public rows that the private rows did not influence.
    Reference:     Golatkar et al. (2022), Section 4, "NGD".
    """

    quantile: float | None = None
    name: ClassVar[str] = "ngd"
    about: ClassVar[About] = About(
        card="A linear softmax head was trained on private rows and a few labelled public rows together; "
        f"{STEPS_SEE}. Start and clip were fixed or came from public data, which are not protected.",
        paper_names=("adamix-ngd",),
        reference=f"{MIXED}, the ablation NGD, {RIGHT_STEPS}",
        family="Linear heads that need labelled public rows",
        options=AdaMix.about.options,
    )


class MeanClip(UpdateRule):
    """The private gradient, clipped to the norm of the mean public one; shots are fitted near its head."""

    def read_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Map the shots."""
        self.shots = starts.mapped_shots(self.features, facts, public)

    def question(self, weights: Floats, features: feature_map.FittedFeatures) -> L2Query:
        """The clipped gradient at these weights."""
        mean = starts.clipped_gradient(weights, *self.shots) / len(self.shots[0])
        self.clip = max(float(np.linalg.norm(mean)), SMALLEST_CLIP)
        return self.clipped_gradient(weights, features)

    def head(self, weights: Floats) -> Head:
        """The shots, fitted near the private model."""
        reuse = self.method.reuse
        centre, strength = (weights, reuse) if reuse else pull_of_shots(*self.shots, weights)
        return super().head(starts.fitted_softmax(*self.shots, centre, strength))


def pull_of_shots(rows: Floats, labels: Labels, weights: Floats) -> tuple[Floats, float]:
    """What a fit is pulled toward and how strongly: the strongest pull that the shots do not refute.

    Nothing is pulled toward the private head, `weights`, where the shots alone predict better.
    """
    if np.bincount(labels).max() < 2:  # nobody can be left out
        return weights, REUSES[0]
    axes = np.linalg.qr(rows.T)[0]  # of the shots: nothing else of a fit changes their logits
    inside, seen = rows @ axes, weights @ axes
    losses = {one: loss_left_out(inside, labels, seen, one) for one in REUSES}
    good, strength = min(losses.values()) + _INDISTINCT, starts.FromShots.strength
    if loss_left_out(inside, labels, 0 * seen, strength) < good - _INDISTINCT:
        return 0 * weights, strength
    return weights, max(one for one, loss in losses.items() if loss <= good)


def loss_left_out(rows: Floats, labels: Labels, weights: Floats, reuse: float) -> float:
    """Log loss of the shots at the best scale, each predicted by a fit without its part of them.

    The scale is free because the private head's is set by its noise, not by how sure it may be.
    """
    rank = np.zeros(len(labels), dtype=np.int64)  # of a shot among those of its class
    for label in np.unique(labels):
        rank[labels == label] = np.arange((labels == label).sum())
    parts = min(_PARTS, int(rank.max()) + 1)
    logits = np.empty((len(labels), len(weights)))
    for part in range(parts):
        out = rank % parts == part
        logits[out] = rows[out] @ starts.fitted_softmax(rows[~out], labels[~out], weights, reuse).T
    own = logits[np.arange(len(logits)), labels]
    return min(float((logsumexp(c * logits, axis=1) - c * own).sum()) for c in _SCALES)


@dataclass(frozen=True)
class PPGD(GradientHead):
    """Noisy gradients over all rows: the baseline of adamix in which public rows come last.

    A private model first, then a public one that stays near it.

    The private model is trained from zero, its clip at each step the norm of the mean public gradient; the
    public shots are then fitted with a pull toward it ("model reuse").

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps).
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`.
    Assumes:       declared classes; labelled public rows that the private rows did not influence.
    Reference:     Wang and Zhou (2020), Private-Public SGD, with full batches as Golatkar et al. (2022) run
                   it.

    Attributes:
        reuse: strength of the pull toward the private model while the shots are fitted; by default the
            strongest that predicts left-out shots as well as any, or none where the shots alone do better.
            The private model is released by then, and shots are public, so this choice costs nothing.
    """

    reuse: Moderate | None = None
    clip: ClassVar[float] = SMALLEST_CLIP
    rule_kind: ClassVar[type[UpdateRule]] = MeanClip
    name: ClassVar[str] = "ppgd"
    about: ClassVar[About] = About(
        card=f"A linear softmax head was trained from zero by full-batch gradient descent; {STEPS_SEE}, "
        "clipped at the norm of the mean public gradient. Labelled public rows, which are not protected, "
        "were then fitted with a pull toward that head, unless they predicted each other better without.",
        paper_names=("adamix-ppgd",),
        reference="Wang, Zhou: Differentially Private Learning with Small Public Data (AAAI 2020), with full "
        "batches as Golatkar et al. (CVPR 2022) run it.",
        family="Linear heads that need labelled public rows",
        options=STEP_OPTIONS,
    )
    needs_public: ClassVar[bool] = True

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Labelled rows."""
        super().require_public(facts, public)
        starts.labelled_rows(facts, public)


@dataclass(frozen=True)
class LanguageInit(OnlyPublic):
    """Nothing about private rows, ε = 0: where a text tower knows the class names.

    Zero-shot: each class's weights are the encoding of its name; no private row is looked at.

    The same weights start the other heads: `NoisyGD(start=FromNames(...))`, `AdaMix(start=FromNames(...))`.

    Releases:      nothing about the private rows.
    Guarantee:     ε = 0: there is no event.
    Relation:      either.
    Sensitivity:   0.
    Assumes:       class names are public; a text tower that shares the rows' space.
    Reference:     Golatkar et al. (2022), Section 3.3; Radford et al. (2021) for the zero-shot head.

    Attributes:
        features: the public feature map; plain unit norm keeps both modalities in one space.
        start: the tower, the sentence a name is put into, and the scale.
    """

    start: starts.FromNames = field(default_factory=starts.FromNames)
    name: ClassVar[str] = "language"
    about: ClassVar[About] = About(
        card="Each class's weights are the encoding of its name by a public text encoder. No private row was "
        "used.",
        reference=f"{MIXED}, Section 3.3; Radford et al.: Learning Transferable Visual Models From Natural "
        "Language Supervision (ICML 2021).",
        family="Without private rows",
    )
    needs_public: ClassVar[bool] = False
