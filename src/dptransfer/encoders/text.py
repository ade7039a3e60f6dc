"""Text models of `transformers` as encoders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import EncodedRows
from dptransfer.data.identity import EncoderIdentity
from dptransfer.encoders.base import Kind
from dptransfer.encoders.device import repeatable, torch_device
from dptransfer.encoders.hub import load_model, load_part

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
        self._torch = _check.installed("torch", "transformers", "A text encoder")
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
