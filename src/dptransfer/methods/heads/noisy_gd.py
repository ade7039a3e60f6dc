"""Softmax regression by noisy gradient descent: full batches, Poisson samples, and a clip that adapts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.methods.about import MIXED, RIGHT_STEPS, About, Fraction, Hue, Moderate, Rate
from dptransfer.methods.heads.descent import STEP_OPTIONS, STEPS_SEE, GradientHead, UpdateRule
from dptransfer.methods.heads.start import FromNames, FromShots, FromZero
from dptransfer.privacy import Unit
from dptransfer.queries import GradientAndExcess, L2Query, SoftmaxGradient
from dptransfer.queries.softmax_gradient import require_count_weight


@dataclass(frozen=True)
class NoisyGD(GradientHead):
    """Softmax regression; every step sees the private rows through one noisy sum of clipped gradients.

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps): √steps/z-GDP, exactly.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`: the clip under add/remove, twice the clip under replace-one.
    Assumes:       declared classes; a public feature map; a start that is public.
    Reference:     Golatkar et al. (2022), Algorithm 1 and Theorem 3. Printed there: ρ = T²/2σ². T Gaussian
                   releases compose to T/2σ²; at σ = 20, δ = 1e-5 and ε = 1 that allows 28 steps, not 5. Steps
                   have a fixed length, so that no number of private rows is needed (see `descent`).

    Attributes:
        features: the public feature map.
        steps: how many; by default 30, or as many as the budget allows at the given noise.
        noise_multiplier: noise of one step ÷ clip; by default as small as the budget allows.
        pace: how far the steps go, weight decay toward the start, and the ball they stay in.
        device: where gradients are computed, 'cpu' or 'cuda'; the integers are the same.
        clip: norm that each example's gradient is clipped to; none is longer than √2.
        start: where the weights start, and what weight decay pulls toward: `FromZero()`, `FromShots()` or
            `FromNames(...)`.
    """

    clip: Moderate = 1.0
    start: FromZero | FromShots | FromNames = field(default_factory=FromZero)
    name: ClassVar[str] = "noisy-gd"
    about: ClassVar[About] = About(
        summary="Noisy gradients over all rows: many rows per class, and a public start (zero, shots "
        "or class names).",
        card=f"A linear softmax head was trained by full-batch gradient descent; {STEPS_SEE}. Where the "
        "weights started, and how far the steps went, was fixed without private rows.",
        reference=f"{MIXED}, Algorithm 1, {RIGHT_STEPS}",
        family="Linear heads",
        colour=Hue.WINE,
        marker=">",
        options={
            **STEP_OPTIONS,
            "clip": "Longest gradient of one example.",
            "start": "Where the weights start: zero, shots or names.",
        },
    )

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """What the start needs."""
        super().require_public(facts, public)
        self.start.require(facts, public)

    def rule(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> UpdateRule:
        """The clipped gradient, from the start."""
        return UpdateRule(self.start.weights(features, facts, public), self.clip, facts.bound)


@dataclass(frozen=True)
class DPSGDProbe(NoisyGD):
    """A linear probe trained by DP-SGD with true Poisson sampling.

    Releases:      `steps` sums of clipped gradients, each over a fresh Poisson sample, with noise: of the
                   rows, or of the people, who are in it with all of their rows or with none.
    Guarantee:     SampledGaussianEvent(z, rate, steps), accounted by its privacy loss distribution.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`; an example, or a person, is in a sample or not, and sums are not
                   divided by the sample's realised size, which would be a private number.
    Assumes:       declared classes; a public feature map; a start that is public; who was sampled is never
                   told. An empty sample is pure noise, not an error.
    Reference:     Abadi et al. (2016), with samples that are what the accounting says they are: many
                   implementations shuffle instead, and divide by the realised batch size.

    Attributes:
        sampling_rate: probability with which a step looks at an example, or at a person.
    """

    sampling_rate: Rate = 0.1
    name: ClassVar[str] = "dpsgd"
    about: ClassVar[About] = About(
        summary="Noisy gradients over Poisson samples: for comparison, or where full passes are too slow.",
        card="A linear softmax head was trained by DP-SGD: every step drew a fresh Poisson sample of those "
        "who are protected and saw their rows only through a sum of clipped gradients with Gaussian noise. "
        "Neither who was in a sample nor its size is told.",
        reference="Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep Learning with Differential "
        "Privacy (CCS 2016), for a linear head and with the sampling that its accounting assumes.",
        family="Linear heads",
        colour=Hue.SLATE,
        marker="h",
        options={**NoisyGD.about.options, "sampling_rate": "Chance to be in a step."},
    )
    default_steps: ClassVar[int] = 120  # a step costs a tenth of a full one

    @property
    def rate(self) -> float:
        """The sampling rate."""
        return self.sampling_rate


_LONGEST = math.sqrt(2)  # norm of a softmax residual is at most this


@dataclass(frozen=True)
class GlobalAdapt(DPSGDProbe):
    """Gradients are scaled by one common factor; those above an upper clip Z are cut to it, and Z adapts.

    An example's gradient g counts as g·C/max(Z, ‖g‖): in units of the bound C that is g clipped to Z, divided
    by Z, whatever C is. So short gradients keep their proportions, which helps small classes, and the answer
    has sensitivity 1. After each step Z grows or shrinks with the noisy share of gradients above it.

    Releases:      `steps` noisy sums over Poisson samples, each of gradients and a count of long ones.
    Guarantee:     SampledGaussianEvent(z, rate, steps) for gradient and count together.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `GradientAndExcess`.
    Assumes:       declared classes; a public feature map; a declared approximate number of units, for persons
                   a size and rows per person. The count is divided by the EXPECTED sample size, never by the
                   realised one.
    Reference:     Esipova et al. (2023), DPSGD-Global-Adapt.

    Attributes:
        count_weight: of the count in a step's answer; its noise is that of the gradient ÷ this.
        tolerance: share of examples that may be above the upper clip.
        adapt_rate: how fast the upper clip follows.
    """

    count_weight: Annotated[float, require_count_weight] = 0.25
    tolerance: Fraction = 0.1
    adapt_rate: Moderate = 0.2
    name: ClassVar[str] = "global-adapt"
    about: ClassVar[About] = About(
        summary="Noisy gradients and counts over Poisson samples: for comparison on imbalanced data, "
        "where an approximate size is public.",
        card="A linear softmax head was trained by DP-SGD on Poisson samples of those who are protected; "
        "each step released, in one answer with Gaussian noise, a sum of scaled gradients and a count of "
        "those above an upper clip. That count, as a share of the declared size, moved the clip of the next "
        "step.",
        reference="Esipova, Ghomi, Luo, Cresswell: Disparate Impact in Differential Privacy from Gradient "
        "Misalignment (ICLR 2023), DPSGD-Global-Adapt.",
        family="Linear heads",
        colour=Hue.PURPLE,
        marker="<",
        options=DPSGDProbe.about.options,
    )

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """A declared size: the expected sample is a share of it."""
        super().require_public(facts, public)
        if facts.declared_units is None:
            needed, size, options = ("examples", "size=...", "--set data.size=5000")
            if facts.unit is Unit.PERSON:
                needed, size = "people", "size=... and rows_per_person=..."
                options += " --set data.rows_per_person=4"
            raise ArgumentError(
                "'global-adapt' divides a count by the expected sample size, so it needs an approximate "
                f"number of {needed} that may be public; none is declared. "
                f"Pass {size}, on the command line {options}."
            )

    @property
    def devices(self) -> tuple[str, ...]:
        """Its question is answered on the CPU."""
        return ("cpu",)

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """Gradient and count."""
        zero = np.zeros((len(facts.classes), outline.dimension))
        gradient = SoftmaxGradient(outline, zero, zero[:, 0], bound=facts.bound)
        return GradientAndExcess(gradient, self.clip, self.count_weight, bound=facts.bound)

    def rule(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> UpdateRule:
        """The gradient, from the start, with an upper clip that begins at `clip`."""
        assert facts.declared_units is not None
        expected = self.sampling_rate * facts.declared_units
        # Of a person, the sum of their rows' gradients, in units of as many as they count as.
        together = max(1.0, (facts.rows_per_person or 1.0) / facts.bound.examples)
        start = self.start.weights(features, facts, public)
        return _AdaptiveClip(start, self.clip, facts.bound, self, expected, _LONGEST * together)


@dataclass(eq=False)
class _AdaptiveClip(UpdateRule):
    """Moves the upper clip with each answer's noisy count, one entry of thousands."""

    method: GlobalAdapt
    expected: float
    longest: float

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """Gradient in units of the upper clip, and how many are longer."""
        zero = np.zeros(len(weights))
        gradient = SoftmaxGradient(features, weights, zero, clip=self.clip, bound=self.bound)
        return GradientAndExcess(gradient, self.clip, self.method.count_weight, bound=self.bound)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The gradient; the count moves the clip for the next step."""
        share = answer[-1] / (self.method.count_weight * self.bound.examples) / self.expected
        above = min(1.0, max(0.0, float(share))) - self.method.tolerance
        growth = math.exp(min(5.0, self.method.adapt_rate * above))  # e⁵ leads from the least to the longest
        self.clip = min(self.longest, max(1e-2, self.clip * growth))
        return answer[:-1].reshape(weights.shape)
