"""A public encoder as methods on pictures use it: pixels in, rows out, with gradients on the way."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import PixelArray, Tensor
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
        identity: which encoder it is.
        device: where it is.
    """

    def __init__(self, encoder: Any) -> None:
        if not isinstance(getattr(encoder, "module", None), torch.nn.Module):
            raise ArgumentError(
                f"A method that looks inside of its encoder needs a torch network; "
                f"'{encoder.identity.name}' is none. Use 'efficientnet-lite0' with runtime='torch', or a "
                "TorchModuleEncoder."
            )
        self.encoder = encoder
        self.module: torch.nn.Module = encoder.module.eval().requires_grad_(False)
        self.identity: EncoderIdentity = encoder.identity
        self._require_public_statistics()
        self.device = next(self.module.parameters()).device
        if encoder.source_head is not None:
            encoder.source_head.eval().requires_grad_(False).to(self.device)

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
                f"are {found}. Resize them with resolution={self.side}, or set size."
            )

    def inputs(self, pixels: PixelArray) -> Tensor:
        """The network's input for pictures, (pictures, side, side, 3) bytes: (pictures, 3, side, side)."""
        self.require_shape(pixels.shape[1:])
        return self.from_bytes(torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device))

    def from_bytes(self, raw: Tensor) -> Tensor:
        """The same for a tensor of bytes, or of floats from 0 to 255, that is on the device already."""
        mean, scale = self._scaling
        return (raw.permute(0, 3, 1, 2).float() - mean) / scale

    def rows(self, inputs: Tensor) -> Tensor:
        """Rows, (pictures, dimension), each of its own picture alone, that gradients flow through."""
        own = type(self.encoder) is TorchModuleEncoder and "own_rows" not in vars(self.encoder)
        rows: Tensor = (self.encoder.own_rows if own else self._rows_alone)(inputs)
        return rows

    @property
    def source_classes(self) -> int:
        """How many classes its public head tells apart; 0 without one."""
        head = self.encoder.source_head
        return 0 if head is None else int(head.weight.shape[0])

    def classify(self, rows: Tensor) -> Tensor:
        """(pictures, source classes) logits of the public head, each of its own row alone."""
        head = self.encoder.source_head
        logits: Tensor = (head if is_plain_linear(head) else self._classify_alone)(rows)
        return logits

    @property
    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        """Functions whose composition, with the mean over space if maps are left, is `rows`."""
        own = getattr(self.module, "stages", None)
        if callable(own) and not isinstance(own, torch.nn.Module):
            return list(own())
        return list(self.module) if isinstance(self.module, torch.nn.Sequential) else [self.module]

    @cached_property
    def _rows_alone(self) -> PerExample:
        return rows_alone(self.encoder)

    @cached_property
    def _classify_alone(self) -> PerExample:
        return PerExample(deepcopy(self.encoder.source_head), self.identity.name)

    @cached_property
    def _scaling(self) -> list[Tensor]:
        """What is taken off every byte, and what it is divided by then, for each channel."""
        _, *scaling = self.encoder.pixel_map
        made = (torch.tensor(one, dtype=torch.float32, device=self.device) for one in scaling)
        return [one.reshape(-1, 1, 1) for one in made]

    def _require_public_statistics(self) -> None:
        """Raise for a layer that would normalise by the other pictures of a batch."""
        norm = torch.nn.modules.batchnorm._BatchNorm
        if any(isinstance(one, norm) and one.running_mean is None for one in self.module.modules()):
            raise ArgumentError(
                "What a network gives must not depend on other pictures, so batch normalisation needs public "
                f"statistics; a layer of '{self.identity.name}' has none. Train it with running statistics."
            )


def network_of(
    name: str, *, size: int | None = None, device: str = "cpu", grey_range: GreyRange | None = None
) -> Network:
    """The network behind the encoder of this name, as `get_encoder` finds it."""
    checks.import_optional("torch", "deep", "A method that looks inside of its encoder")
    found = get_encoder(name, kind="image", runtime="torch", size=size, device=device, grey_range=grey_range)
    return Network(found)


def delta_kind(train: str) -> str | None:
    """The kind of `EncoderDelta` that such training leaves; None where the encoder stays as it is.

    >>> [delta_kind(train) for train in ("film", "low-rank", "last")]
    ['state', 'low-rank', None]
    """
    return {"last": None, "low-rank": "low-rank"}.get(train, "state")
