"""DP-SGD on parts of a public network, with a head, on private pictures: FiLM, LoRA and a warm start."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from dptransfer.base import checks, progress
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Floats
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.encoders import encoder, in_memory
from dptransfer.errors import ArgumentError
from dptransfer.exact import lattice, public_map, softmax
from dptransfer.exact.feature_map import FittedFeatures, UnitNorm
from dptransfer.mechanisms import GaussianRounds, rounds_of
from dptransfer.methods.about import About, Fraction, Moderate, Rate, Whole, one_of
from dptransfer.methods.deep.augment import VIEWS
from dptransfer.methods.deep.cross_example_check import require_as_released, require_own_gradients
from dptransfer.methods.deep.network import Network
from dptransfer.methods.deep.network_gradient import NetworkGradient
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures
from dptransfer.methods.deep.trained_parts import TRAINED, TrainedParts
from dptransfer.methods.heads import noisy_gd
from dptransfer.methods.heads.descent import Descent, Pace
from dptransfer.methods.method import ImageMethod, Outcome, Outline, Plan, Task
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Unit
from dptransfer.queries.softmax_gradient import ROW_NORM
from dptransfer.release.heads import LinearHead
from dptransfer.sources import PrivateImages, PublicImages

OPTIONS = {
    "encoder": "Public network to start from.",
    "size": "Side of the pictures.",
    "steps": "Noisy steps.",
    "sampling_rate": "Chance to be in a step.",
    "clip": "Longest gradient of one picture.",
    "views": "Views of a picture in its gradient.",
    "blocks": "Last stages that are trained.",
    "axes": "Public axes in front of the head.",
}
_BY_CHANCE = 1e-3  # that a network without signal is said to have moved
STEPS_SEE = (
    "every step saw the private pictures, or a fresh Poisson sample of those who are protected, only through "
    "a sum of clipped gradients with Gaussian noise"
)


_PER_STEP = 4096  # more pictures a step take longer and gain little: noise is paid for by steps
TRUNK_PACE = 0.05
"""What one unit of a network's own parameters stands for, in units of what is there (`TrainedParts`).

