"""Vision and text models of the transformers library as encoders.

A model comes from a local folder, the local cache, or the hub when it can be reached. Only JSON, vocabulary
and safetensors files are fetched or loaded: no pickled weights, no remote code.
"""

from __future__ import annotations

import hashlib
import json
import socket
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, EncodedRows, Floats32, JsonObject, Picture
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders import torch_module
from dptransfer.encoders.encoder import Encoder, EncoderDelta, Kind, weights_digest
from dptransfer.encoders.torch_module import PixelMap, Preprocessing, ResizeCrop, TorchEncoder
from dptransfer.errors import DataError, DPTransferError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors"]


def transformers_encoder(source: str, *, kind: Kind | None = None, device: str = "cpu") -> Encoder:
    """The encoder in a local folder or under the hub id 'ORG/NAME'.

    Args:
        source: a folder written by `save_pretrained`, or a hub id (with or without 'hf:').
        kind: 'image' or 'text' for models that do both; default 'image' when there is an image processor.
        device: where to run.
    """
    spec = source.removeprefix("hf:")
    name = Path(spec).resolve().name if Path(spec).is_dir() else f"hf:{spec}"
    folder = _model_folder(spec)
    if kind is None:
        kind = "image" if (folder / "preprocessor_config.json").is_file() else "text"
    if kind == "text":
        return TransformersText(folder, name=name, device=device)
    return TransformersImage(folder, name=name, device=device)


def _model_folder(source: str) -> Path:
    """The folder with the model's files: `source` itself, or the cached copy of the hub id 'ORG/NAME'."""
    folder = Path(source)
    if folder.is_dir():
        return _complete(folder, source)
    _transformers()
    from huggingface_hub import constants, snapshot_download

    try:
        cached = Path(snapshot_download(source, allow_patterns=_FILES, local_files_only=True))
        if any(cached.glob("*.safetensors")):
            return _complete(cached, source)
    except Exception:  # "not in the cache" has had several types over the years; the hub is asked next
        pass
    # Asked first because the hub's client would retry for half a minute and print each try.
    if constants.HF_HUB_OFFLINE or not reachable(constants.ENDPOINT):
        rule = f"The model '{source}' is not cached, and {constants.ENDPOINT} cannot be reached."
        raise DataError(f"{rule} Fetch it where there is a network, and pass its folder.")
    rule = f"must be on {constants.ENDPOINT}; fetching it failed"
    with _loading(source, rule, "Check the name, or that you may read it."):
        return _complete(Path(snapshot_download(source, allow_patterns=_FILES)), source)


def _complete(folder: Path, source: str) -> Path:
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        rule = f"The model '{source}' must hold config.json and safetensors weights; it does not."
        raise DataError(f"{rule} Save it with save_pretrained.")
    return folder


def reachable(endpoint: str) -> bool:
    """Whether a hub at this address answers, as far as one connection can tell."""
    if urllib.request.getproxies():
        return True  # a proxy decides; a direct connection would prove nothing
    parts = urlsplit(endpoint)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from printing progress and advice; a library of ours never prints."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _loading(source: str, rule: str, remedy: str) -> Iterator[None]:
    """In quiet; what goes wrong has no common type across causes and versions, and becomes one error."""
    try:
        with quiet():
            yield
    except DPTransferError:
        raise
    except Exception as error:
        raise DataError(f"The model '{source}' {rule} ({type(error).__name__}). {remedy}") from None


def _transformers() -> Any:
    return checks.import_optional("transformers", "transformers", "A transformers encoder")


def _load_weights(kind: str, folder: Path, source: str) -> tuple[PreTrainedModel, frozenset[str]]:
    """The model, and the names of the weights that it lacks."""
    rule = f"must load with transformers.{kind} from safetensors; it does not"
    with _loading(source, rule, "Check the folder, or upgrade transformers."):
        model, found = getattr(_transformers(), kind).from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    return model.eval(), frozenset(found["missing_keys"])


