"""Any `transformers` model as an encoder: vision models here, text models in `dptransfer.encoders.text`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import EncodedRows, Floats32
from dptransfer.data.identity import EncoderIdentity
from dptransfer.encoders.base import Encoder, ImageEncoder, Kind, require_rows
from dptransfer.encoders.device import repeatable, torch_device
from dptransfer.encoders.hub import load_model, load_part, model_folder, require_transformers
from dptransfer.encoders.text import TransformersText

if TYPE_CHECKING:
    from PIL import Image

# What decides the pixels; other keys come and go with versions of the package.
_SETTINGS = (
    "do_resize size resample do_center_crop crop_size do_rescale rescale_factor do_normalize "
    "image_mean image_std do_pad do_convert_rgb"
).split()


def transformers_encoder(source: str, *, kind: Kind | None = None, device: str = "cpu") -> Encoder:
    """The encoder in a local folder or under the hub id 'ORG/NAME'.

    Args:
        source: a folder written by `save_pretrained`, or a hub id (with or without 'hf:').
        kind: 'image' or 'text' for models that do both; default 'image' when there is an image processor.
        device: where to run.
    """
    spec = source.removeprefix("hf:")
    name = Path(spec).resolve().name if Path(spec).is_dir() else f"hf:{spec}"
    folder = model_folder(spec)
    if kind is None:
        kind = "image" if (folder / "preprocessor_config.json").is_file() else "text"
    if kind == "text":
        return TransformersText(folder, name=name, device=device)
    return TransformersImage(folder, name=name, device=device)


class TransformersImage(ImageEncoder):
    """A vision model, or the image half of a CLIP-like one.

    The row is the model's image features (CLIP-like), else its pooled output, else its first (class) token or
    the mean over space. A pooling layer whose weights are not in the files is never used.

    Args:
        folder: the model's files.
        name: what the encoder is called.
        device: where to run.
    """

    def __init__(self, folder: Path, *, name: str, device: str = "cpu") -> None:
        self._torch = _check.installed("torch", "transformers", "A transformers encoder")
        self._device = torch_device(device)
        # Pillow's resizing everywhere: torchvision's differs in the pixels, and may not be installed.
        before_five = require_transformers().__version__.startswith("4.")
        pillow: dict[str, Any] = {"use_fast": False} if before_five else {"backend": "pil"}
        part = "an image processor"
        self._processor = load_part("AutoImageProcessor", folder, name, part, other_kind="text", **pillow)
        self._model, digest, self._pooler_is_random = load_model(folder, name, self._device)
        self._pooling = "unknown"
        self.dimension = self.measured_dimension()
        self.identity = EncoderIdentity(name, digest, f"{_settings(self._processor)}, {self._pooling}")

    def prepare(self, image: Image.Image) -> Floats32:
        """The model's own image processor, one picture at a time."""
        pixels = self._processor(
            images=image.convert("RGB"), return_tensors="np", input_data_format="channels_last"
        )["pixel_values"][0]
        return np.asarray(pixels, dtype=np.float32)

    def forward(self, pixels: Floats32) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        with repeatable():
            rows = self._pooled(self._torch.from_numpy(pixels).to(self._device)).float().cpu().numpy()
        return require_rows(rows, len(pixels))

    def _pooled(self, pixels: Any) -> Any:
        if hasattr(self._model, "get_image_features"):
            features = self._model.get_image_features(pixel_values=pixels)
            self._pooling = "image features"
            return features if isinstance(features, self._torch.Tensor) else features.pooler_output
        output = self._model(pixel_values=pixels)
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None and not self._pooler_is_random:
            self._pooling = "pooler output"
            return pooled.flatten(1)
        hidden = output.last_hidden_state
        self._pooling = "class token" if hidden.ndim == 3 else "mean pool"
        return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))


def _settings(processor: Any) -> str:
    recorded = processor.to_dict()
    chosen = {key: recorded[key] for key in _SETTINGS if recorded.get(key) is not None}
    text = json.dumps(
        chosen, sort_keys=True, default=lambda value: dict(value) if hasattr(value, "keys") else str(value)
    )
    size = recorded.get("crop_size") if recorded.get("do_center_crop") else recorded.get("size")
    sides = "x".join(str(side) for side in dict(size).values()) if size is not None else "any"
    return f"rgb {sides} processor {hashlib.sha256(text.encode()).hexdigest()[:12]}"
