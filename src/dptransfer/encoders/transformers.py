"""Vision and text models of the transformers library as encoders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import EncodedRows, Floats32
from dptransfer.data.facts import EncoderIdentity, require_same_encoder
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.device import repeatable, torch_device
from dptransfer.encoders.encoder import Encoder, EncoderDelta, ImageEncoder, Kind, require_rows
from dptransfer.encoders.framing import Framing
from dptransfer.encoders.hub import load_classifier, load_model, load_part, model_folder, require_transformers
from dptransfer.encoders.torch_module import PixelMap, changed_module, words_of_layer

if TYPE_CHECKING:
    from PIL import Image


_SHORTEST = 16


class TransformersText:
    """A text model: the text features of a CLIP-like one, else the mean over the tokens' last states.

    A text is padded to a length that is a function of the text alone (the next power of two above its own)
    and not of its neighbours, and each length is run with as many rows as the batch has, so that a row does
    not depend on the other texts' content. At least one token of padding always remains: kernels without a
    mask would otherwise be chosen when every text in a batch happens to fill its length.

    The pooled output that BERT-like models offer is not used: it was trained for another task, and many
    checkpoints lack its weights.

    Args:
        folder: the model's files.
        name: what the encoder is called.
        device: where to run.
        longest: most tokens read; default what the tokenizer and the model allow.
        unit_norm: scale each row to length one.
    """

    kind: Kind = "text"

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        device: str = "cpu",
        longest: int | None = None,
        unit_norm: bool = False,
    ) -> None:
        self._torch = checks.import_optional("torch", "transformers", "A text encoder")
        self._device = torch_device(device)
        self._tokenizer = load_part("AutoTokenizer", folder, name, "a tokenizer", other_kind="image")
        self._model, digest, _ = load_model(folder, name, self._device)
        self._unit_norm = unit_norm
        self._longest = min(longest or 512, _allowed(self._tokenizer, self._model.config))
        self._clip_like = hasattr(self._model, "get_text_features")
        self.dimension = int(self.encode([""]).shape[1])
        pooling = ("text features" if self._clip_like else "mean pool") + (", unit norm" if unit_norm else "")
        transform = transform_of_text(self._longest, self._tokenizer.get_vocab(), pooling)
        self.identity = EncoderIdentity(name, digest, transform)

    def encode(self, batch: Sequence[str]) -> EncodedRows:
        """Rows for a batch of texts."""
        if not batch:
            return np.zeros((0, self.dimension), dtype=np.float32)
        tokens = [self._tokens(text) for text in batch]
        blank = self._tokens("")
        lengths = np.array([self._padded_length(len(ids)) for ids in tokens])
        groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        parts = []
        for members in groups:
            rows = [tokens[i] for i in members] + [blank] * (len(batch) - len(members))
            parts.append(self._forward(rows, int(lengths[members[0]]))[: len(members)])
        return np.concatenate(parts)[np.argsort(np.concatenate(groups))]  # in the order of the texts

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, truncation=True, max_length=self._longest)["input_ids"]
        return ids or [self._padding()]

    def _padded_length(self, tokens: int) -> int:
        return min(max(_SHORTEST, 1 << tokens.bit_length()), self._longest + 1)

    def _padding(self) -> int:
        candidates = (self._tokenizer.pad_token_id, self._tokenizer.eos_token_id)
        return next((int(token) for token in candidates if token is not None), 0)

    def _forward(self, rows: list[list[int]], length: int) -> EncodedRows:
        ids = np.full((len(rows), length), self._padding(), dtype=np.int64)
        mask = np.zeros((len(rows), length), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        torch = self._torch
        with repeatable():
            inputs = torch.from_numpy(ids).to(self._device)
            attended = torch.from_numpy(mask).to(self._device)
            if self._clip_like:
                output = self._model.get_text_features(input_ids=inputs, attention_mask=attended)
                pooled = output if isinstance(output, torch.Tensor) else output.pooler_output
            else:
                hidden = self._model(input_ids=inputs, attention_mask=attended).last_hidden_state
                weight = attended.unsqueeze(-1).to(hidden.dtype)
                pooled = (hidden * weight).sum(1) / weight.sum(1)
            if self._unit_norm:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
            result: EncodedRows = pooled.float().cpu().numpy()
        return result


def _allowed(tokenizer: Any, config: Any) -> int:
    text_config = getattr(config, "text_config", None) or config
    positions = getattr(text_config, "max_position_embeddings", None) or 513
    return int(min(tokenizer.model_max_length, positions - 1))  # one is kept for the padding


def transform_of_text(longest: int, vocabulary: Mapping[str, int], pooling: str) -> str:
    """What an identity says of how texts are read: how many tokens, of which words, pooled how."""
    listed = json.dumps(sorted(vocabulary.items()), ensure_ascii=False)
    return f"{longest} tokens of vocabulary {hashlib.sha256(listed.encode()).hexdigest()[:12]}, {pooling}"


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
    the mean over space. A pooling layer whose weights are not in the files is never used. `module` makes rows
    of the processor's arrays, for methods that take gradients of it; `adapted` is the way to change it.

    Args:
        folder: the model's files.
        name: what the encoder is called.
        device: where to run.
    """

    def __init__(self, folder: Path, *, name: str, device: str = "cpu") -> None:
        self._torch = checks.import_optional("torch", "transformers", "A transformers encoder")
        self._device = torch_device(device)
        # Pillow's resizing everywhere: torchvision's differs in the pixels, and may not be installed.
        before_five = require_transformers().__version__.startswith("4.")
        pillow: dict[str, Any] = {"use_fast": False} if before_five else {"backend": "pil"}
        part = "an image processor"
        self._processor = load_part("AutoImageProcessor", folder, name, part, other_kind="text", **pillow)
        model, digest, pooler_is_random = load_model(folder, name, self._device)
        self.module = _pooled_model(model, pooler_is_random)
        self.pixel_map, self._folder = _pixel_map(self._processor), folder
        self._squeezes_first = False
        self.dimension = self.measured_dimension()
        transform = f"{_settings(self._processor)}, {self.module.pooling}"
        self.identity = EncoderIdentity(name, digest, transform)

    def prepare(self, image: Image.Image) -> Floats32:
        """The model's own image processor, one picture at a time."""
        image = image.convert("RGB")
        if self._squeezes_first and self.pixel_map is not None:
            image = image.resize((self.pixel_map.side,) * 2, 3)
        pixels = self._processor(images=image, return_tensors="np", input_data_format="channels_last")[
            "pixel_values"
        ][0]
        return np.asarray(pixels, dtype=np.float32)

    def forward(self, pixels: Floats32) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        with repeatable():
            rows = self.rows_of(self._torch.from_numpy(pixels).to(self._device)).float().cpu().numpy()
        return require_rows(rows, len(pixels))

    def rows_of(self, inputs: Any) -> Any:
        """Rows for input tensors, as a tensor that gradients flow through."""
        return self.module(inputs)

    def preprocessing(self) -> tuple[Framing, tuple[float, ...], tuple[float, ...]] | None:
        """How pictures are framed, what is subtracted from their bytes and what divides them, if so."""
        told = self._processor.to_dict()
        framing = Framing.of_processor(told)
        return None if framing is None or not told.get("do_rescale") else (framing, *_scaling(told))

    @cached_property
    def source_head(self) -> Any:
        """The public classifier of rows that the model was saved with, or None.

        That it takes the rows that we pool is seen from one input, on which it must give the whole model's
        logits; the heads of models that classify otherwise are left alone.
        """
        if self.pixel_map is None:
            return None
        whole = load_classifier(self._folder, self.identity.name, self._device)
        layers = [] if whole is None else [one for one in whole.modules() if hasattr(one, "in_features")]
        if not layers or layers[-1].in_features != self.dimension:
            return None
        side = self.pixel_map.side
        with repeatable():
            wave = self._torch.linspace(-1, 1, 3 * side * side, device=self._device).reshape(1, 3, side, side)
            same = self._torch.allclose(
                layers[-1](self.rows_of(wave)), whole(pixel_values=wave).logits, rtol=1e-3, atol=1e-3
            )
        return layers[-1] if same else None

    @cached_property
    def vocabulary(self) -> Vocabulary | None:  # type: ignore[override]  # read when it is asked for
        """The words of the classifier that the model was saved with, where it takes the rows as they are."""
        if self.source_head is None:
            return None
        told = json.loads((self._folder / "config.json").read_text()).get("id2label") or {}
        names = tuple(str(told[key]) for key in sorted(told, key=int))
        return words_of_layer(self.source_head, names)

    def adapted(self, delta: EncoderDelta) -> TransformersImage:
        """The same encoder with some of its parameters changed; this one stays as it is.

        Its pictures are squeezed by bicubic interpolation, as those it was trained on were.
        """
        require_same_encoder(delta.base, self.identity, names=("The change of an encoder", "the encoder"))
        changed = copy(self)
        changed.module, changed.identity = changed_module(self.module, delta), delta.identity
        changed._squeezes_first = True
        vars(changed)["vocabulary"] = None  # it was trained with the rows as they were
        return changed


