"""The loss of each picture, and its gradients: softmax, alone or beside a prior that is fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dptransfer.arrays import Floats, Integers, Labels
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

        pictures, device = self.pictures, self.pictures.parts.network.device
        here = torch.from_numpy(theta.astype(np.float32)).to(device)

        def gradients(positions: Integers, labels: Labels) -> Any:
            def loss(logits: Any) -> Any:
                own = torch.from_numpy(labels).to(device, non_blocking=True)
                own = own.repeat_interleave(pictures.views)
                if self.prior is None:
                    return losses(logits, own)
                # The first picture's prior stands for a blank's: its gradient is dropped.
                beside = self.prior[torch.from_numpy(positions).clamp(min=0).to(device, non_blocking=True)]
                return losses(logits, own, beside.repeat_interleave(pictures.views, dim=0), self.combined)

            maps = pictures.at(positions)
            return pictures.parts.gradients(here, maps, loss, views=pictures.views)

        return gradients
