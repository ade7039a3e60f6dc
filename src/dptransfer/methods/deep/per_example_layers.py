"""Layers with per-example parameters, for per-example gradients in one backward pass.

Each class is one way to change one layer. `shapes` says what is trained, as differences to public values, and
`units` what one unit of each stands for, so that all layers are trained in units of what they have; `forward`
computes with a copy for each example; `released` gives the arrays of an `EncoderDelta`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Carried(ABC):
    """One layer; stands in for its `forward`.

    Attributes:
        layer: the public layer.
        shapes: of what is trained.
        copies: what each example has of every shape.
    """

    layer: Any
    shapes: tuple[tuple[int, ...], ...]
    copies: tuple[Any, ...] = ()

    def __call__(self, x: Any) -> Any:
        """The layer's output, with the copies."""
        return self.forward(x, *self.copies)

    @property
    @abstractmethod
    def units(self) -> tuple[Any, ...]:
        """What one unit stands for, of every shape."""

    @abstractmethod
    def forward(self, x: Any, *copies: Any) -> Any:
        """The layer with these differences of each example."""

    @abstractmethod
    def released(self, *changes: Any) -> dict[str, Any]:
        """Arrays of a delta, by the names that the layer has for them."""


class Film(Carried):
    """Scale and shift of a normalisation layer: batch (with its public statistics), group or layer."""

    def __init__(self, layer: Any) -> None:
        import torch

        self.layer = layer
        self.shapes = (tuple(layer.weight.shape), tuple(layer.bias.shape))
        self._last = isinstance(layer, torch.nn.LayerNorm)
        self._by_statistics = isinstance(layer, torch.nn.BatchNorm2d)
        if self._by_statistics:
            self._narrow = torch.rsqrt(layer.running_var + layer.eps)

    @property
    def units(self) -> tuple[Any, ...]:
        """The public scale of each channel: one that the network does not use stays so."""
        return self.layer.weight.abs(), self.layer.weight.abs()

    def forward(self, x: Any, *copies: Any) -> Any:
        """With a scale and a shift of each example."""
        scale, shift = copies
        return self._modulated(x, self.layer.weight + scale, self.layer.bias + shift)

    def released(self, *changes: Any) -> dict[str, Any]:
        """The parameters that take the place of the public ones."""
        scale, shift = changes
        return {"weight": self.layer.weight + scale, "bias": self.layer.bias + shift}

    def _modulated(self, x: Any, scale: Any, shift: Any) -> Any:
        import torch

        functional, layer = torch.nn.functional, self.layer
        if self._by_statistics:
            # One product and one sum, so that no more is kept for the way back than of the plain layer.
            scale = scale * self._narrow
            shift = torch.addcmul(shift, layer.running_mean, scale, value=-1)
        elif self._last:
            x = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
        else:
            x = functional.group_norm(x, layer.num_groups, eps=layer.eps)
        return torch.addcmul(self._along(shift, x), x, self._along(scale, x))

    def _along(self, values: Any, x: Any) -> Any:
        """(channels) or (examples, channels), so that they go with x."""
        between = (1,) * (x.ndim - 2)
        examples, channels = (1, *values.shape)[-2:]
        return (
            values.reshape(examples, *between, channels)
            if self._last
            else values.reshape(examples, channels, *between)
        )


class Shift(Film):
    """The shift of a normalisation layer alone: nothing is kept for the way back."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.shapes = (tuple(layer.bias.shape),)

    @property
    def units(self) -> tuple[Any, ...]:
        """The public scale of each channel."""
        return (self.layer.weight.abs(),)

    def forward(self, x: Any, *copies: Any) -> Any:
        """With a shift of each example."""
        return self._modulated(x, self.layer.weight, self.layer.bias + copies[0])

    def released(self, *changes: Any) -> dict[str, Any]:
        """The bias that takes the place of the public one."""
        return {"bias": self.layer.bias + changes[0]}


class Bias(Carried):
    """The bias of a linear or convolutional layer."""

    def __init__(self, layer: Any) -> None:
        self.layer, self.shapes = layer, (tuple(layer.bias.shape),)
        self._plain = layer.forward

    @property
    def units(self) -> tuple[Any, ...]:
        """The norm of the weights of each output: about how far it varies, for inputs of size one."""
        return (self.layer.weight.flatten(1).norm(dim=1),)

    def forward(self, x: Any, *copies: Any) -> Any:
        """With a bias of each example."""
        (bias,) = copies
        between = (1,) * (x.ndim - 2)
        last = self.layer.weight.ndim == 2
        return self._plain(x) + bias.reshape(len(bias), *((*between, -1) if last else (-1, *between)))

    def released(self, *changes: Any) -> dict[str, Any]:
        """The bias that takes the place of the public one."""
        return {"bias": self.layer.bias + changes[0]}


class LowRank(Carried):
    """W + up·down, for the weights of a linear layer, or of a convolution as a matrix (outputs, the rest)."""

    def __init__(self, layer: Any, rank: int) -> None:
        import torch

        self.layer, self._plain = layer, layer.forward
        matrix = layer.weight.flatten(1)
        outputs, inputs = matrix.shape
        self.rank = min(rank, outputs, inputs)
        self.shapes = ((outputs, self.rank), (self.rank, inputs))
        # Random, but the same for everyone: what is trained is counted from there.
        drawn = np.random.Generator(np.random.PCG64(0)).normal(size=(self.rank, inputs)) / math.sqrt(inputs)
        self._start = torch.from_numpy(drawn.astype(np.float32)).to(matrix.device)

    @property
    def units(self) -> tuple[Any, ...]:
        """The norm of the weights of each output, and the size of the random numbers."""
        import torch

        norms = self.layer.weight.flatten(1).norm(dim=1)
        up, down = self.shapes
        return norms[:, None].expand(up), torch.full(down, 1 / math.sqrt(down[1]), device=norms.device)

    def forward(self, x: Any, *copies: Any) -> Any:
        """With two factors of each example."""
        import torch

        layer, (up, down) = self.layer, copies
        down = self._start + down
        if layer.weight.ndim == 2:
            inside = x.reshape(len(x), -1, x.shape[-1]) @ down.mT
            return self._plain(x) + (inside @ up.mT).reshape(*x.shape[:-1], -1)
        if layer.kernel_size == (1, 1) and tuple(layer.stride) == (1, 1) and layer.padding == (0, 0):
            seen = x.permute(0, 2, 3, 1)
            inside = seen.reshape(len(x), -1, x.shape[1]) @ down.mT
            height, width = seen.shape[1:3]
        else:
            kernels = down.reshape(-1, *layer.weight.shape[1:])
            maps = torch.nn.functional.conv2d(
                x.reshape(1, -1, *x.shape[2:]),
                kernels,
                None,
                layer.stride,
                layer.padding,
                layer.dilation,
                len(x),
            )
            height, width = maps.shape[2:]
            inside = maps.reshape(len(x), self.rank, -1).mT
        outside = (inside @ up.mT).reshape(len(x), height, width, -1)
        return self._plain(x) + outside.permute(0, 3, 1, 2)

    def released(self, *changes: Any) -> dict[str, Any]:
        """Both factors."""
        up, down = changes
        return {"weight.up": up, "weight.down": self._start + down}