It decides how much of a clipped gradient is the network's and how much the head's: with 0.05 they are about
as long, on scikit-learn's digits at 32 pixels, where four times more or five times less did no better.
"""


def _views(name: str, value: int) -> int:
    if checks.whole(name, value) > len(VIEWS):
        raise ArgumentError(f"{name} must be at most {len(VIEWS)}, as many as there are; got {value}.")
    return int(value)


@dataclass(frozen=True)
class FineTuning(ImageMethod):
    """Base of the methods that step along noisy gradients of a network.

    Attributes:
        steps: how many.
        sampling_rate: probability with which a step looks at an example, or at a person; None for all of
            them, up to 4,096 of a declared number. What a step costs in time is worth least in noise.
        clip: norm that each picture's gradient is clipped to, in the units of `TrainedParts`. This, `steps`
            and `reach` were chosen on scikit-learn's digits at 64 pixels and seven classes of Caltech-101 at
            96, at ε = 2 and 8.
        views: how many views of a picture its gradient is averaged over, of a fixed list.
        blocks: how many of the network's last stages are trained; None for all.
        pace: how far the head goes.
        reach: length of the network's own path; 1 is as far as one channel from nothing to its public scale.
        micro_batch: how many pictures are computed at a time.
        axes: with public pictures the head sees rows behind the public map of `public-prior`, with this many
            axes; without, rows of unit norm.
    """

    steps: Whole = 30
    sampling_rate: Rate | None = None
    clip: Moderate = 0.3
    views: Annotated[int, _views] = 1
    blocks: Whole | None = None
    pace: Pace = field(default_factory=Pace)
    reach: Moderate = 15.0
    micro_batch: Whole = 32
    axes: Whole = 256

    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    assumptions: ClassVar[tuple[str, ...]] = (
        *ImageMethod.assumptions,
        "the network computes a picture's gradient alike whatever pictures are beside it",
    )

    def __post_init__(self) -> None:
        """Refuse blocks where they have no say."""
        super().__post_init__()
        if self.blocks is not None and self.train in ("all", "last"):
            which = "every stage" if self.train == "all" else "no stage"
            raise ArgumentError(
                f"blocks says how many of the last stages are trained; with train='{self.train}' {which} is, "
                f"and blocks is {self.blocks}. Leave it out, or set train to another part."
            )

    def rate(self, facts: Facts) -> float:
        """The sampling rate, as it is set or as the declared number says."""
        if self.sampling_rate is not None:
            return self.sampling_rate
        return min(1.0, _PER_STEP / (facts.declared_units or 1))

    @property
    @abstractmethod
    def train(self) -> str:
        """What is trained of the network, as `TrainedParts` takes it."""

    @property
    def rank(self) -> int:
        """Of low-rank changes."""
        return 8

    def parts(self, network: Network, classes: int, features: FittedFeatures | None) -> TrainedParts:
        """What is trained of the network, and of a head behind this map; None for rows of unit norm."""
        made = partial(TrainedParts, network, self.train, classes, pace=TRUNK_PACE)
        return made(blocks=self.blocks, rank=self.rank, features=features)

    def pre_steps(self, facts: Facts, rounds: GaussianRounds) -> list[GaussianRounds]:
        """What is released before these rounds, for a share of what they cost; nothing, mostly."""
        return []

    def with_released(
        self, loss: PictureLoss, before: Sequence[GaussianRounds], private: PrivateImages, noise: NoiseSource
    ) -> PictureLoss:
        """The loss, with what is released before the gradients; as it is, mostly."""
        return loss

    def outcome(self, loss: PictureLoss, theta: Floats, plan: Plan) -> Outcome:
        """What is released of the last θ: the head, and what is changed in the encoder."""
        parts = loss.pictures.parts
        head, delta = LinearHead(parts.head(theta), np.zeros(parts.classes)), parts.delta(theta)
        identity = parts.network.identity if delta is None else None
        return Outcome(head, plan.events, features=parts.features, encoder_delta=delta, encoder=identity)

    def plan(self, facts: Facts, budget: Budget, public: PublicImages | None = None) -> Plan:
        """Rounds of noisy gradients, with as little noise as the budget allows.

        The number of parameters is known once the network is there, and bounded before: a plan needs none.
        """
        query = NetworkGradient(bound=facts.bound)

        def rounds(z: float) -> list[GaussianRounds]:
            paid = GaussianRounds(query, z, budget.relation, self.steps, sampling_rate=self.rate(facts))
            return [*self.pre_steps(facts, paid), paid]

        return self.calibrated_plan(rounds, budget)

    def prepare(self, facts: Facts, public: PublicImages | None) -> TrainedParts:
        """Load the network, find in it what is to be trained, and try both on pictures of noise."""
        network = self.network()  # first, as it says what to install where there is no torch
        network.require_shape(facts.shape)
        features = None if public is None else self.map_of(network, public)
        parts = self.parts(network, len(facts.classes), features)
        require_own_gradients(parts, views=self.views, micro_batch=self.micro_batch)
        require_as_released(parts)
        return parts

    def map_of(self, network: Network, public: PublicImages) -> FittedFeatures | None:
        """The public map, of the unchanged network's rows."""
        pool = PublicEmbeddings(in_memory.encode_pixels(public.pixels, network.encoder))
        return public_map.PublicMap(axes=self.axes).fit(network.dimension, pool)

    def run(self, task: Task[TrainedParts, PrivateImages, PublicImages | None]) -> Outcome:
        """Ask, step; everything but the noisy answers is post-processing."""
        *before, paid = rounds_of(task.plan.mechanisms)
        kept = Pictures(task.prepared, task.private.pixels, views=self.views, micro_batch=self.micro_batch)
        loss = self.with_released(PictureLoss(kept), before, task.private, task.noise)
        bound = task.facts.bound
        descent = TwoDescents(task.prepared, paid, self.pace, self.reach)
        rounds, positions = paid.open(noise=task.noise), np.arange(len(task.private.labels))
        for _ in progress.steps(paid.times, "noisy gradient step"):
            here = loss.gradients_at(descent.theta)
            question = NetworkGradient(task.prepared.size, here, self.micro_batch, self.clip, bound=bound)
            descent.step(rounds.release(question, positions, task.private.labels, task.private.people))
        outcome = self.outcome(loss, descent.result, task.plan)
        return replace(outcome, notes=(*outcome.notes, *descent.notes)) if outcome.encoder_delta else outcome


