"""Noisy gradient descent led by a few labelled public examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import Floats, Integers
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.chunks import one_blas_thread
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.about import MIXED, RIGHT_STEPS, VERMILION, About
from dptransfer.methods.heads.gradient_head import (
    STEP_OPTIONS,
    STEPS_SEE,
    GradientHead,
    Guide,
    HeadRows,
    Pace,
)
from dptransfer.methods.heads.hierarchical import count_estimates
from dptransfer.methods.heads.start import (
    FromNames,
    FromShots,
    FromZero,
    gradient_norms,
    labelled_rows,
    mapped_shots,
    residuals,
)
from dptransfer.methods.settings import Fraction, Moderate, ModerateOrZero, Whole
from dptransfer.noise import NoiseSource
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER
from dptransfer.queries import ClassCounts, L2Query, SoftmaxGradient

SMALLEST_CLIP = 1e-3  # shots that are fitted well have no gradient left to take a quantile of


@dataclass(frozen=True)
class AdaMix(GradientHead):
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
        pace: how far the steps go, weight decay toward the start, and the ball they stay in.
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

    pace: Pace = field(default_factory=lambda: Pace(reach=80.0))
    start: FromZero | FromShots | FromNames = field(default_factory=FromShots)
    quantile: Fraction | None = 0.9
    clip: Moderate = 1.0
    axes: Whole | None = None
    public_weight: ModerateOrZero = 1.0
    count_share: float = 0.1
    name: ClassVar[str] = "adamix"
    about: ClassVar[About] = About(
        summary="Noisy class counts, and noisy gradients whose clip labelled public rows choose: a "
        "few labelled examples per class are public.",
        card="A linear softmax head was trained on private rows and a few labelled public rows together; "
        f"{STEPS_SEE}. Class sizes were declared, counted with noise or not used. Start, clips and axes were "
        "fixed or came from public data, which are not protected.",
        reference=f"{MIXED}, Algorithm 2, {RIGHT_STEPS}",
        family="Linear heads that need labelled public rows",
        colour=VERMILION,
        marker="D",
        options={
            **STEP_OPTIONS,
            "clip": "Longest gradient of one example.",
            "start": "Where the weights start: zero, shots or names.",
        },
    )
    needs_public: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the share that is a fraction, or nothing."""
        super().__post_init__()
        if self.count_share != 0:
            checks.fraction("count_share", self.count_share)

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Labelled rows, and what the start needs."""
        super().require_public(facts, public)
        labelled_rows(facts, public)
        self.start.require(facts, public)

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """A gradient in as many axes as a step looks along."""
        width, classes = outline.dimension, len(facts.classes)
        axes = None if self.axes is None else np.eye(width, self._axes_of(width, classes))
        zero = np.zeros((classes, width))
        return SoftmaxGradient(outline, zero, zero[:, 0], projection=axes, bound=facts.bound)

    @property
    def devices(self) -> tuple[str, ...]:
        """A projected gradient is computed on the CPU."""
        return super().devices if self.axes is None else ("cpu",)

    def beforehand(self, facts: Facts, rounds: GaussianRounds) -> list[GaussianRounds]:
        """The class counts; where they are declared, or not wanted, nothing."""
        if self.count_share == 0 or facts.class_counts is not None:
            return []
        beside = math.sqrt((1 - self.count_share) / (self.count_share * rounds.times))
        z = max(beside * rounds.noise_multiplier, SMALLEST_NOISE_MULTIPLIER)
        counting = ClassCounts(len(facts.classes), bound=facts.bound)
        return [GaussianRounds(counting, z, rounds.relation, 1)]

    def informed(
        self, guide: Guide, before: Sequence[GaussianRounds], seen: HeadRows, noise: NoiseSource
    ) -> Guide:
        """With the logarithms of the classes' sizes, where known; an empty class counts as one row."""
        assert isinstance(guide, _PublicGuide)
        facts = seen.private.facts
        sizes = np.ones(len(facts.classes))
        if self.count_share > 0 and facts.class_counts is not None:
            sizes = np.array(facts.class_counts, dtype=np.float64)
        for paid in before:
            private = seen.private
            counts = paid.open(noise=noise)
            noisy = counts.release(paid.query, private.rows, private.labels, private.people)
            sizes = count_estimates(noisy, paid.scale)
        return replace(guide, offset=np.log(np.maximum(sizes, 1.0)))

    def _axes_of(self, width: int, classes: int) -> int:
        """A public gradient has as many singular vectors as its smaller side."""
        return width if self.axes is None else min(self.axes, width, classes)

    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> _PublicGuide:
        """Clip, axes and public gradient from the shots."""
        rows, labels = mapped_shots(features, facts, public)
        start = self.start.weights(features, facts, public)
        axes = None
        if self.axes is not None:
            # Left singular vectors of the (dimension, classes) gradient: right ones of ours.
            gradient = residuals(np.zeros_like(start), rows, labels).T @ rows
            count = self._axes_of(features.dimension, len(facts.classes))
            with one_blas_thread(min(gradient.shape)):
                axes = np.linalg.svd(gradient, full_matrices=False)[2][:count].T
        shots, level = (rows, labels, self.quantile), np.zeros(len(start))
        return _PublicGuide(start, self.clip, facts.bound, *shots, axes, self.public_weight, level)


@dataclass(eq=False)
class _PublicGuide(Guide):
    """What the public rows say at the current weights; `clip` is that of the latest question.

    `offset` is what the private rows' logits have beyond the shots': the log of their classes' sizes.
    """

    rows: Floats
    labels: Integers
    quantile: float | None
    axes: Floats | None
    public_weight: float
    offset: Floats
    public_gradient: Floats | None = None

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The private gradient, clipped and projected as the public one says."""
        residual = residuals(weights, self.rows, self.labels)
        self.public_gradient = residual.T @ self.rows
        if self.quantile is not None:
            norms = gradient_norms(residual, self.rows)
            self.clip = max(float(np.quantile(norms, self.quantile)), SMALLEST_CLIP)
        return SoftmaxGradient(
            features, weights, self.offset, clip=self.clip, projection=self.axes, bound=self.bound
        )

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The private gradient, back from its axes and units, and the public one."""
        assert self.public_gradient is not None
        private = answer if self.axes is None else answer @ self.axes.T
        return self.clip * private + self.public_weight * self.public_gradient

    def noise_norm(self, answer: Floats, scale: float) -> float:
        """The answer is in units of the step's clip, and carrying it back from its axes lengthens nothing."""
        return self.clip * scale * math.sqrt(answer.size)
