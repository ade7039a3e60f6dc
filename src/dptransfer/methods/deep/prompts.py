"""Re-teachers: a frozen public classifier between a trained frame of pixels and a trained label map."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from dptransfer.errors import ArgumentError
from dptransfer.methods.deep.network import Network
from dptransfer.methods.deep.teachers import public_layer, repeated

_HIDDEN = 64  # width between two layers
_INNER = 192 / 224  # share of the input's side that the paper leaves to the picture


class Prompts:
    """Visual prompts and label maps, one of each for every teacher, around one frozen network.

    A picture x is squeezed to inner × inner and put in the middle of the network's input, with zeros (what
    the network takes for a middle grey) around it. With ω the prompt, of the input's shape, the network sees

    - with the mask, M ⊙ ω + (1 − M) ⊙ ZeroPad(x), where M is 1 outside of the inner square: the prompt is
      a frame around the picture;
    - without it, ω + ZeroPad(x): the prompt is added to every pixel.

    It answers with logits of its own public classes. `random` takes one of these for each declared class,
    drawn once with a public seed, whoever's pictures are whose; `one-layer` and `two-layer` learn an affine
    map of all of them, the latter with ReLU between. Prompts start at zero and layers at public random
    numbers, the same for every teacher.

    Args:
        network: the frozen classifier.
        classes: how many are declared.
        inner: side of the square that the picture is squeezed to; default: 192 of 224 parts of the whole.
        mask: whether the prompt is a frame only.
        label_map: how the network's classes become the declared ones.
    """

    def __init__(
        self,
        network: Network,
        classes: int,
        *,
        inner: int | None = None,
        mask: bool = True,
        label_map: str = "one-layer",
    ) -> None:
        import torch

        self.network, self.device, self._label_map = network, network.device, label_map
        side, source = network.side, network.source_classes
        self.inner = round(_INNER * side) if inner is None else inner
        _require(network, classes, self.inner, label_map)
        self._low = (side - self.inner) // 2
        self._high = self._low + self.inner
        self._mask = torch.ones(side, side, device=self.device)
        if mask:
            self._mask[self._low : self._high, self._low : self._high] = 0
        bits = np.random.Generator(np.random.PCG64(0))
        self._chosen = torch.from_numpy(bits.permutation(source)[:classes].copy()).to(self.device)
        widths = {"random": (), "one-layer": (source, classes), "two-layer": (source, _HIDDEN, classes)}
        layers = (public_layer(bits, *pair) for pair in pairwise(widths[label_map]))
        self._start = [np.zeros((3, side, side)), *(array for layer in layers for array in layer)]

    def start(self, count: int) -> list[Any]:
        """The prompts, and each layer's weights and offsets."""
        return repeated(self._start, count, self.device)

    def logits(self, weights: list[Any], raw: Any) -> Any:
        """(teachers, pictures, classes) for bytes (teachers, pictures, side, side, 3), each teacher's own."""
        prompts, *layers = weights
        teachers, pictures = raw.shape[:2]
        seen = self.seen(prompts, raw)
        source = self.network.classify(self.network.rows(seen.flatten(0, 1)))
        return self._mapped(layers, source.reshape(teachers, pictures, -1))

    def seen(self, prompts: Any, raw: Any) -> Any:
        """What the network sees of each picture, (teachers, pictures, 3, side, side)."""
        import torch

        inputs = self.network.from_bytes(raw.flatten(0, 1))
        small = torch.nn.functional.interpolate(
            inputs, (self.inner, self.inner), mode="bilinear", antialias=True
        )
        after = self.network.side - self._high
        padded = torch.nn.functional.pad(small, (self._low, after, self._low, after))
        return (self._mask * prompts)[:, None] + padded.reshape(*raw.shape[:2], *padded.shape[1:])

    def _mapped(self, layers: list[Any], source: Any) -> Any:
        """Logits of the declared classes."""
        import torch

        if not layers:
            return source[..., self._chosen]
        mapped = torch.baddbmm(layers[1][:, None], source, layers[0])
        return mapped if len(layers) == 2 else torch.baddbmm(layers[3][:, None], mapped.relu(), layers[2])


def _require(network: Network, classes: int, inner: int, label_map: str) -> None:
    """Raise for what cannot be prompted; all of it is public."""
    name, source = network.identity.name, network.source_classes
    if source == 0:
        raise ArgumentError(
            f"Prompts need an encoder that brings its public classifier; '{name}' brings none. Use "
            "'efficientnet-lite0', or an image classifier saved by transformers."
        )
    if not 0 < inner < network.side:
        raise ArgumentError(
            f"inner must leave a frame for the prompt, between 1 and {network.side - 1} for the encoder "
            f"'{name}'; got {inner}. Choose a smaller one."
        )
    if label_map == "random" and source < classes:
        raise ArgumentError(
            f"A random label map needs a source class for each declared class; '{name}' has {source} and "
            f"{classes} are declared. Use label_map='one-layer'."
        )
