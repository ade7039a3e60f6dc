"""Private class centres first, then DP-SGD of a network on what they miss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.data import Facts
from dptransfer.encoders.encoder import BESIDE, EncoderDelta
from dptransfer.encoders.in_memory import encode_pixels
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures, UnitNorm
from dptransfer.exact.lattice import LARGEST_DIMENSION, require_exact_norms
from dptransfer.exact.softmax import IntegerLogits, logit_steps
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.about import About, Fraction, Hue, Moderate, Whole, one_of
from dptransfer.methods.deep.fine_tuning import OPTIONS, STEPS_SEE, FineTuning
from dptransfer.methods.deep.network import Network
from dptransfer.methods.deep.picture_loss import PictureLoss
from dptransfer.methods.deep.trained_parts import TrainedParts
from dptransfer.methods.heads.warm_start import (
    LOSSES,
    PRIOR_OPTIONS,
    WarmStart,
    combine_heads,
    released_directions,
    sums_before,
)
from dptransfer.methods.method import Outcome, Outline, Plan
from dptransfer.noise import NoiseSource
from dptransfer.queries.softmax_gradient import ROW_NORM
from dptransfer.release.heads import Head
from dptransfer.sources import PrivateImages, PublicImages

_TRAIN = ("film", "bias", "low-rank", "last", "all")


@dataclass(frozen=True)
class WarmStartNetwork(FineTuning):
    """`WarmStart` on pixels: the prior is of the public network's rows, and what is trained is inside of it.

    The prior h of a picture is the cosines of the unchanged network's row to private class centres, computed
    once. The network's trained parts and a head on its own rows give g. A released model needs both rows of a
    picture, so its encoder gives them side by side, each of unit norm.

    Releases:      the (classes, dimension) class sums of the unchanged network's rows, once; then `steps`
                   sums of clipped gradients, over all pictures or over fresh Poisson samples.
    Guarantee:     GaussianEvent(z₁), and SampledGaussianEvent(z, rate, steps) or, where steps see everyone,
                   GaussianEvent(z, times=steps); composed by their privacy loss distributions. z is the
                   smallest that fits, and z₁ follows from it by `share`.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `ClassSums` and `NetworkGradient`: a picture's prior is a function of that picture and
                   of the released centres, so its gradient is still clipped as one.
    Assumes:       declared classes; a public network; that a picture's row and gradient in floats do not
                   depend on its neighbours in a micro-batch (see `NetworkGradient`); who was sampled is never
                   told.
    Reference:     Zhu and Zhang, "Mean Estimation Strikes Back", Algorithm 2; see `WarmStart` for what is
                   printed otherwise.

    Attributes:
        train: 'film', 'bias', 'low-rank', 'last' or 'all'; the paper's is 'all'.
        rank: of low-rank changes.
        blocks: as everywhere; None with 'last' and 'all'.
        share: of the price, in μ², that the centres get.
        loss: 'logits' or 'average'.
        prior_temperature: what cosines are divided by to be the prior's logits.
    """

    train: Annotated[str, one_of(*_TRAIN)] = "film"
    rank: Whole = 8
    share: Fraction = WarmStart.share
    loss: Annotated[str, one_of(*LOSSES)] = WarmStart.loss
    prior_temperature: Moderate = WarmStart.prior_temperature
    name: ClassVar[str] = "warm-start-network"
    about: ClassVar[About] = About(
        summary="Noisy class centres, then noisy gradients of a network on what they miss: few passes.",
        card="The sums of a public network's rows for the private pictures of each class were released with "
        "Gaussian noise; the cosines to them are a first classifier. Parts of the network, and a head that "
        f"has a say beside it, were then trained by DP-SGD on what the first misses: {STEPS_SEE}.",
        reference=WarmStart.about.reference,
        family="Networks",
        colour=Hue.BROWN,
        marker="D",
        options={
            "train": "film, bias, low-rank, last or all.",
            **PRIOR_OPTIONS,
            **{name: words for name, words in OPTIONS.items() if name != "axes"},
        },
    )

    def __post_init__(self) -> None:
        """Refuse settings that would not be used."""
        super().__post_init__()
        if self.axes != FineTuning.axes:
            raise ArgumentError(
                f"axes are those of a public map, which a warm start of a network does not have; got "
                f"{self.axes}. Leave it out."
            )
        if self.blocks is not None and self.train in ("all", "last"):
            which = "every stage" if self.train == "all" else "no stage"
            raise ArgumentError(
                f"blocks says how many of the last stages are trained; with train='{self.train}' {which} is, "
                f"and blocks is {self.blocks}. Leave it out, or set train to 'film', 'bias' or 'low-rank'."
            )

    def parts(self, network: Network, classes: int, features: FittedFeatures | None) -> TrainedParts:
        """As it is set; the released head will see both rows of a picture, side by side."""
        if self.train != "last":
            require_exact_norms(2 * network.dimension)
        return super().parts(network, classes, features)

    def map_of(self, network: Network, public: PublicImages) -> None:
        """None: the head sees rows of two networks side by side, of unit norm each."""

    def pre_steps(self, facts: Facts, rounds: GaussianRounds) -> list[GaussianRounds]:
        """The class sums, for their share; a plan knows no network, so there is room for the widest rows."""
        return [sums_before(rounds, Outline(LARGEST_DIMENSION), facts, self.share)]

    def with_released(
        self, loss: PictureLoss, before: Sequence[GaussianRounds], private: PrivateImages, noise: NoiseSource
    ) -> PictureLoss:
        """The loss beside the prior that the released centres give."""
        import torch

        (paid,), network = before, loss.pictures.parts.network
        rows = encode_pixels(private.pixels, network.encoder, batch=self.micro_batch)
        features = UnitNorm().fit(network.dimension, None)
        prior = released_directions(paid, features, rows, private, noise) / self.prior_temperature
        # In exact integers: a float product may round a row otherwise where there are more of them.
        logits = IntegerLogits.of(prior, np.zeros(len(prior)), None, ROW_NORM)
        steps = logit_steps(features.lattice(rows, ROW_NORM).astype(np.float64), logits)
        fixed = torch.from_numpy((steps.T * 2.0**-10).astype(np.float32)).to(network.device)
        return PictureLoss(loss.pictures, fixed, self.loss, prior)

    def outcome(self, loss: PictureLoss, theta: Floats, plan: Plan) -> Outcome:
        """Both heads, on rows of the changed network and of the unchanged one, side by side."""
        assert loss.prior_weights is not None
        own, weights = super().outcome(loss, theta, plan), loss.pictures.parts.head(theta)
        prior, delta = loss.prior_weights, own.encoder_delta
        if delta is None:  # both have the same rows
            return replace(own, head=self._joined(weights, prior))
        # Two rows of unit norm side by side are one of norm √2, which the map scales to unit norm.
        blank, longer = np.zeros_like(weights), math.sqrt(2)
        head = self._joined(longer * np.hstack([weights, blank]), longer * np.hstack([blank, prior]))
        return replace(
            own,
            head=head,
            features=UnitNorm().fit(2 * prior.shape[1], None),
            encoder_delta=EncoderDelta(delta.base, delta.kind + BESIDE, delta.arrays),
        )

    def _joined(self, weights: Floats, prior: Floats) -> Head:
        both, beside = (weights + prior, None) if self.loss == "logits" else (weights, prior)
        return combine_heads(both, beside)
