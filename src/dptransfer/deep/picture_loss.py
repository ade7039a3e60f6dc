"""The loss of each picture, and its gradients: softmax, alone or beside a prior that is fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dptransfer.arrays import Floats, Integers, Labels
from dptransfer.compute.replayed import replayed
from dptransfer.deep.network_gradient import Gradients
from dptransfer.deep.pictures import Pictures

Combination = Literal["average", "logits"]


def losses(logits: Any, labels: Any, prior: Any = None, combined: Combination = "average") -> Any:
    """The loss of each picture.

    Without a prior, cross-entropy. With one, the logits h of a classifier that stays as it is,
    −log((softmax(g)_y + softmax(h)_y) ÷ 2) for 'average', or cross-entropy of g + h for 'logits'.

    Args:
        logits: (pictures, classes) of what is trained.
        labels: (pictures,).
        prior: (pictures, classes), or None.
        combined: how the two are put together.
    """
    import torch

    if prior is None or combined == "logits":
        both = logits if prior is None else logits + prior
        return torch.nn.functional.cross_entropy(both, labels, reduction="none")
    own, fixed = (torch.log_softmax(one, dim=1).gather(1, labels[:, None])[:, 0] for one in (logits, prior))
    return np.log(2) - torch.logaddexp(own, fixed)


@dataclass(frozen=True, eq=False)
class PictureLoss:
    """The loss of every picture of a run, as a function of θ.

    Attributes:
        pictures: the pictures, with what is trained.
        prior: (pictures, classes) logits of a classifier that stays as it is, each a function of its picture
            and of public or released values; or None.
        combined: how it is put together with what is trained.
    """

    pictures: Pictures
    prior: Any = None
    combined: Combination = "average"

    def gradients_at(self, theta: Floats) -> Gradients:
        """What a `NetworkGradient` asks for at θ."""
        import torch

        here = torch.from_numpy(theta.astype(np.float32)).to(self.pictures.parts.network.device)

        def gradients(positions: Integers, labels: Labels) -> Any:
            # Without waiting for the device: what is in ordinary memory is copied before a call returns.
            there = (torch.from_numpy(one).to(here.device, non_blocking=True) for one in (positions, labels))
            return self._gradients(here, *there)

        return gradients

    @cached_property
    def _gradients(self) -> Callable[..., Any]:
        """From θ, positions and labels, tensors on the device, to (pictures, parameters) gradients."""
        import torch

        parts, blank = self.pictures.parts, torch.full((self.pictures.micro_batch,), -1)
        blank = blank.to(parts.network.device)
        theta = blank.new_zeros(parts.size, dtype=torch.float32)
        return replayed(self._computed, theta, blank, blank * 0, thrifty=True)

    def _computed(self, theta: Any, positions: Any, labels: Any) -> Any:
        views = self.pictures.views

        def loss(logits: Any) -> Any:
            own = labels.repeat_interleave(views)
            if self.prior is None:
                return losses(logits, own)
            # The first picture's prior stands for a blank's: its gradient is dropped.
            beside = self.prior[positions.clamp(min=0)]
            return losses(logits, own, beside.repeat_interleave(views, dim=0), self.combined)

        return self.pictures.parts.gradients(theta, self.pictures.at(positions), loss, views=views)
