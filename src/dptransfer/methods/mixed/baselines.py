"""Baselines of mixed public and private data: either alone, and simpler mixes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dptransfer.base.types import Floats, Integers
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.methods.about import BLUE, GREEN, MIXED, RIGHT_STEPS, SLATE, TEAL, WINE, About
from dptransfer.methods.heads.gradient_head import STEP_OPTIONS, STEPS_SEE, GradientHead, Guide, Pace
from dptransfer.methods.heads.start import (
    FromNames,
    FromShots,
    FromZero,
    clipped_gradient,
    fitted_softmax,
    labelled_rows,
    mapped_shots,
)
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask
from dptransfer.methods.mixed.adamix import SMALLEST_CLIP, AdaMix
from dptransfer.methods.settings import Moderate
from dptransfer.privacy import Budget, Unit
from dptransfer.queries import L2Query, SoftmaxGradient
from dptransfer.release.heads import Head, LinearHead


@dataclass(frozen=True)
class OnlyPublic(EmbeddingMethod):
    """Softmax regression on the labelled public rows; no private row is looked at.

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

    start: FromShots | FromNames = field(default_factory=FromShots)
    name: ClassVar[str] = "only-public"
    about: ClassVar[About] = About(
        summary="Nothing about private rows, ε = 0: where labelled public rows suffice, and the "
        "baseline to beat.",
        card="A linear softmax head was fitted to labelled public rows. No private row was used.",
        reference=f"{MIXED}, the baseline Only-Public.",
        family="Without private rows",
        colour=SLATE,
        marker="s",
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


@dataclass(frozen=True)
class FullyPrivate(GradientHead):
    """Noisy gradient descent from zero: all rows are private and no public row is used.

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps).
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`.
    Assumes:       declared classes.
    Reference:     Golatkar et al. (2022), Section 4, "Fully-Private".

    Attributes:
        clip: norm that each example's gradient is clipped to.
    """

    clip: Moderate = 1.0
    name: ClassVar[str] = "fully-private"
    about: ClassVar[About] = About(
        summary="Noisy gradients over all rows: the baseline of adamix without labelled public rows.",
        card=f"A linear softmax head was trained from zero by full-batch gradient descent; {STEPS_SEE}. No "
        "labelled public row was used.",
        reference=f"{MIXED}, the baseline Fully-Private, {RIGHT_STEPS}",
        family="Linear heads",
        colour=WINE,
        marker="v",
        options={**STEP_OPTIONS, "clip": "Longest gradient of one example."},
    )

    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Guide:
        """The clipped gradient, from zero."""
        return Guide(FromZero().weights(features, facts, public), self.clip, facts.bound)


@dataclass(frozen=True)
class NGD(AdaMix):
    """AdaMix without its adaptive parts: public shots start it and are in its loss; one clip, all axes.

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps).
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`.
    Assumes:       declared classes; labelled public rows that the private rows did not influence.
    Reference:     Golatkar et al. (2022), Section 4, "NGD".
    """

    # Short: without counts long steps learn which classes are large, and the shots are forgotten.
    pace: Pace = field(default_factory=lambda: Pace(reach=20.0))
    quantile: float | None = None
    count_share: float = 0.0
    name: ClassVar[str] = "ngd"
    about: ClassVar[About] = About(
        summary="Noisy gradients over all rows: the baseline of adamix with one clip and all axes.",
        card="A linear softmax head was trained on private rows and a few labelled public rows together; "
        f"{STEPS_SEE}. Start and clip were fixed or came from public data, which are not protected.",
        reference=f"{MIXED}, the ablation NGD, {RIGHT_STEPS}",
        family="Linear heads that need labelled public rows",
        colour=BLUE,
        marker=">",
        options=AdaMix.about.options,
    )


@dataclass(frozen=True)
class PPGD(GradientHead):
    """A private model first, then a public one that stays near it.

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
        reuse: strength of the pull toward the private model while the shots are fitted.
    """

    reuse: Moderate = 0.01
    name: ClassVar[str] = "ppgd"
    about: ClassVar[About] = About(
        summary="Noisy gradients over all rows: the baseline of adamix in which public rows come last.",
        card=f"A linear softmax head was trained from zero by full-batch gradient descent; {STEPS_SEE}, "
        "clipped at the norm of the mean public gradient. Labelled public rows, which are not protected, "
        "were then fitted with a pull toward that head.",
        reference="Wang, Zhou: Differentially Private Learning with Small Public Data (AAAI 2020), with full "
        "batches as Golatkar et al. (CVPR 2022) run it.",
        family="Linear heads that need labelled public rows",
        colour=GREEN,
        marker="^",
        options=STEP_OPTIONS,
    )
    needs_public: ClassVar[bool] = True

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Labelled rows."""
        super().require_public(facts, public)
        labelled_rows(facts, public)

    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Guide:
        """Clips from the mean public gradient."""
        rows, labels = mapped_shots(features, facts, public)
        start = FromZero().weights(features, facts, public)
        return _MeanClipGuide(start, SMALLEST_CLIP, facts.bound, rows, labels, self.reuse)


@dataclass(eq=False)
class _MeanClipGuide(Guide):
    """The private gradient, clipped to the norm of the mean public one; `clip` is the least it may be."""

    rows: Floats
    labels: Integers
    reuse: float

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The clipped gradient at these weights."""
        mean = clipped_gradient(weights, self.rows, self.labels) / len(self.rows)
        clip = max(float(np.linalg.norm(mean)), self.clip)
        return SoftmaxGradient(features, weights, np.zeros(len(weights)), clip=clip, bound=self.bound)

    def head(self, weights: Floats) -> Head:
        """The shots, fitted near the private model."""
        return super().head(fitted_softmax(self.rows, self.labels, weights, self.reuse))


@dataclass(frozen=True)
class LanguageInit(OnlyPublic):
    """Zero-shot: each class's weights are the encoding of its name; no private row is looked at.

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

    start: FromNames = field(default_factory=FromNames)
    name: ClassVar[str] = "language"
    about: ClassVar[About] = About(
        summary="Nothing about private rows, ε = 0: where a text tower knows the class names.",
        card="Each class's weights are the encoding of its name by a public text encoder. No private row was "
        "used.",
        reference=f"{MIXED}, Section 3.3; Radford et al.: Learning Transferable Visual Models From Natural "
        "Language Supervision (ICML 2021).",
        family="Without private rows",
        colour=TEAL,
        marker="p",
    )
    needs_public: ClassVar[bool] = False