def _load_model(folder: Path, source: str) -> tuple[PreTrainedModel, str, bool]:
    """The frozen model, the digest of its weights, and whether its pooling layer is random.

    Transformers fills weights that the files lack with random numbers. Only a missing pooling layer is
    allowed, and the caller must then not use it: rows made by random weights would differ from one run to the
    next.
    """
    model, missing = _load_weights("AutoModel", folder, source)
    if any("pooler" not in name for name in missing):
        rule = f"The model '{source}' must bring all its weights; {len(missing)} are missing."
        raise DataError(f"{rule} Use a complete checkpoint: random weights make no encoder.")
    digest = weights_digest({key: value for key, value in model.state_dict().items() if key not in missing})
    return model, digest, bool(missing)


def _load_part(
    loader: str, folder: Path, source: str, part: str, other_kind: Kind, **settings: object
) -> Any:
    """The model's tokenizer or image processor, by the class of transformers that loads it."""
    remedy = f"Save {part} into the folder, or pass kind='{other_kind}'."
    with _loading(source, f"must bring {part}; it does not", remedy):
        loaded = getattr(_transformers(), loader)
        return loaded.from_pretrained(str(folder), local_files_only=True, **settings)


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
        self._device = torch_module.torch_device(device)
        self._tokenizer = _load_part("AutoTokenizer", folder, name, "a tokenizer", "image")
        model, digest, _ = _load_model(folder, name)
        self._model = model.to(self._device)
        self._unit_norm = unit_norm
        self._longest = min(longest or 512, _most_tokens(self._tokenizer, self._model.config))
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
        tokens = (self._tokenizer.pad_token_id, self._tokenizer.eos_token_id)
        return next((int(token) for token in tokens if token is not None), 0)

    def _forward(self, rows: list[list[int]], length: int) -> EncodedRows:
        ids = np.full((len(rows), length), self._padding(), dtype=np.int64)
        mask = np.zeros((len(rows), length), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        with torch_module.repeatable():
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


def _most_tokens(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> int:
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


class TransformersImage(TorchEncoder):
    """A vision model, or the image half of a CLIP-like one.

    The row is the model's image features (CLIP-like), else its pooled output, else its first (class) token or
    the mean over space. A pooling layer whose weights are not in the files is never used. `module` makes rows
    of the processor's arrays.

    Args:
        folder: the model's files.
        name: what the encoder is called.
        device: where to run.
    """

    def __init__(self, folder: Path, *, name: str, device: str = "cpu") -> None:
        self._device = torch_module.torch_device(device)
        # Pillow's resizing everywhere: torchvision's differs in the pixels, and may not be installed.
        before_five = _transformers().__version__.startswith("4.")
        pillow: JsonObject = {"use_fast": False} if before_five else {"backend": "pil"}
        part = "an image processor"
        self._processor = _load_part("AutoImageProcessor", folder, name, part, "text", **pillow)
        model, digest, pooler_is_random = _load_model(folder, name)
        self.module = _pooled_model(model.to(self._device), pooler_is_random)
        self._told = self._processor.to_dict()
        self._folder, does = folder, self.preprocessing()
        if does is not None and does[0].shortest is None and does[0].height == does[0].width:
            self.pixel_map = PixelMap(does[0].height, *does[1:])  # it squeezes to a square, and scales
        self._squeezes_first = False
        self.dimension = self.measured_dimension()
        transform = f"{_settings(self._told)}, {self.module.pooling}"
        self.identity = EncoderIdentity(name, digest, transform)

    def prepare(self, image: Picture) -> Floats32:
        """The model's own image processor, one picture at a time."""
        image = image.convert("RGB")
        if self._squeezes_first and self.pixel_map is not None:
            image = image.resize((self.pixel_map.side,) * 2, 3)
        made = self._processor(images=image, return_tensors="np", input_data_format="channels_last")
        return np.asarray(made["pixel_values"][0], dtype=np.float32)

    def preprocessing(self) -> Preprocessing | None:
        """What the processor does, where that is resizing, cutting and scaling."""
        framing = ResizeCrop.of_processor(self._told)
        return (framing, *_scaling(self._told)) if framing and self._told.get("do_rescale") else None

    def _inputs(self, pixels: AnyArray) -> torch.Tensor:
        inputs: torch.Tensor = torch.from_numpy(pixels).to(self._device)
        return inputs

    @cached_property
    def source_head(self) -> torch.nn.Linear | None:
        """The public classifier of rows that the model was saved with, or None.

        That it takes the rows that we pool is seen from one input, on which it must give the whole model's
        logits; the heads of models that classify otherwise are left alone.
        """
        if self.pixel_map is None:
            return None
        config = json.loads((self._folder / "config.json").read_text())
        kinds = map(str, config.get("architectures") or ())
        if not any(kind.endswith("ForImageClassification") for kind in kinds):
            return None
        kind = "AutoModelForImageClassification"
        whole, missing = _load_weights(kind, self._folder, self.identity.name)
        layers = [one for one in whole.to(self._device).modules() if hasattr(one, "in_features")]
        if missing or not layers or layers[-1].in_features != self.dimension:
            return None
        side = self.pixel_map.side
        with torch_module.repeatable():
            wave = torch.linspace(-1, 1, 3 * side * side, device=self._device).reshape(1, 3, side, side)
            logits, own = whole(pixel_values=wave).logits, layers[-1](self.rows_of(wave))
            same = torch.allclose(own, logits, rtol=1e-3, atol=1e-3)
        return layers[-1] if same else None

    @cached_property
    def vocabulary(self) -> Vocabulary | None:  # type: ignore[override]  # read when it is asked for
        """The words of the classifier that the model was saved with, where it takes the rows as they are."""
        if self.source_head is None:
            return None
        told = json.loads((self._folder / "config.json").read_text()).get("id2label") or {}
        names = tuple(str(told[key]) for key in sorted(told, key=int))
        return torch_module.words_of_layer(self.source_head, names)

    def with_delta(self, delta: EncoderDelta) -> Self:
        """The same encoder with some of its parameters changed; this one stays as it is.

        Its pictures are resized by bicubic interpolation, as those it was trained on were.
        """
        changed = super().with_delta(delta)
        changed._squeezes_first = True
        return changed


def _pooled_model(model: PreTrainedModel, pooler_is_random: bool) -> torch.nn.Module:
    class PooledModel(torch.nn.Module):
        """The model with its pooling, from pixels to rows."""

        pooling = "unknown"

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            if hasattr(self.model, "get_image_features"):
                features = self.model.get_image_features(pixel_values=pixels)
                self.pooling = "image features"
                return features if isinstance(features, torch.Tensor) else features.pooler_output
            output = self.model(pixel_values=pixels)
            return self._pool(output.last_hidden_state, getattr(output, "pooler_output", None))

        def _pool(self, hidden: torch.Tensor, pooled: torch.Tensor | None) -> torch.Tensor:
            if pooled is not None and not pooler_is_random:
                self.pooling = "pooler output"
                return pooled.flatten(1)
            self.pooling = "class token" if hidden.ndim == 3 else "mean pool"
            return hidden[:, 0] if hidden.ndim == 3 else hidden.mean((2, 3))

        def stages(self) -> list[torch.nn.Module]:
            """What is done one after the other, where the model is built like a vision transformer."""
            if not all(hasattr(self.model, part) for part in ("embeddings", "layers", "layernorm")):
                return [self]
            return [self.model.embeddings, *self.model.layers, self._end]

        def _end(self, hidden: torch.Tensor) -> torch.Tensor:
            hidden = self.model.layernorm(hidden)
            pooler = getattr(self.model, "pooler", None)
            return self._pool(hidden, None if pooler is None else pooler(hidden))

    return PooledModel()


def _scaling(told: JsonObject) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What is subtracted from a channel's bytes, and what they are divided by then."""
    unit = 1 / told["rescale_factor"]
    plain = (0.0,) * 3, (1.0,) * 3
    means, widths = (told["image_mean"], told["image_std"]) if told.get("do_normalize") else plain
    return tuple(unit * one for one in means), tuple(unit * one for one in widths)


def _settings(told: JsonObject) -> str:
    chosen = {key: told[key] for key in _SETTINGS if told.get(key) is not None}
    text = json.dumps(
        chosen, sort_keys=True, default=lambda value: dict(value) if hasattr(value, "keys") else str(value)
    )
    size = told.get("crop_size") if told.get("do_center_crop") else told.get("size")
    sides = "x".join(str(side) for side in dict(size).values()) if size is not None else "any"
    return f"rgb {sides} processor {hashlib.sha256(text.encode()).hexdigest()[:12]}"
