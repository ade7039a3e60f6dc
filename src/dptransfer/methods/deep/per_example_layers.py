"""Layers with per-example parameters, for per-example gradients in one backward pass.

Each class is one way to change one layer. `units` says what is trained, as differences to public values, and
what one unit of each stands for, so that all layers are trained in units of what they have; `forward`
computes with a copy for each example; `new_arrays` gives the arrays of an `EncoderDelta`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


class TrainedLayer(ABC):
    """One layer; stands in for its `forward`.

    Args:
        layer: the public layer.
        units: what one unit stands for, of every array that is trained and of its shape.

    Attributes:
        copies: what each example has of every such array.
    """

    def __init__(self, layer: Any, *units: torch.Tensor) -> None:
        self.layer, self.units = layer, units
        self.copies: tuple[torch.Tensor, ...] = ()
        self._public: Callable[[torch.Tensor], torch.Tensor] = layer.forward

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output, with the copies."""
        return self.forward(x, *self.copies)

    @abstractmethod
    def forward(self, x: torch.Tensor, *copies: torch.Tensor) -> torch.Tensor:
        """The layer with these differences of each example."""

    @abstractmethod
    def new_arrays(self, *changes: torch.Tensor) -> dict[str, torch.Tensor]:
        """Arrays of a delta, by the names that the layer has for them."""


class Film(TrainedLayer):
    """Scale and shift of a normalisation layer: batch (with its public statistics), group or layer.

    A unit is the public scale of each channel: one that the network does not use stays so.

    Args:
        layer: the public layer.
        shift_only: whether the scale stays: then nothing is kept for the way back.
    """

    def __init__(self, layer: Any, *, shift_only: bool = False) -> None:
        import torch

        super().__init__(layer, *(layer.weight.abs(),) * (1 if shift_only else 2))
        self._last = isinstance(layer, torch.nn.LayerNorm)
        self._by_statistics = isinstance(layer, torch.nn.BatchNorm2d)
        if self._by_statistics:
            self._narrow = torch.rsqrt(layer.running_var + layer.eps)

    def forward(self, x: torch.Tensor, *copies: torch.Tensor) -> torch.Tensor:
        """With a scale, if it is trained, and a shift of each example."""
        import torch

        functional, layer = torch.nn.functional, self.layer
        arrays = self.new_arrays(*copies)
        scale, shift = arrays.get("weight", layer.weight), arrays["bias"]
        if self._by_statistics:
            # One product and one sum, so that no more is kept for the way back than of the plain layer.
            scale = scale * self._narrow
            shift = torch.addcmul(shift, layer.running_mean, scale, value=-1)
        elif self._last:
            x = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
        else:
            x = functional.group_norm(x, layer.num_groups, eps=layer.eps)
        return torch.addcmul(_along(shift, x, last=self._last), x, _along(scale, x, last=self._last))

    def new_arrays(self, *changes: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters that take the place of the public ones."""
        *scale, shift = changes
        new = {"bias": self.layer.bias + shift}
        return {"weight": self.layer.weight + scale[0], **new} if scale else new


def _along(values: torch.Tensor, x: torch.Tensor, *, last: bool) -> torch.Tensor:
    """(channels) or (examples, channels), so that they go with x, whose channels are last or second."""
    between = (1,) * (x.ndim - 2)
    examples, channels = (1, *values.shape)[-2:]
    return values.reshape(examples, *((*between, channels) if last else (channels, *between)))


class Bias(TrainedLayer):
    """The bias of a linear or convolutional layer.

    A unit is the norm of the weights of each output: about how far it varies, for inputs of size one.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__(layer, layer.weight.flatten(1).norm(dim=1))

    def forward(self, x: torch.Tensor, *copies: torch.Tensor) -> torch.Tensor:
        """With a bias of each example."""
        return self._public(x) + _along(copies[0], x, last=self.layer.weight.ndim == 2)

    def new_arrays(self, *changes: torch.Tensor) -> dict[str, torch.Tensor]:
        """The bias that takes the place of the public one."""
        return {"bias": self.layer.bias + changes[0]}


class LowRank(TrainedLayer):
    """W + up·down, for the weights of a linear layer, or of a convolution as a matrix (outputs, the rest).

    Units are the norm of the weights of each output, and the size of the random numbers.
    """

    def __init__(self, layer: Any, rank: int) -> None:
        import torch

        matrix = layer.weight.flatten(1)
        outputs, inputs = matrix.shape
        self.rank = min(rank, outputs, inputs)
        size, device = 1 / math.sqrt(inputs), matrix.device
        up = matrix.norm(dim=1)[:, None].expand(outputs, self.rank)
        super().__init__(layer, up, torch.full((self.rank, inputs), size, device=device))
        # Random, but the same for everyone: what is trained is counted from there.
        drawn = np.random.Generator(np.random.PCG64(0)).normal(size=(self.rank, inputs)) / math.sqrt(inputs)
        self._start = torch.from_numpy(drawn.astype(np.float32)).to(device)

    def forward(self, x: torch.Tensor, *copies: torch.Tensor) -> torch.Tensor:
        """With two factors of each example."""
        from torch.nn import functional

        layer, (up, down) = self.layer, copies
        down = self._start + down
        if layer.weight.ndim == 2:
            inside = x.reshape(len(x), -1, x.shape[-1]) @ down.mT
            return self._public(x) + (inside @ up.mT).reshape(*x.shape[:-1], -1)
        if layer.kernel_size == (1, 1) and tuple(layer.stride) == (1, 1) and layer.padding == (0, 0):
            size = x.shape[2:]
            inside = x.permute(0, 2, 3, 1).reshape(len(x), -1, x.shape[1]) @ down.mT
        else:
            kernels = down.reshape(-1, *layer.weight.shape[1:])
            how = {name: getattr(layer, name) for name in ("stride", "padding", "dilation")}
            maps = functional.conv2d(x.reshape(1, -1, *x.shape[2:]), kernels, groups=len(x), **how)
            size = maps.shape[2:]
            inside = maps.reshape(len(x), self.rank, -1).mT
        outside = (inside @ up.mT).reshape(len(x), *size, -1)
        return self._public(x) + outside.permute(0, 3, 1, 2)

    def new_arrays(self, *changes: torch.Tensor) -> dict[str, torch.Tensor]:
        """Both factors."""
        up, down = changes
        return {"weight.up": up, "weight.down": self._start + down}