def _pooled_model(model: Any, pooler_is_random: bool) -> Any:
    import torch

    class PooledModel(torch.nn.Module):
        """The model with its pooling, from pixels to rows."""

        pooling = "unknown"

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixels: Any) -> Any:
            if hasattr(self.model, "get_image_features"):
                features = self.model.get_image_features(pixel_values=pixels)
                self.pooling = "image features"
                return features if isinstance(features, torch.Tensor) else features.pooler_output
            output = self.model(pixel_values=pixels)
            return self._pooled(output.last_hidden_state, getattr(output, "pooler_output", None))

        def _pooled(self, hidden: Any, pooled: Any) -> Any:
            if pooled is not None and not pooler_is_random:
                self.pooling = "pooler output"
                return pooled.flatten(1)
            self.pooling = "class token" if hidden.ndim == 3 else "mean pool"
            return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))

        def stages(self) -> list[Any]:
            """What is done one after the other, where the model is built like a vision transformer."""
            if not all(hasattr(self.model, part) for part in ("embeddings", "layers", "layernorm")):
                return [self]
            return [self.model.embeddings, *self.model.layers, self._end]

        def _end(self, hidden: Any) -> Any:
            hidden = self.model.layernorm(hidden)
            pooler = getattr(self.model, "pooler", None)
            return self._pooled(hidden, None if pooler is None else pooler(hidden))

    return PooledModel()