class TwoDescents:
    """Descent of the network's own parameters and of the head's, side by side.

    Steps of the network are taken in full. A single gradient of so many parameters is mostly noise, but the
    noise of all steps together moves a parameter by little: with T steps and P parameters by a share of about
    reach/√(T·P) of its public size, 0.01 for 30 steps and 40,000 of them, while what the steps agree on adds
    up. (Steps shortened by the estimated share of the signal, as those of a head that knows something are,
    never moved it.)

    Args:
        parts: what is trained.
        paid: the planned rounds.
        pace: of the head.
        reach: of the network.
    """

    def __init__(self, parts: TrainedParts, paid: GaussianRounds, pace: Pace, reach: float) -> None:
        self._trunk, self._scale = parts.trunk, paid.scale
        self._asked, self._sum = 0, np.zeros(parts.trunk)
        head = np.zeros((parts.classes, parts.features.dimension))
        own = Pace(reach / TRUNK_PACE, radius=reach / TRUNK_PACE)
        starts = ((head, pace), (np.zeros((1, parts.trunk)), own))[: 2 if parts.trunk else 1]
        self._descents = [Descent(start, paid.times, how) for start, how in starts]

    def step(self, answer: Floats) -> None:
        """One step against a noisy sum of gradients."""
        gradients = answer[self._trunk :], answer[: self._trunk]
        self._asked, self._sum = self._asked + 1, self._sum + gradients[1]
        for descent, gradient in zip(self._descents, gradients, strict=False):
            noise = self._scale * math.sqrt(gradient.size)
            descent.step(gradient.reshape(descent.weights.shape), noise)

    @property
    def theta(self) -> Floats:
        """Where the next gradient is taken."""
        return np.concatenate([descent.weights.ravel() for descent in reversed(self._descents)])

    @property
    def result(self) -> Floats:
        """The weighted average of all iterates."""
        return np.concatenate([descent.result.ravel() for descent in reversed(self._descents)])

    @property
    def notes(self) -> tuple[str, ...]:
        """Whether the network moved by more than noise would move it, from released answers alone.

        Without any signal the sum of T noisy gradients has T·scale² of variance in each of P coordinates, so
        its squared length over that is χ² with P degrees of freedom; what the steps agree on adds to it.
        """
        from scipy.stats import chi2

        length = float(self._sum @ self._sum) / (self._asked * self._scale**2)
        beyond = float(chi2.sf(length, self._trunk)) < _BY_CHANCE
        said = "moved by more than" if beyond else "did not measurably move beyond"
        return (
            f"The network {said} noise would move it: the steps together are {length / self._trunk:.4f} "
            "times as long, squared, as noise alone.",
        )


@dataclass(frozen=True)
class FiLM(FineTuning):
    """Noisy gradients of a network's normalisation layers: many pictures far from the encoder's.

    DP-SGD on the normalisation layers of a public network, or on all of it, and on a linear head.

    Releases:      `steps` sums of clipped gradients, with noise, of all pictures or over fresh Poisson
                   samples: of the pictures, or of the people, who are in one with all of theirs or with none.
    Guarantee:     GaussianEvent(z, steps); with a sampling rate SampledGaussianEvent(z, rate, steps),
                   accounted by its privacy loss distribution.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `NetworkGradient`: the clip, whatever was sampled; sums are not divided by the sample's
                   realised size, which would be a private number.
    Assumes:       declared classes; a public network; that a picture's gradient in floats does not depend on
                   its neighbours in a micro-batch (see `NetworkGradient`); who was sampled is never told.
    Reference:     Perez et al. (2018) for the layers; Tobaben et al. (2023) for training them privately.

    Attributes:
        train: 'film' for scales and shifts of normalisation layers, 'bias' for their shifts and all biases,
            'all' for every parameter: plain fine-tuning by DP-SGD, the baseline of warm starts.
    """

    train: Annotated[str, one_of("film", "bias", "all")] = "film"
    name: ClassVar[str] = "film"
    about: ClassVar[About] = About(
        card="The scales and shifts of a public network's normalisation layers, its biases or all of its "
        f"parameters, and a linear head, were trained by DP-SGD: {STEPS_SEE}.",
        paper_names=("dp-film",),
        reference="Tobaben, Shysheya, Bronskill, Paverd, Tople, Zanella-Béguelin, Turner, Honkela: On the "
        "Efficacy of Differentially Private Few-shot Image Classification (TMLR 2023), with Poisson samples "
        "and steps of planned length.",
        family="Networks",
        options={"train": "film, bias or all.", **OPTIONS},
    )


@dataclass(frozen=True)
class LoRA(FineTuning):
    """Noisy gradients of low-rank changes in a network's last blocks: very many pictures.

    DP-SGD on low-rank changes of a public network's last stages, and on a linear head.

    Releases:      `steps` sums of clipped gradients, with noise, of all pictures or over fresh Poisson
                   samples: of the pictures, or of the people, who are in one with all of theirs or with none.
    Guarantee:     GaussianEvent(z, steps); with a sampling rate SampledGaussianEvent(z, rate, steps),
                   accounted by its privacy loss distribution.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `NetworkGradient`: the clip, whatever was sampled; sums are not divided by the sample's
                   realised size, which would be a private number.
    Assumes:       declared classes; a public network; that a picture's gradient in floats does not depend on
                   its neighbours in a micro-batch (see `NetworkGradient`); who was sampled is never told.
    Reference:     Hu et al. (2022), for linear layers and convolutions without groups; Yu et al. (2022) for
                   training them privately.

    Attributes:
        rank: of each layer's change.
        blocks: how many of the network's last stages are trained; None for all.
    """

    rank: Whole = 8
    blocks: int | None = 4
    train: ClassVar[str] = "low-rank"
    name: ClassVar[str] = "lora"
    about: ClassVar[About] = About(
        card="Low-rank changes of the weights in a public network's last blocks, and a linear head, were "
        f"trained by DP-SGD: {STEPS_SEE}.",
        paper_names=("dp-lora",),
        reference="Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: LoRA: Low-Rank Adaptation of Large "
        "Language Models (ICLR 2022), on images, with Poisson samples and steps of planned length.",
        family="Networks",
        options={"rank": "Of each layer's change.", **OPTIONS},
    )


