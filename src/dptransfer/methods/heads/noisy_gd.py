"""Softmax regression by noisy gradient descent: full batches, Poisson samples, adaptive clip, warm start."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats
from dptransfer.data import Facts, PrivateData, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.about import MIXED, RIGHT_STEPS, About, Fraction, Moderate, Rate, one_of
from dptransfer.methods.heads.descent import (
    STEP_OPTIONS,
    STEPS_SEE,
    GradientHead,
    HeadRows,
    UpdateRule,
    released_before,
)
from dptransfer.methods.heads.start import FromNames, FromShots, FromZero, labelled_rows
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Unit
from dptransfer.queries import ClassCounts, ClassSums, GradientAndExcess, L2Query, softmax_gradient
from dptransfer.release.heads import AverageHead, CosineHead, Head, LinearHead, unit_rows


@dataclass(frozen=True)
class NoisyGD(GradientHead):
    """Noisy gradients over all rows: many rows per class, and a public start (zero, shots or class names).

    Softmax regression; every step sees the private rows through one noisy sum of clipped gradients.

    Releases:      `steps` sums of clipped gradients over all rows, with Gaussian noise; before them the class
                   counts, if the start is shots or names and class sizes are not declared.
    Guarantee:     GaussianEvent(z, times=steps): √steps/z-GDP, exactly. Counts have z·√((1 − share)/(share·
                   steps)), with share = `count_share`; with them it is √(steps/(1 − share))/z-GDP.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `SoftmaxGradient`: the clip under add/remove, twice the clip under replace-one; and
                   `ClassCounts`.
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
        clip: norm that each example's gradient is clipped to; none is longer than √2. A short one makes rows
            that are far from fitted count for as much as others, and the noise smaller.
        start: where the weights start, and what weight decay pulls toward: `FromZero()`, `FromShots()` or
            `FromNames(...)`.
        count_share: share of the budget, in μ², for class counts beside a public start: how far the steps go
            follows from them. 0 to release none, and go all the way.
    """

    clip: Moderate = 0.3
    start: FromZero | FromShots | FromNames = field(default_factory=FromZero)
    count_share: float = 0.1
    name: ClassVar[str] = "noisy-gd"
    about: ClassVar[About] = About(
        card=f"A linear softmax head was trained by full-batch gradient descent; {STEPS_SEE}. Where the "
        "weights started, and how far the steps went, was fixed without private rows.",
        paper_names=("linear-probing",),
        reference=f"{MIXED}, Algorithm 1, {RIGHT_STEPS}",
        family="Linear heads",
        options={
            **STEP_OPTIONS,
            "clip": "Longest gradient of one example.",
            "start": "Where the weights start: zero, shots or names.",
        },
    )

    def __post_init__(self) -> None:
        """Check the share that is a fraction, or nothing."""
        super().__post_init__()
        if self.count_share != 0:
            checks.fraction("count_share", self.count_share)

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """What the start needs."""
        super().require_public(facts, public)
        self.start.require(facts, public)

    @property
    def uses_counts(self) -> bool:
        """Whether class sizes are looked at: beside a public start, unless no share is left for them."""
        return self.count_share > 0 and not isinstance(self.start, FromZero)

    def pre_steps(self, paid: GaussianRounds, outline: FittedFeatures, facts: Facts) -> list[GaussianRounds]:
        """The class counts, where they are used and not declared."""
        if not self.uses_counts or facts.class_counts is not None:
            return []
        counting = ClassCounts(len(facts.classes), bound=facts.bound)
        return [released_before(counting, paid, self.count_share)]

    def declared_sizes(self, facts: Facts) -> Floats | None:
        """Of the classes, at least 1; None where they are not declared or not used."""
        if not self.uses_counts or facts.class_counts is None:
            return None
        return np.maximum(np.array(facts.class_counts, dtype=np.float64), 1.0)

    def worth_of_start(self, facts: Facts, public: PublicEmbeddings | None) -> float:
        """As many rows as it has of a class, if it was made of rows."""
        if isinstance(self.start, FromShots):
            return len(labelled_rows(facts, public)[1]) / len(facts.classes)
        return super().worth_of_start(facts, public)


@dataclass(frozen=True)
class DPSGDProbe(NoisyGD):
    """Noisy gradients over Poisson samples: for comparison, or where full passes are too slow.

    A linear probe trained by DP-SGD with true Poisson sampling.

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
        card="A linear softmax head was trained by DP-SGD: every step drew a fresh Poisson sample of those "
        "who are protected and saw their rows only through a sum of clipped gradients with Gaussian noise. "
        "Neither who was in a sample nor its size is told.",
        paper_names=("dp-sgd",),
        reference="Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep Learning with Differential "
        "Privacy (CCS 2016), for a linear head and with the sampling that its accounting assumes.",
        family="Linear heads",
        options={**NoisyGD.about.options, "sampling_rate": "Chance to be in a step."},
    )
    default_steps: ClassVar[int] = 120  # a step costs a tenth of a full one

    @property
    def rate(self) -> float:
        """The sampling rate."""
        return self.sampling_rate


