"""A small convolutional network that has seen no data: a public start for training on pixels from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats32
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.torch_module import PixelMap, TorchModuleEncoder

if TYPE_CHECKING:
    from PIL import Image

NAME = "small-cnn"
_WIDTHS = (3, 32, 64, 128)
GROUPS = 8


def public_kernels(widths: Sequence[int]) -> Iterator[Floats32]:
    """Random 3 × 3 convolutions from each width to the next, (outputs, inputs, 3, 3), from one public seed.

    Uniform, with the variance 2 ÷ inputs of He et al. (2015).
    """
    bits = np.random.Generator(np.random.PCG64(0))
    for inputs, outputs in pairwise(widths):
        most = np.sqrt(6 / (9 * inputs))
        yield ((2 * bits.random((outputs, inputs, 3, 3)) - 1) * most).astype(np.float32)


def small_cnn(*, size: int = 32, device: str = "cpu") -> TorchModuleEncoder:
    """The encoder: three convolutions with group normalisation, 128 features.

    Its weights are random but the same for everyone; see `public_kernels`.

    Args:
        size: pictures are squeezed to size × size; part of the identity.
        device: where to run.
    """
    _check.whole("size (--image-size)", size, at_least=8)
    torch = _check.installed("torch", "torch", "The encoder small-cnn")
    layers = []
    for weights in public_kernels(_WIDTHS):
        outputs, inputs = weights.shape[:2]
        convolution = torch.nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        convolution.weight.data = torch.from_numpy(weights)
        last = torch.nn.AvgPool2d(2) if outputs != _WIDTHS[-1] else torch.nn.Identity()
        layers.append(
            torch.nn.Sequential(convolution, torch.nn.GroupNorm(GROUPS, outputs), torch.nn.ReLU(), last)
        )

    def prepare(image: Image.Image) -> Floats32:
        from PIL import Image

        small = image.convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
        pixels: Floats32 = np.asarray(small, dtype=np.float32).transpose(2, 0, 1)
        return (pixels - np.float32(127)) / np.float32(64)

    network: Any = torch.nn.Sequential(*layers)
    return TorchModuleEncoder(
        network,
        prepare,
        name=NAME,
        transform_name=f"rgb {size} bicubic (x-127)/64, mean pool",
        device=device,
        size=size,
        pixel_map=PixelMap(size, 127.0, 64.0),
    )


NOTE = EncoderNote(
    name=NAME,
    load=small_cnn,
    summary="Random weights, for training on pixels from scratch.",
    kind="image",
    dimension=_WIDTHS[-1],
    install="pip install 'dptransfer[torch]'",
    licence="Apache-2.0",
    training_data="none",
)