@dataclass(frozen=True)
class WarmStartNetwork(FineTuning):
    """Noisy class centres, then noisy gradients of a network on what they miss: few passes.

    `WarmStart` on pixels: the prior is of the public network's rows, and what is trained is inside of it.

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

    train: Annotated[str, one_of(*TRAINED)] = "film"
    rank: Whole = 8
    share: Fraction = noisy_gd.WarmStart.share
    loss: Annotated[str, one_of(*noisy_gd.LOSSES)] = noisy_gd.WarmStart.loss
    prior_temperature: Moderate = noisy_gd.WarmStart.prior_temperature
    name: ClassVar[str] = "warm-start-network"
    about: ClassVar[About] = About(
        card="The sums of a public network's rows for the private pictures of each class were released with "
        "Gaussian noise; the cosines to them are a first classifier. Parts of the network, and a head that "
        f"has a say beside it, were then trained by DP-SGD on what the first misses: {STEPS_SEE}.",
        reference=noisy_gd.WarmStart.about.reference,
        family="Networks",
        options={
            "train": "film, bias, low-rank, last or all.",
            **noisy_gd.PRIOR_OPTIONS,
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

    def parts(self, network: Network, classes: int, features: FittedFeatures | None) -> TrainedParts:
        """As it is set; the released head will see both rows of a picture, side by side."""
        if self.train != "last":
            lattice.require_exact_norms(2 * network.dimension)
        return super().parts(network, classes, features)

    def map_of(self, network: Network, public: PublicImages) -> None:
        """None: the head sees rows of two networks side by side, of unit norm each."""

    def pre_steps(self, facts: Facts, rounds: GaussianRounds) -> list[GaussianRounds]:
        """The class sums, for their share; a plan knows no network, so there is room for the widest rows."""
        return [noisy_gd.sums_before(rounds, Outline(lattice.LARGEST_DIMENSION), facts, self.share)]

    def with_released(
        self, loss: PictureLoss, before: Sequence[GaussianRounds], private: PrivateImages, noise: NoiseSource
    ) -> PictureLoss:
        """The loss beside the prior that the released centres give."""
        (paid,), network = before, loss.pictures.parts.network
        rows = in_memory.encode_pixels(private.pixels, network.encoder, batch=self.micro_batch)
        features = UnitNorm().fit(network.dimension, None)
        prior = noisy_gd.released_directions(paid, features, rows, private, noise) / self.prior_temperature
        # In exact integers: a float product may round a row otherwise where there are more of them.
        logits = softmax.IntegerLogits.of(prior, np.zeros(len(prior)), None, ROW_NORM)
        steps = softmax.logit_steps(features.lattice(rows, ROW_NORM).astype(np.float64), logits)
        fixed = torch.from_numpy((steps.T * 2.0**-10).astype(np.float32)).to(network.device)
        return PictureLoss(loss.pictures, fixed, self.loss, prior)

    def outcome(self, loss: PictureLoss, theta: Floats, plan: Plan) -> Outcome:
        """Both heads, on rows of the changed network and of the unchanged one, side by side."""
        assert loss.prior_weights is not None
        own, weights = super().outcome(loss, theta, plan), loss.pictures.parts.head(theta)
        prior, delta = loss.prior_weights, own.encoder_delta
        if delta is not None:  # else both have the same rows
            # Two rows of unit norm side by side are one of norm √2, which the map scales to unit norm.
            blank, longer = np.zeros_like(weights), math.sqrt(2)
            weights, prior = longer * np.hstack([weights, blank]), longer * np.hstack([blank, prior])
            features = UnitNorm().fit(prior.shape[1], None)
            delta = encoder.EncoderDelta(delta.base, delta.kind + encoder.BESIDE, delta.arrays)
            own = replace(own, features=features, encoder_delta=delta)
        both, beside = (weights + prior, None) if self.loss == "logits" else (weights, prior)
        return replace(own, head=noisy_gd.combine_heads(both, beside))
