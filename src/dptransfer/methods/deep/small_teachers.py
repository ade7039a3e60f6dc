"""Small convolutional teachers, trained from scratch in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats32
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.torch_module import PixelMap, TorchModuleEncoder
from dptransfer.methods.deep.teachers import public_layer, repeated

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
    checks.whole("size (--image-size)", size, at_least=8)
    torch = checks.import_optional("torch", "torch", "The encoder small-cnn")
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