def _pixel_map(processor: Any) -> PixelMap | None:
    """What the processor does to pixels, where it squeezes to a square and scales, and does no more."""
    told = processor.to_dict()
    framing = Framing.of_processor(told)
    square = framing is not None and framing.shortest is None and framing.height == framing.width
    return (
        PixelMap(framing.height, *_scaling(told)) if framing and square and told.get("do_rescale") else None
    )


def _scaling(told: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What is subtracted from a channel's bytes, and what they are divided by then."""
    unit = 1 / told["rescale_factor"]
    plain = (0.0,) * 3, (1.0,) * 3
    means, widths = (told["image_mean"], told["image_std"]) if told.get("do_normalize") else plain
    return tuple(unit * one for one in means), tuple(unit * one for one in widths)


def _settings(processor: Any) -> str:
    recorded = processor.to_dict()
    chosen = {key: recorded[key] for key in _SETTINGS if recorded.get(key) is not None}
    text = json.dumps(
        chosen, sort_keys=True, default=lambda value: dict(value) if hasattr(value, "keys") else str(value)
    )
    size = recorded.get("crop_size") if recorded.get("do_center_crop") else recorded.get("size")
    sides = "x".join(str(side) for side in dict(size).values()) if size is not None else "any"
    return f"rgb {sides} processor {hashlib.sha256(text.encode()).hexdigest()[:12]}"
