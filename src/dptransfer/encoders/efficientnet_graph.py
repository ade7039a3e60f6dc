"""EfficientNet-Lite0 as an ONNX graph, from pixels to rows, written from its weights without torch.

Each batch normalisation is folded into the convolution before it, in double precision and rounded once: the
kernels are scaled by g = weight ÷ √(variance + 1e-3), and what is added is bias − mean · g. Paddings are
TensorFlow's 'same', which depend on the side of the picture: an odd one is larger on the right and below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.encoders.checkpoint import weights_digest
from dptransfer.encoders.onnx_graph import OnnxGraph

# Of each stage: blocks, stride of the first one, how far a block widens, channels that leave.
_STAGES = (
    (1, 1, 1, 16),
    (2, 2, 6, 24),
    (2, 2, 6, 40),
    (3, 2, 6, 80),
    (3, 1, 6, 112),
    (4, 2, 6, 192),
    (1, 1, 6, 320),
)
_STEM, DIMENSION = 32, 1280
_EPSILON = 1e-3

Weights = Mapping[str, NDArray[Any]]


def efficientnet_graph(weights: Weights, size: int) -> bytes:
    """The model: 'pixels', bytes of (n, size, size, 3), to 'rows', floats of (n, 1280).

    The digest of the weights is in its metadata, as 'weights'.

    Args:
        weights: the network's state, as `read_checkpoint` gives it.
        size: side of the pictures.
    """
    graph = OnnxGraph("efficientnet-lite0", extra="images")
    there, side = _scaled(graph), size

    def convolve(name: str, norm: str, *, bounded: bool = True, **shape: int) -> None:
        nonlocal there, side
        there, side = _convolution(graph, weights, there, side, name, norm, **shape)
        if bounded:
            there = graph.node("Clip", there, graph.constant(0), graph.constant(6))

    convolve("_conv_stem", "_bn0", stride=2)
    channels, block = _STEM, 0
    for repeats, first_stride, widening, leaving in _STAGES:
        for stride in (first_stride, *[1] * (repeats - 1)):
            name, before = f"_blocks.{block}.", there
            if widening > 1:
                convolve(f"{name}_expand_conv", f"{name}_bn0")
            convolve(f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, groups=channels * widening)
            convolve(f"{name}_project_conv", f"{name}_bn2", bounded=False)
            if stride == 1 and channels == leaving:
                there = graph.node("Add", there, before)
            channels, block = leaving, block + 1
    convolve("_conv_head", "_bn1")
    graph.node("Flatten", graph.node("GlobalAveragePool", there), axis=1, named="rows")
    return graph.written(
        {"pixels": ("UINT8", ["n", size, size, 3])},
        {"rows": ("FLOAT", ["n", DIMENSION])},
        {"weights": weights_digest(weights)},
    )


def _scaled(graph: OnnxGraph) -> str:
    """(x − 127) ÷ 128 of the bytes, which is exact in float32, with the channels first."""
    floats = graph.node("Cast", "pixels", to=1)  # 1 is float32
    centred = graph.node("Sub", floats, graph.constant(127))
    return graph.node("Transpose", graph.node("Div", centred, graph.constant(128)), perm=[0, 3, 1, 2])


def _convolution(
    graph: OnnxGraph,
    weights: Weights,
    inputs: str,
    side: int,
    name: str,
    norm: str,
    *,
    stride: int = 1,
    groups: int = 1,
) -> tuple[str, int]:
    """A convolution with its normalisation; what it gives, and the side of that."""
    kernels = np.asarray(weights[f"{name}.weight"], dtype=np.float64)
    scale, shift, mean, variance = (
        np.asarray(weights[f"{norm}.{part}"], dtype=np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = scale / np.sqrt(variance + _EPSILON)
    width, leaves = kernels.shape[2], -(-side // stride)
    padding = max((leaves - 1) * stride + width - side, 0)
    before, after = padding // 2, padding - padding // 2
    made = graph.node(
        "Conv",
        inputs,
        graph.constant(kernels * scale[:, None, None, None], f"{name}.weight"),
        graph.constant(shift - mean * scale, f"{name}.bias"),
        kernel_shape=[width, width],
        strides=[stride, stride],
        group=groups,
        pads=[before, before, after, after],
    )
    return made, leaves
