"""A public encoder as methods on pictures use it: pixels in, rows out, with gradients on the way."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import PixelArray
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.grey_levels import GreyRange
from dptransfer.encoders.per_example import PerExample, is_plain_linear, rows_alone
from dptransfer.encoders.registry import get_encoder
from dptransfer.encoders.torch_module import TorchModuleEncoder
from dptransfer.errors import ArgumentError, Incompatible


class Network:
    """A frozen public network behind an image encoder; what it gives is a function of each picture alone.

    Attributes:
        encoder: the encoder, whose `module` is the network, in evaluation mode and without gradients.
        module: the network.
        device: where it is.
    """

    def __init__(self, encoder: Any) -> None:
        import torch

        if not isinstance(getattr(encoder, "module", None), torch.nn.Module):
            raise ArgumentError(
                f"A method that looks inside of its encoder needs a torch network; "
                f"'{encoder.identity.name}' is none. Use 'efficientnet-lite0' with runtime='torch', or a "
                "TorchModuleEncoder."
            )
        self.encoder, self.module = encoder, encoder.module.eval().requires_grad_(False)
        _require_public_statistics(self)
        self.device = next(self.module.parameters()).device
        if encoder.source_head is not None:
            encoder.source_head.eval().requires_grad_(False).to(self.device)

    @property
    def identity(self) -> EncoderIdentity:
        """Which encoder it is."""
        identity: EncoderIdentity = self.encoder.identity
        return identity

    @property
    def dimension(self) -> int:
        """Width of a row."""
        return int(self.encoder.dimension)

    @property
    def side(self) -> int:
        """Height and width of the pictures that it takes."""
        if self.encoder.pixel_map is None:
            raise ArgumentError(
                "A method on pixels needs an encoder that squeezes pictures to a square and scales their "
                f"values, no more; '{self.identity.name}' does otherwise (cuts an edge off, say), or does "
                "not tell. Take another, or make one with pixel_map=PixelMap(side, mean, scale)."
            )
        return int(self.encoder.pixel_map.side)

    def require_shape(self, shape: tuple[int, ...]) -> None:
        """Raise unless pictures have the size that the network takes."""
        if tuple(shape) != (self.side, self.side, 3):
            found = " × ".join(map(str, shape[:2]))
            raise Incompatible(
                f"Pictures must be {self.side} × {self.side} for the encoder '{self.identity.name}'; these "
                f"are {found}. Squeeze them with resolution={self.side}, or set size."
            )

    def inputs(self, pixels: PixelArray) -> Any:
        """The network's input for pictures, (pictures, side, side, 3) bytes: (pictures, 3, side, side)."""
        import torch

        self.require_shape(pixels.shape[1:])
        raw = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device)
        return self.from_bytes(raw)

    def from_bytes(self, raw: Any) -> Any:
        """The same for a tensor of bytes, or of floats from 0 to 255, that is on the device already."""
        return (raw.permute(0, 3, 1, 2).float() - self._mean) / self._scale

    def rows(self, inputs: Any) -> Any:
        """Rows, (pictures, dimension), each of its own picture alone, that gradients flow through."""
        own = type(self.encoder) is TorchModuleEncoder and "own_rows" not in vars(self.encoder)
        return self.encoder.own_rows(inputs) if own else self._rows_alone(inputs)

    @property
    def source_classes(self) -> int:
        """How many classes its public head tells apart; 0 without one."""
        head = self.encoder.source_head
        return 0 if head is None else int(head.weight.shape[0])

    def classify(self, rows: Any) -> Any:
        """(pictures, source classes) logits of the public head, each of its own row alone."""
        head = self.encoder.source_head
        return head(rows) if is_plain_linear(head) else self._classify_alone(rows)

    @property
    def stages(self) -> list[Callable[[Any], Any]]:
        """Functions whose composition, with the mean over space if maps are left, is `rows`."""
        import torch

        told = getattr(self.module, "stages", None)
        if callable(told) and not isinstance(told, torch.nn.Module):
            return list(told())
        return list(self.module) if isinstance(self.module, torch.nn.Sequential) else [self.module]

    @cached_property
    def _rows_alone(self) -> PerExample:
        return rows_alone(self.encoder)

    @cached_property
    def _classify_alone(self) -> PerExample:
        return PerExample(deepcopy(self.encoder.source_head), self.identity.name)

    @cached_property
    def _mean(self) -> Any:
        return self._channels(self.encoder.pixel_map.mean)

    @cached_property
    def _scale(self) -> Any:
        return self._channels(self.encoder.pixel_map.scale)

    def _channels(self, values: Any) -> Any:
        import torch

        return torch.tensor(values, dtype=torch.float32, device=self.device).reshape(-1, 1, 1)


def network_of(
    name: str, *, size: int | None = None, device: str = "cpu", grey_range: GreyRange | None = None
) -> Network:
    """The network behind the encoder of this name, as `get_encoder` finds it."""
    checks.import_optional("torch", "deep", "A method that looks inside of its encoder")
    how: dict[str, Any] = {"size": size, "device": device, "grey_range": grey_range}
    return Network(get_encoder(name, kind="image", runtime="torch", **how))


def _require_public_statistics(network: Network) -> None:
    """Raise for a layer that would normalise by the other pictures of a batch."""
    from torch.nn.modules.batchnorm import _BatchNorm

    if any(isinstance(one, _BatchNorm) and one.running_mean is None for one in network.module.modules()):
        raise ArgumentError(
            "What a network gives must not depend on other pictures, so batch normalisation needs public "
            f"statistics; a layer of '{network.identity.name}' has none. Train it with running statistics."
        )
