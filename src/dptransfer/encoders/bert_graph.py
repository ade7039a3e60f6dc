"""A BERT with mean pooling as an ONNX graph, from the tokens of one text to its row, without torch.

It takes a text alone, so there is no padding, no mask and nothing to depend on but its own tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.encoders.checkpoint import weights_digest
from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.errors import DataError

_SHORTEST = 1e-12  # below it a row is not made longer, as in torch's normalize


def bert_graph(
    weights: Mapping[str, NDArray[Any]], config: Mapping[str, Any], *, name: str, extra: str
) -> bytes:
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
    made = _Bert(weights, config, OnnxGraph(name, extra=extra))
    hidden = made.embedded("tokens")
    for layer in range(config["num_hidden_layers"]):
        hidden = made.layer(hidden, f"encoder.layer.{layer}.")
    graph = made.graph
    pooled = graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
    norm = graph.node("ReduceL2", pooled, axes=[1], keepdims=1)
    graph.node("Div", pooled, graph.node("Max", norm, graph.constant(_SHORTEST)), named="rows")
    return graph.written(
        {"tokens": ("INT64", [1, "length"])},
        {"rows": ("FLOAT", [1, config["hidden_size"]])},
        {"weights": weights_digest(weights)},
    )


class _Bert:
    """The parts of the network, added to a graph."""

    def __init__(
        self, weights: Mapping[str, NDArray[Any]], config: Mapping[str, Any], graph: OnnxGraph
    ) -> None:
        self.graph, self._weights = graph, weights
        self._epsilon, self._heads = float(config["layer_norm_eps"]), int(config["num_attention_heads"])
        self._width = int(config["hidden_size"])

    def embedded(self, tokens: str) -> str:
        """Of each token what is known of its word and of its place; all are of the first of two texts."""
        graph = self.graph
        words = graph.node("Gather", self._constant("embeddings.word_embeddings.weight"), tokens)
        length = graph.node("Shape", tokens, start=1)
        places = graph.node(
            "Slice",
            graph.constant(
                self._weights["embeddings.position_embeddings.weight"]
                + self._weights["embeddings.token_type_embeddings.weight"][0],
                "places",
            ),
            graph.constant([0], "first", dtype=np.int64),
            length,
        )
        return self._normed(graph.node("Add", words, places), "embeddings.LayerNorm")

    def layer(self, hidden: str, name: str) -> str:
        """Attention of the tokens to one another, and what is made of each."""
        graph = self.graph
        query, key, value = (
            self._by_head(self._linear(hidden, f"{name}attention.self.{part}"), turned=part == "key")
            for part in ("query", "key", "value")
        )
        scale = graph.constant(math.sqrt(self._width // self._heads), "root of a head's width")
        scores = graph.node("Softmax", graph.node("Div", graph.node("MatMul", query, key), scale), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", scores, value), perm=[0, 2, 1, 3])
        mixed = graph.node("Reshape", mixed, graph.constant([1, -1, self._width], "one text", dtype=np.int64))
        attended = self._linear(mixed, f"{name}attention.output.dense")
        hidden = self._normed(graph.node("Add", attended, hidden), f"{name}attention.output.LayerNorm")
        wide = self._gelu(self._linear(hidden, f"{name}intermediate.dense"))
        narrow = self._linear(wide, f"{name}output.dense")
        return self._normed(graph.node("Add", narrow, hidden), f"{name}output.LayerNorm")

    def _constant(self, name: str) -> str:
        return self.graph.constant(self._weights[name], name)

    def _linear(self, inputs: str, name: str) -> str:
        turned = self.graph.constant(self._weights[f"{name}.weight"].T, f"{name}.weight")
        return self.graph.node(
            "Add", self.graph.node("MatMul", inputs, turned), self._constant(f"{name}.bias")
        )

    def _normed(self, inputs: str, name: str) -> str:
        parts = (self._constant(f"{name}.weight"), self._constant(f"{name}.bias"))
        return self.graph.node("LayerNormalization", inputs, *parts, axis=-1, epsilon=self._epsilon)

    def _by_head(self, inputs: str, *, turned: bool) -> str:
        """(1, heads, length, width of a head), or its last two sides changed for each other."""
        shape = [1, -1, self._heads, self._width // self._heads]
        split = self.graph.node("Reshape", inputs, self.graph.constant(shape, "heads", dtype=np.int64))
        return self.graph.node("Transpose", split, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])

    def _gelu(self, inputs: str) -> str:
        """Half of x · (1 + erf(x ÷ √2))."""
        graph = self.graph
        error = graph.node("Erf", graph.node("Div", inputs, graph.constant(math.sqrt(2), "root of two")))
        doubled = graph.node("Mul", inputs, graph.node("Add", error, graph.constant(1)))
        return graph.node("Mul", doubled, graph.constant(0.5))
