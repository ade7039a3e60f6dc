"""Teachers from scratch: a small convolutional network for each, all of them in one pass."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.deep.teachers import public_layer, repeated
from dptransfer.encoders.small_cnn import GROUPS, public_kernels

_SIDE = 32
_CHANNELS = (3, 16, 32, 64)


class SmallTeachers:
    """Networks of the form of the encoder `small-cnn` at half its width, each with a head of its own.

    A convolution of all teachers at once is one with as many groups as there are teachers, and so is their
    group normalisation; no teacher's numbers meet another's. All start at the same public random weights.

    They learn on the CPU, where this was found to hold bit for bit. On an H200 one of two checks found
    weights that differ beside other neighbours: kernels of grouped convolutions do not keep groups apart.

    Args:
        classes: how many are declared.
    """

    device: ClassVar[str] = "cpu"

    def __init__(self, classes: int) -> None:
        bits = np.random.Generator(np.random.PCG64(0))
        self._start: list[AnyArray] = []
        for kernels in public_kernels(_CHANNELS):
            self._start += [kernels, np.ones(len(kernels)), np.zeros(len(kernels))]
        self._start += public_layer(bits, _CHANNELS[-1], classes)

    def start(self, count: int) -> list[Any]:
        """Kernels, scales and shifts of each layer; weights and offsets of the head."""
        return repeated(self._start, count, self.device)

    def logits(self, weights: list[Any], raw: Any) -> Any:
        """(teachers, pictures, classes) for bytes (teachers, pictures, side, side, 3), each teacher's own."""
        import torch
        from torch.nn import functional

        teachers, pictures = raw.shape[:2]
        inputs = (raw.flatten(0, 1).permute(0, 3, 1, 2).float() - 127) / 64
        small = functional.interpolate(inputs, (_SIDE, _SIDE), mode="bilinear", antialias=True)
        maps = small.reshape(teachers, pictures, 3, _SIDE, _SIDE).transpose(0, 1).flatten(1, 2)
        *layers, head, offset = weights
        for number, (kernels, scale, shift) in enumerate(zip(*[iter(layers)] * 3, strict=True)):
            maps = functional.avg_pool2d(maps, 2) if number else maps
            maps = functional.conv2d(maps, kernels.flatten(0, 1), padding=1, groups=teachers)
            maps = functional.group_norm(maps, teachers * GROUPS, scale.flatten(), shift.flatten()).relu()
        rows = maps.mean((2, 3)).reshape(pictures, teachers, -1).transpose(0, 1)
        return torch.baddbmm(offset[:, None], rows, head)
