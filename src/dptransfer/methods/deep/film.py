"""Scales and shifts of a public network's normalisation layers, trained with a head on private pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dptransfer.methods.about import About, Hue, one_of
from dptransfer.methods.deep.fine_tuning import OPTIONS, STEPS_SEE, FineTuning


@dataclass(frozen=True)
class FiLM(FineTuning):
    """DP-SGD on the normalisation layers of a public network, and on a linear head.

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
        train: 'film' for scales and shifts of normalisation layers, 'bias' for their shifts and all biases.
    """

    train: Annotated[str, one_of("film", "bias")] = "film"
    name: ClassVar[str] = "film"
    about: ClassVar[About] = About(
        summary="Noisy gradients of a network's normalisation layers: many pictures far from the encoder's.",
        card="The scales and shifts of a public network's normalisation layers, or its biases, and a linear "
        f"head were trained by DP-SGD: {STEPS_SEE}.",
        reference="Tobaben, Shysheya, Bronskill, Paverd, Tople, Zanella-Béguelin, Turner, Honkela: On the "
        "Efficacy of Differentially Private Few-shot Image Classification (TMLR 2023), with Poisson samples "
        "and steps of planned length.",
        family="Networks",
        colour=Hue.TEAL,
        marker="P",
        options={"train": "'film', or 'bias'.", **OPTIONS},
    )

    @property
    def trained(self) -> Mapping[str, Any]:
        """As it is set."""
        return {"train": self.train}
