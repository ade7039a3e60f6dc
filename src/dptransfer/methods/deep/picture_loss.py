"""Loss and gradients of each image, with the frozen part of the network computed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Floats, Integers, Labels, PixelArray, Tensor
from dptransfer.exact.cuda import record_graph
from dptransfer.methods.deep import augment, network_gradient
from dptransfer.methods.deep.trained_parts import TrainedParts


class Pictures:
    """All pictures of a run, read once, when they are first asked for.

    What comes out of the frozen stages is kept, for all views, where that takes no more room than the picture
    would as floats; else the bytes are, and frozen stages run again. Which of the two does not depend on the
    pictures, and either way stages see pictures in batches of one size.

    Args:
        parts: what is trained.
        pixels: bytes by position, (pictures, side, side, 3): an array, or files.
        views: how many views of each picture.
        micro_batch: how many pictures, with their views, go through the network at a time.
    """

    def __init__(self, parts: TrainedParts, pixels: Any, *, views: int = 1, micro_batch: int = 32) -> None:
        self.parts, self.views, self.micro_batch = parts, views, micro_batch
        self._pixels = pixels
        self._kept: Tensor | None = None  # read when first asked for
        blank = self._maps(np.zeros((micro_batch, *pixels.shape[1:]), dtype=np.uint8))
        self._shape = blank.shape[1:]  # of one view
        self._keeps_maps = parts.first > 0 and views * self._shape.numel() <= math.prod(pixels.shape[1:])

    def __len__(self) -> int:
        return len(self._pixels)

    def at(self, positions: Tensor) -> Tensor:
        """Maps of the pictures at these positions: (positions · views, …); −1 is a blank one."""
        if self._kept is None:
            self._kept = self._read()
        chosen = self._kept[positions]  # −1 is the last, a blank
        return chosen.flatten(0, 1) if self._keeps_maps else self._from_bytes(chosen)

    def _read(self) -> Tensor:
        """What is kept of every picture, and of a blank one at the end."""
        device, each = self.parts.network.device, self._pixels.shape[1:]
        shape = (self.views, *self._shape) if self._keeps_maps else each
        kind = torch.float32 if self._keeps_maps else torch.uint8
        kept = torch.zeros((len(self) + 1, *shape), dtype=kind, device=device)
        for start in range(0, len(kept), self.micro_batch):
            batch = np.zeros((self.micro_batch, *each), dtype=np.uint8)
            read = self._pixels[start : start + self.micro_batch]
            batch[: len(read)] = read
            found = self._maps(batch) if self._keeps_maps else torch.from_numpy(batch).to(device)
            there = kept[start : start + self.micro_batch]
            there.copy_(found.reshape(self.micro_batch, *shape)[: len(there)])
        return kept

    def _maps(self, pixels: PixelArray) -> Tensor:
        return self._from_bytes(torch.from_numpy(pixels).to(self.parts.network.device))

    def _from_bytes(self, raw: Tensor) -> Tensor:
        return self.parts.front(self.parts.network.from_bytes(augment.views_of(raw, self.views)))


def losses(logits: Tensor, labels: Tensor, prior: Tensor | None = None, combined: str = "average") -> Tensor:
    """The loss of each picture.

    Without a prior, cross-entropy. With one, the logits h of a classifier that stays as it is,
    −log((softmax(g)_y + softmax(h)_y) ÷ 2) for 'average', or cross-entropy of g + h for 'logits'.

    Args:
        logits: (pictures, classes) of what is trained.
        labels: (pictures,).
        prior: (pictures, classes), or None.
        combined: how the two are put together.
    """
    if prior is None or combined == "logits":
        both = logits if prior is None else logits + prior
        return torch.nn.functional.cross_entropy(both, labels, reduction="none")
    own, fixed = (torch.log_softmax(one, dim=1).gather(1, labels[:, None])[:, 0] for one in (logits, prior))
    return math.log(2) - torch.logaddexp(own, fixed)


@dataclass(frozen=True, eq=False)
class PictureLoss:
    """The loss of every picture of a run, as a function of θ.

    Attributes:
        pictures: the pictures, with what is trained.
        prior: (pictures, classes) logits of a classifier that stays as it is, each a function of its picture
            and of public or released values; or None.
        combined: how it is put together with what is trained.
        prior_weights: (classes, dimension) of that classifier's head.
    """

    pictures: Pictures
    prior: Tensor | None = None
    combined: str = "average"
    prior_weights: Floats | None = None

    def gradients_at(self, theta: Floats) -> network_gradient.Gradients:
        """What a `NetworkGradient` asks for at θ."""
        here = torch.from_numpy(theta.astype(np.float32)).to(self.pictures.parts.network.device)

        def gradients(positions: Integers, labels: Labels) -> Tensor:
            # Without waiting for the device: what is in ordinary memory is copied before a call returns.
            there = (torch.from_numpy(one).to(here.device, non_blocking=True) for one in (positions, labels))
            return self._gradients(here, *there)

        return gradients

    @cached_property
    def _gradients(self) -> Callable[..., Tensor]:
        """From θ, positions and labels, tensors on the device, to (pictures, parameters) gradients."""
        parts, blank = self.pictures.parts, torch.full((self.pictures.micro_batch,), -1)
        blank = blank.to(parts.network.device)
        theta = blank.new_zeros(parts.size, dtype=torch.float32)
        return record_graph(self._computed, theta, blank, blank * 0, thrifty=True)

    def _computed(self, theta: Tensor, positions: Tensor, labels: Tensor) -> Tensor:
        views, prior = self.pictures.views, self.prior
        if prior is not None:  # the first picture's stands for a blank's, whose gradient is dropped
            prior = prior[positions.clamp(min=0)].repeat_interleave(views, dim=0)

        def loss(logits: Tensor) -> Tensor:
            return losses(logits, labels.repeat_interleave(views), prior, self.combined)

        return self.pictures.parts.gradients(theta, self.pictures.at(positions), loss, views=views)
