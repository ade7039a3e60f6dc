"""Private class centres first, for a part of the price; then DP-SGD on what they miss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base.types import AnyArray, Floats
from dptransfer.data import Facts, PrivateData, PublicEmbeddings
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.about import About, Fraction, Hue, Moderate, one_of
from dptransfer.methods.heads.descent import STEPS_SEE, HeadRows, UpdateRule
from dptransfer.methods.heads.noisy_gd import DPSGDProbe
from dptransfer.noise import NoiseSource
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER
from dptransfer.queries import ClassSums, L2Query, SoftmaxGradient
from dptransfer.release.heads import AverageHead, CosineHead, Head, LinearHead, unit_rows


def sums_before(
    rounds: GaussianRounds, features: FittedFeatures, facts: Facts, share: float
) -> GaussianRounds:
    """The class sums that cost this share, in μ², of what they and the rounds cost together.

    The price of sampled rounds is taken from their central limit, rate²·steps·(exp(1/z²) − 1) (Bu et al.
    2020); under replace-one an answer moves by twice what their noise is in units of. It decides about shares
    alone: the guarantee is computed from the events, exactly.
    """
    query, z = rounds.query, rounds.noise_multiplier
    gap = query.l2_sensitivity(rounds.relation) / rounds.sensitivity
    each = rounds.sampling_rate**2 * math.expm1(min(z**-2, 50.0)) if rounds.is_sampled else z**-2
    price = share / (1 - share) * rounds.times * gap**2 * each
    sums = ClassSums(features, len(facts.classes), bound=facts.bound)
    return GaussianRounds(sums, max(price**-0.5, SMALLEST_NOISE_MULTIPLIER), rounds.relation, 1)


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


@dataclass(frozen=True)
class WarmStart(DPSGDProbe):
    """DP-SGD on the residual of a prior: the softmax of cosines to private class centres, released before.

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
    name: ClassVar[str] = "warm-start"
    about: ClassVar[About] = About(
        summary="Noisy class centres, then noisy gradients of what they miss: few passes over many rows.",
        card="The sums of the private rows of each class were released with Gaussian noise; the cosines to "
        "them are a first classifier. A second one was then trained by DP-SGD on what the first misses, and "
        f"{STEPS_SEE}, over a fresh Poisson sample. A row is given the class that both together find "
        "likeliest.",
        reference="Zhu, Zhang: Mean Estimation Strikes Back! An Efficient Solution to Private "
        "Classification, Algorithm 2, with the sum of two logits (or the mean of two softmaxes, as chosen) "
        "where a sum of softmaxes is printed, and both stages composed exactly.",
        family="Linear heads",
        colour=Hue.BROWN,
        marker="p",
        options={**DPSGDProbe.about.options, **PRIOR_OPTIONS},
    )

    def pre_steps(
        self, rounds: GaussianRounds, outline: FittedFeatures, facts: Facts
    ) -> list[GaussianRounds]:
        """The class sums, for their share of what these rounds cost."""
        return [sums_before(rounds, outline, facts, self.share)]

    def rule(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> UpdateRule:
        """The clipped gradient, from the start; without a prior yet."""
        return _BesidePrior(
            self.start.weights(features, facts, public), self.clip, facts.bound, self, features
        )


@dataclass(eq=False)
class _BesidePrior(UpdateRule):
    """The gradient beside a prior, once there is one.

    Attributes:
        method: says what the prior is, and what becomes of it.
        features: the map of the rows whose sums give the prior.
        prior: (classes, dimension) logits that stay as they are.
    """

    method: WarmStart
    features: FittedFeatures
    prior: Floats | None = None
    is_informative: ClassVar[bool] = False
    """Steps keep their length: the prior is noisy itself, and on digits shortened steps were worse."""

    def with_released(self, paid: list[GaussianRounds], seen: HeadRows, noise: NoiseSource) -> UpdateRule:
        """The same beside the prior that the released centres give, or started at it."""
        private, device = seen.private, self.method.device
        centres = released_directions(paid[0], self.features, private.rows, private, noise, device=device)
        prior = centres / self.method.prior_temperature
        if self.method.loss == "logits":
            return replace(self, start=self.start + prior)
        return replace(self, prior=prior)

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The clipped gradient of the loss of both."""
        offset = np.zeros(len(weights))
        return SoftmaxGradient(features, weights, offset, clip=self.clip, prior=self.prior, bound=self.bound)

    def head(self, weights: Floats) -> Head:
        """Both heads, or the one that started at the prior."""
        return combine_heads(weights, self.prior)


def combine_heads(weights: Floats, prior: Floats | None) -> Head:
    """A linear head, or the mean of its softmax and a prior's."""
    offset = np.zeros(len(weights))
    return LinearHead(weights, offset) if prior is None else AverageHead(weights, offset, prior)