_LONGEST = math.sqrt(2)  # norm of a softmax residual is at most this


class _AdaptiveClip(UpdateRule):
    """Moves the upper clip with each answer's noisy count, one entry of thousands; it begins at `clip`."""

    def read_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """How many a sample should have, and how long the gradient of a unit may be."""
        assert facts.declared_units is not None
        self.expected = self.method.sampling_rate * facts.declared_units
        # Of a person, the sum of their rows' gradients, in units of as many as they count as.
        self.longest = _LONGEST * max(1.0, (facts.rows_per_person or 1.0) / facts.bound.examples)

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """Gradient in units of the upper clip, and how many are longer."""
        gradient = self.clipped_gradient(weights, features)
        return GradientAndExcess(gradient, self.clip, self.method.count_weight, bound=self.bound)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The gradient; the count moves the clip for the next step."""
        share = answer[-1] / (self.method.count_weight * self.bound.examples) / self.expected
        above = min(1.0, max(0.0, float(share))) - self.method.tolerance
        growth = math.exp(min(5.0, self.method.adapt_rate * above))  # e⁵ leads from the least to the longest
        self.clip = min(self.longest, max(1e-2, self.clip * growth))
        return answer[:-1].reshape(weights.shape)


@dataclass(frozen=True)
class GlobalAdapt(DPSGDProbe):
    """Gradients are scaled by one common factor; those above an upper clip Z are cut to it, and Z adapts.

    An example's gradient g counts as g·C/max(Z, ‖g‖): in units of the bound C that is g clipped to Z, divided
    by Z, whatever C is. So short gradients keep their proportions, which helps small classes, and the answer
    has sensitivity 1. After each step Z grows or shrinks with the noisy share of gradients above it.

    Releases:      `steps` noisy sums over all rows or Poisson samples, each of gradients and a count of long
                   ones.
    Guarantee:     GaussianEvent(z, steps), or SampledGaussianEvent(z, rate, steps), for gradient and count
                   together.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `GradientAndExcess`.
    Assumes:       declared classes; a public feature map; a declared approximate number of units, for persons
                   a size and rows per person. The count is divided by the EXPECTED sample size, never by the
                   realised one.
    Reference:     Esipova et al. (2023), DPSGD-Global-Adapt.

    Attributes:
        sampling_rate: probability with which a step looks at an example, or at a person; by default 1, full
            batches, as for linear probing.
        count_weight: of the count in a step's answer; its noise is that of the gradient ÷ this.
        tolerance: share of examples that may be above the upper clip.
        adapt_rate: how fast the upper clip follows.
    """

    sampling_rate: Rate = 1.0
    count_weight: Annotated[float, softmax_gradient.require_count_weight] = 0.25
    tolerance: Fraction = 0.1
    adapt_rate: Moderate = 0.2
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    rule_kind: ClassVar[type[UpdateRule]] = _AdaptiveClip
    name: ClassVar[str] = "global-adapt"
    about: ClassVar[About] = About(
        summary="Noisy gradients and counts of long ones: for comparison on imbalanced data, "
        "where an approximate size is public.",
        card="A linear softmax head was trained by DP-SGD, on all rows or on Poisson samples of those who "
        "are protected; each step released, in one answer with Gaussian noise, a sum of scaled gradients and "
        "a count of those above an upper clip. That count, as a share of the declared size, moved the clip "
        "of the next step.",
        paper_names=("dpsgd-global-adapt",),
        reference="Esipova, Ghomi, Luo, Cresswell: Disparate Impact in Differential Privacy from Gradient "
        "Misalignment (ICLR 2023), DPSGD-Global-Adapt.",
        family="Linear heads",
        options=DPSGDProbe.about.options,
    )
    default_steps: ClassVar[int] = GradientHead.default_steps

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

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """Gradient and count."""
        gradient = self.planned_gradient(outline, facts)
        return GradientAndExcess(gradient, self.clip, self.count_weight, bound=facts.bound)


def sums_before(paid: GaussianRounds, features: FittedFeatures, facts: Facts, share: float) -> GaussianRounds:
    """The class sums, for this share of what they and the planned rounds cost together."""
    return released_before(ClassSums(features, len(facts.classes), bound=facts.bound), paid, share)


def released_directions(
    paid: GaussianRounds,
    features: FittedFeatures,
    rows: AnyArray,
    private: PrivateData,
    noise: NoiseSource,
    *,
    device: str = "cpu",
) -> Floats:
    """(classes, dimension) directions of the noisy sums; directions need no count, which would cost more.

    Args:
        paid: the planned release.
        features: map of the rows.
        rows: of the private examples.
        private: the examples, for their labels and whose they are.
        noise: the source.
        device: where rows are summed; the sums are the same.
    """
    facts = private.facts
    asked = ClassSums(features, len(facts.classes), device, bound=facts.bound)
    return unit_rows(paid.open(noise=noise).release(asked, rows, private.labels, private.people))


LOSSES = ("logits", "average")
PRIOR_OPTIONS = {
    "share": "Of the price for the centres.",
    "loss": "How prior and head are joined: logits or average.",
    "prior_temperature": "Cosines ÷ it are the prior's logits.",
}


class _BesidePrior(UpdateRule):
    """The gradient beside a prior, once there is one: (classes, dimension) logits that stay as they are."""

    prior: Floats | None = None
    is_informative: ClassVar[bool] = False
    """Steps keep their length: the prior is noisy itself, and on digits shortened steps were worse."""

    def read_released(self, paid: list[GaussianRounds], seen: HeadRows, noise: NoiseSource) -> None:
        """Take counts and the prior that the released centres give, or start at it."""
        private, device = seen.private, self.method.device
        *counting, sums = paid
        super().read_released(counting, seen, noise)
        centres = released_directions(sums, self.features, private.rows, private, noise, device=device)
        prior = centres / self.method.prior_temperature
        if self.method.loss == "logits":
            self.start = self.start + prior
        else:
            self.prior = prior

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The clipped gradient of the loss of both."""
        return self.clipped_gradient(weights, features, prior=self.prior)

    def head(self, weights: Floats) -> Head:
        """Both heads, or the one that started at the prior."""
        return combine_heads(weights, self.prior)


