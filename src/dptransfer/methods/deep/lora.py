"""Low-rank changes of a public network's last layers, trained with a head on private pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dptransfer.methods.about import About, Hue, Whole
from dptransfer.methods.deep.fine_tuning import OPTIONS, STEPS_SEE, FineTuning


@dataclass(frozen=True)
class LoRA(FineTuning):
    """DP-SGD on low-rank changes of a public network's last stages, and on a linear head.

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
    name: ClassVar[str] = "lora"
    about: ClassVar[About] = About(
        summary="Noisy gradients of low-rank changes in a network's last blocks: very many pictures.",
        card="Low-rank changes of the weights in a public network's last blocks, and a linear head, were "
        f"trained by DP-SGD: {STEPS_SEE}.",
        reference="Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: LoRA: Low-Rank Adaptation of Large "
        "Language Models (ICLR 2022), on images, with Poisson samples and steps of planned length.",
        family="Networks",
        colour=Hue.OLIVE,
        marker="P",
        options={"rank": "Of each layer's change.", **OPTIONS},
    )

    @property
    def trained(self) -> Mapping[str, Any]:
        """As it is set."""
        return {"train": "low-rank", "rank": self.rank}
