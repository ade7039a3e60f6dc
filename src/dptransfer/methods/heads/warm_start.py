"""Private class centres first, then DP-SGD on what they miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.about import BROWN, About
from dptransfer.methods.heads.dpsgd import DPSGDProbe
from dptransfer.methods.heads.gradient_head import STEPS_SEE, Guide, HeadRows
from dptransfer.methods.prototypes.centres_first import released_directions, sums_before
from dptransfer.methods.settings import Fraction, Moderate, one_of
from dptransfer.noise import NoiseSource
from dptransfer.queries import L2Query, SoftmaxGradient
from dptransfer.release.heads import AverageHead, CosineHead, Head, LinearHead

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
        share: of the price, in μ², that the centres get (see `centres_first`): half, as neither stage is
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
        colour=BROWN,
        marker="p",
        options={**DPSGDProbe.about.options, **PRIOR_OPTIONS},
    )

    def beforehand(self, facts: Facts, rounds: GaussianRounds) -> list[GaussianRounds]:
        """The class sums, for their share of what these rounds cost."""
        assert isinstance(rounds.query, SoftmaxGradient)
        return [sums_before(rounds, rounds.query.features, facts, self.share)]

    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Guide:
        """The clipped gradient, from the start; without a prior yet."""
        return _PriorGuide(self.start.weights(features, facts, public), self.clip, facts.bound, features)

    def informed(
        self, guide: Guide, before: Sequence[GaussianRounds], seen: HeadRows, noise: NoiseSource
    ) -> Guide:
        """The same beside the prior that the released centres give, or started at it."""
        (paid,) = before
        assert isinstance(guide, _PriorGuide)
        private, device = seen.private, self.device
        centres = released_directions(paid, guide.features, private.rows, private, noise, device=device)
        prior = centres / self.prior_temperature
        if self.loss == "logits":
            return replace(guide, start=guide.start + prior)
        return replace(guide, prior=prior)


@dataclass(eq=False)
class _PriorGuide(Guide):
    """The gradient beside a prior, once there is one.

    Attributes:
        features: the map of the rows whose sums give the prior.
        prior: (classes, dimension) logits that stay as they are.
    """

    features: FittedFeatures
    prior: Floats | None = None

    @property
    def knows(self) -> bool:
        """Steps keep their length: the prior is noisy itself, and on digits shortened steps were worse."""
        return False

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The clipped gradient of the loss of both."""
        offset = np.zeros(len(weights))
        return SoftmaxGradient(features, weights, offset, clip=self.clip, prior=self.prior, bound=self.bound)

    def head(self, weights: Floats) -> Head:
        """Both heads, or the one that started at the prior."""
        return joined(weights, self.prior)


def joined(weights: Floats, prior: Floats | None) -> Head:
    """A linear head, or the mean of its softmax and a prior's."""
    offset = np.zeros(len(weights))
    return LinearHead(weights, offset) if prior is None else AverageHead(weights, offset, prior)