@dataclass(frozen=True)
class WarmStart(DPSGDProbe):
    """Noisy class centres, then noisy gradients of what they miss: few passes over many rows.

    DP-SGD on the residual of a prior: the softmax of cosines to private class centres, released before.

    Two forms of the loss. 'average', the paper's: −log of the mean of the head's softmax and the prior's, so
    that rows which the prior gets right pull less; the released head takes that mean. 'logits': the prior's
    logits are added to the head's, which is softmax regression that starts at the centres, and the released
    head is linear.

    Releases:      the (classes, dimension) class sums, once; then `steps` sums of clipped gradients, each
                   over a fresh Poisson sample.
    Guarantee:     GaussianEvent(z₁) and SampledGaussianEvent(z, rate, steps), composed by their privacy loss
                   distributions; z is the smallest that fits, and z₁ follows from it by `share`.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `ClassSums` and `SoftmaxGradient`: the clip holds for the weighted residual, so one
                   example moves a sum by at most the clip under either loss.
    Assumes:       declared classes; a public feature map; a start that is public; who was sampled is never
                   told.
    Reference:     Zhu and Zhang, "Mean Estimation Strikes Back", Algorithm 2. Printed there: the loss of
                   softmax(g) + softmax(h), which sums to 2; the mean of the two is what has a logarithm. Raw
                   cosines as logits h, which are almost uniform: `prior_temperature` 1 is that. Centres from
                   noisy counts and sums: directions need no count. And (ε₁ + ε₂, δ₁ + δ₂): composed exactly,
                   both stages have less noise.

    Attributes:
        share: of the price, in μ², that the centres get (see `sums_before`): half, as neither stage is
            known to need more. On scikit-learn's digits and on hwu64 that was better than 0.2 at ε = 0.5
            and 2, and no worse by much at 8.
        loss: 'logits' or 'average'. On digits and on hwu64 (64 intents) 'logits' was better at every ε and
            number of steps that was tried, so it is the default, though 'average' is the paper's.
        prior_temperature: what cosines are divided by to be the prior's logits; the one of `CosineHead`.
    """

    share: Fraction = 0.5
    loss: Annotated[str, one_of(*LOSSES)] = "logits"
    prior_temperature: Moderate = CosineHead.temperature
    rule_kind: ClassVar[type[UpdateRule]] = _BesidePrior
    name: ClassVar[str] = "warm-start"
    about: ClassVar[About] = About(
        card="The sums of the private rows of each class were released with Gaussian noise; the cosines to "
        "them are a first classifier. A second one was then trained by DP-SGD on what the first misses, and "
        f"{STEPS_SEE}, over a fresh Poisson sample. A row is given the class that both together find "
        "likeliest.",
        paper_names=("mean-estimation-warm-up",),
        reference="Zhu, Zhang: Mean Estimation Strikes Back! An Efficient Solution to Private "
        "Classification, Algorithm 2, with the sum of two logits (or the mean of two softmaxes, as chosen) "
        "where a sum of softmaxes is printed, and both stages composed exactly.",
        family="Linear heads",
        options={**DPSGDProbe.about.options, **PRIOR_OPTIONS},
    )

    def pre_steps(self, paid: GaussianRounds, outline: FittedFeatures, facts: Facts) -> list[GaussianRounds]:
        """Class counts, where they are used, and the class sums, each for its share of the cost."""
        return [*super().pre_steps(paid, outline, facts), sums_before(paid, outline, facts, self.share)]


def combine_heads(weights: Floats, prior: Floats | None) -> Head:
    """A linear head, or the mean of its softmax and a prior's."""
    offset = np.zeros(len(weights))
    return LinearHead(weights, offset) if prior is None else AverageHead(weights, offset, prior)
