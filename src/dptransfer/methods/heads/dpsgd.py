"""Softmax regression by noisy gradients of Poisson samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dptransfer.methods.about import SLATE, About
from dptransfer.methods.heads.noisy_gd import NoisyGD
from dptransfer.methods.settings import Rate


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
        colour=SLATE,
        marker="h",
        options={**NoisyGD.about.options, "sampling_rate": "Chance to be in a step."},
    )
    default_steps: ClassVar[int] = 120  # a step costs a tenth of a full one

    @property
    def rate(self) -> float:
        """The sampling rate."""
        return self.sampling_rate
