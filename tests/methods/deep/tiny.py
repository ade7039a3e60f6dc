"""A public classifier of small pictures with classes of its own, and pictures whose class is a colour."""

import numpy as np
import torch

from dptransfer.encoders import TorchModuleEncoder
from dptransfer.encoders.torch_module import PixelMap

SOURCE = 7
PLACE = f"{__name__}:tiny_classifier"


def tiny_classifier(*, size: int = 8, device: str = "cpu"):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 12, 2),
        )
        head = torch.nn.Linear(12, SOURCE)

    def prepare(image):
        squeezed = np.asarray(image.resize((size, size), 3), dtype=np.float32)
        return (squeezed.transpose(2, 0, 1) - 127) / 64

    return TorchModuleEncoder(
        network,
        prepare,
        name="tiny-classifier",
        transform_name=f"rgb {size} bicubic (x-127)/64",
        device=device,
        size=size,
        pixel_map=PixelMap(size, 127.0, 64.0),
        source_head=head,
    )


def coloured(count, side=8, seed=0):
    """Noisy pictures of three classes, each of a colour of its own."""
    rng, labels = np.random.default_rng(seed), np.arange(count) % 3
    pixels = rng.integers(0, 120, (count, side, side, 3))
    pixels[np.arange(count), ..., labels] += 100
    return pixels.astype(np.uint8), labels.astype(np.int64)
