"""A `torch.nn.Module` of any kind as an image encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, EncodedRows, Floats32, JsonObject, Picture, PixelArray
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders import per_example
from dptransfer.encoders.encoder import EncoderDelta, ImageEncoder, require_rows, weights_digest
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.sources.decode import in_colour


def torch_device(name: str) -> torch.device:
    """The torch device of that name; one that is not there is an error, never a silent CPU."""
    checks.import_optional("torch", "torch", "Running an encoder")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ArgumentError(f"device must be 'cpu', 'cuda', 'cuda:1', ... or 'mps'; got {name!r}.") from None
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }.get(device.type, False)
    if not there:
        raise ArgumentError(f"device={name!r} must be present; torch finds none here. Use device='cpu'.")
    return device


@contextmanager
def repeatable() -> Iterator[None]:
    """Inference mode with exact kernels."""
    with torch.inference_mode(), per_example.exact_kernels():
        yield


_WAYS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}  # as Pillow numbers
_MOST_PIXELS = 2**27  # 400 MB; one picture of 1 × 60,000 would take 12 GB, and everybody's encoding with it


@dataclass(frozen=True)
class ResizeCrop:
    """A picture resized to a shape, or the middle of one whose shorter side is resized first.

    Attributes:
        height: of what leaves.
        width: likewise.
        resample: how pixels are interpolated: 'bicubic', 'bilinear', 'lanczos', ...
        shortest: what the shorter side is resized to before the middle is cut out; None resizes all of it.
    """

    height: int
    width: int
    resample: str = "bicubic"
    shortest: int | None = None

    def __post_init__(self) -> None:
        """Check what may come from somebody's file."""
        most = max(self.height, self.width) if self.shortest is None else self.shortest
        fits = 0 < min(self.height, self.width) <= max(self.height, self.width) <= most
        if not fits or self.resample not in _WAYS:
            rule = f"A framing must cut out less than there is, and interpolate as Pillow does; got '{self}'."
            raise DataError(f"{rule} Export the model again.")

    def __str__(self) -> str:
        first = "" if self.shortest is None else f" middle of {self.shortest}"
        return f"{self.height}x{self.width} {self.resample}{first}"

    def __call__(self, image: Picture) -> PixelArray:
        """The picture's bytes, (height, width, 3)."""
        from PIL.Image import Resampling

        image, way = in_colour(image), Resampling(_WAYS[self.resample])
        if self.shortest is None:
            return np.asarray(image.resize((self.width, self.height), way))
        short, long = min(image.size), max(image.size)
        sides = [self.shortest, int(self.shortest * long / short)]
        if self.shortest * sides[1] > _MOST_PIXELS:
            rule = "A picture must not grow beyond 2**27 pixels when it is resized, as this strip does."
            raise DataError(f"{rule} Cut it.")
        across, down = sides if image.width <= image.height else sides[::-1]
        left, above = (across - self.width) // 2, (down - self.height) // 2
        whole = np.asarray(image.resize((across, down), way))
        return whole[above : above + self.height, left : left + self.width]

    @classmethod
    def of_processor(cls, told: JsonObject) -> ResizeCrop | None:
        """What a `transformers` image processor says that it does; None where it is something else."""
        size, crop = dict(told.get("size") or {}), dict(told.get("crop_size") or {})
        way = next((name for name, number in _WAYS.items() if number == told.get("resample")), None)
        if not told.get("do_resize") or told.get("do_pad") or way is None:
            return None
        cut = bool(told.get("do_center_crop"))
        if set(size) == {"height", "width"} and not cut:
            return cls(size["height"], size["width"], way)
        if set(size) == {"shortest_edge"} and cut and set(crop) == {"height", "width"}:
            fits = max(crop.values()) <= size["shortest_edge"]
            return cls(crop["height"], crop["width"], way, size["shortest_edge"]) if fits else None
        return None


Preprocessing: TypeAlias = tuple[ResizeCrop, tuple[float, ...], tuple[float, ...]]
"""How pictures are framed, what is subtracted from their bytes, and what divides them."""

_PROBES, _PROBE_SIDE = 8, 64
_MORE_THAN_ROUNDING = 1e-2  # of the longest row; networks in halves round by some thousandths


class PixelMap(NamedTuple):
    """Pictures resized to side × side by bicubic interpolation, their bytes taken less `mean`, ÷ `scale`.

    Attributes:
        side: height and width.
        mean: of a channel's bytes: one number, or one for each of the three.
        scale: likewise.
    """

    side: int
    mean: float | tuple[float, ...]
    scale: float | tuple[float, ...]


class TorchEncoder(ImageEncoder):
    """Base of the encoders that run a torch module, `module`, for methods that take gradients of it.

    `with_delta` is the way to change it.
    """

    module: torch.nn.Module
    pixel_map: PixelMap | None = None

    def forward(self, pixels: AnyArray) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        with repeatable():
            rows = self.own_rows(self._inputs(pixels)).float().cpu().numpy()
        return require_rows(rows, len(pixels))

    def own_rows(self, inputs: torch.Tensor) -> torch.Tensor:
        """Rows for input tensors, each of its own picture alone, as a tensor that gradients flow through."""
        return self.rows_of(inputs)

    def rows_of(self, inputs: torch.Tensor) -> torch.Tensor:
        """The same by a plain pass of the module, for pictures that are public."""
        output: torch.Tensor = self.module(inputs)
        return output.mean((2, 3)) if output.ndim == 4 else output

    def with_delta(self, delta: EncoderDelta) -> Self:
        """The same encoder with some of its parameters and buffers replaced; this one stays as it is."""
        changed = copy(self)
        changed.module, changed.identity = changed_module(self.module, delta), delta.identity
        changed.vocabulary = None  # it was trained with the rows as they were
        return changed

    @abstractmethod
    def _inputs(self, pixels: AnyArray) -> torch.Tensor:
        """The module's input for prepared pictures."""

    @abstractmethod
    def preprocessing(self) -> Preprocessing | None:
        """How pictures are framed, what is subtracted from their bytes and what divides them, if so."""


class TorchModuleEncoder(TorchEncoder):
    """A module and its preprocessing, under a name the user declares.

    A picture's row depends on that picture alone: unless all layers are known to keep pictures apart
    (`encoders.torch_module`), each picture goes through the module by itself (`encoders.per_example`). A
    module that cannot be run so, or that gives other rows for a picture among others, is refused. The module
    is put in evaluation mode. Its output must be rows, (pictures, features), or feature maps,
    (pictures, channels, height, width), which are averaged over space.

    Args:
        module: the network.
        transform: turns one RGB picture into the network's input, shape (channels, height, width), a tensor
            or an array; or squeezes it to bytes, (side, side, 3), which are scaled on the device then, as
            `pixel_map` says. It must give the same for the same picture, whatever came before: it is tried
            on a few. Called from several threads.
        name: what the encoder is called in manifests and releases.
        transform_name: the preprocessing in words and numbers; compared, so keep it exact.
        device: 'cpu', 'cuda', 'cuda:1', ... or 'mps'.
        channels_last: memory layout for convolutional networks; about half again as fast on a CPU.
        weights: digest of the weights where it is known; default: computed from the state dict.
        size: the side of the pictures, where the user chose it; see `EncoderIdentity`.
        pixel_map: what `transform` does, where it can be told in three numbers.
        source_head: the public classifier that the network was trained with, from rows to its own classes.
        vocabulary: the same with names, where that is linear.
    """

    _recorded: tuple[list[object], per_example.PerExample] | None = None

    def __init__(
        self,
        module: torch.nn.Module,
        transform: Callable[[Picture], ArrayLike],
        *,
        name: str,
        transform_name: str,
        device: str = "cpu",
        channels_last: bool = False,
        weights: str | None = None,
        size: int | None = None,
        pixel_map: PixelMap | None = None,
        source_head: torch.nn.Module | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self._device = torch_device(device)
        self._transform = transform
        self._layout = torch.channels_last if channels_last else torch.contiguous_format
        digest = weights or weights_digest(module.state_dict())
        placed: Any = module.eval().to(self._device)
        self.module: torch.nn.Module = placed.to(memory_format=self._layout) if channels_last else placed
        self.pixel_map, self.source_head, self.vocabulary = pixel_map, source_head, vocabulary
        self.identity = EncoderIdentity(name, digest, transform_name, size)
        self.dimension = self.measured_dimension()
        self._require_own_pixels()
        if not self._is_known:
            self._require_own_rows()
        if self._device.type == "cuda" and type(self).prepare is TorchModuleEncoder.prepare:
            self.picklable_prepare = partial(_prepare, transform=transform, mapped=pixel_map is not None)

    def prepare(self, image: Picture) -> AnyArray:
        """The transform's result, as float32 unless it is bytes for the pixel map."""
        return _prepare(image, self._transform, self.pixel_map is not None)

    def own_rows(self, inputs: torch.Tensor) -> torch.Tensor:
        """Rows for input tensors, each of its own picture alone, as a tensor that gradients flow through."""
        return self.rows_of(inputs) if self._is_known else self._alone(inputs)

    def preprocessing(self) -> Preprocessing | None:
        """What `pixel_map` does."""
        if self.pixel_map is None:
            return None
        side, *scaling = self.pixel_map
        mean, scale = (tuple(map(float, np.broadcast_to(one, 3))) for one in scaling)
        return ResizeCrop(side, side), mean, scale

    @property
    def _is_known(self) -> bool:
        """Whether a plain pass is known to keep pictures apart."""
        plain = type(self).rows_of is TorchEncoder.rows_of and "rows_of" not in vars(self)
        return plain and per_example.keeps_pictures_apart(self.module)

    @property
    def _alone(self) -> per_example.PerExample:
        """The module as it is now, for each picture by itself."""
        now = [self.module, *per_example.state_of(self.module)]
        if self._recorded is None or list(map(id, self._recorded[0])) != list(map(id, now)):
            self._recorded = now, per_example.rows_alone(self)
        return self._recorded[1]

    def _inputs(self, pixels: AnyArray) -> torch.Tensor:
        inputs: torch.Tensor = torch.from_numpy(pixels).to(self._device)
        if self.pixel_map is not None and pixels.dtype == np.uint8:
            _, *scaling = self.pixel_map
            mean, scale = (inputs.new_tensor(one, dtype=torch.float32) for one in scaling)
            inputs = ((inputs.float() - mean) / scale).permute(0, 3, 1, 2)
        return inputs.contiguous(memory_format=self._layout) if inputs.ndim == 4 else inputs

    def _require_own_pixels(self) -> None:
        """Raise unless a picture is prepared alike before and after others: no state, and nothing random.

        Each is made anew and let go, as pictures of files are: a cache by identity would mistake one for
        another that had its place in memory.
        """
        pixels = per_example.probe_pictures(_PROBES, _PROBE_SIDE)
        once, again = ([self.prepare(_picture(one)) for one in order] for order in (pixels, pixels[::-1]))
        again.reverse()
        if not all(np.array_equal(*pair, equal_nan=True) for pair in zip(once, again, strict=True)):
            rule = f"A transform must give one result for a picture; that of '{self.identity.name}' does not."
            raise ArgumentError(f"{rule} Leave out random changes and state.")

    def _require_own_rows(self) -> None:
        """Raise unless plain passes of the module give the same, for unusual pictures beside each other.

        If they do not, the module mixes pictures, or does what its recording does not show. No row would
        depend on other pictures; but rows would be others than the module's author means. A module with state
        shows it in one of several passes.
        """
        twin = copy(self)
        twin.module = deepcopy(self.module)
        with repeatable():
            inputs = self._inputs(np.stack([self.prepare(picture) for picture in _probes()]))
            own = self.own_rows(inputs).float()
            passes = [twin.rows_of(inputs), twin.rows_of(inputs.flip(0)).flip(0), twin.rows_of(inputs)]
            most = _MORE_THAN_ROUNDING * own.norm(dim=1).nan_to_num().max()
            if all(((own - one.float()).norm(dim=1).nan_to_num() <= most).all() for one in passes):
                return
        rule = f"A network must compute every picture alone; that of '{self.identity.name}' does not."
        raise ArgumentError(f"{rule} Use one whose layers do not mix pictures.")


def _probes() -> list[Picture]:
    """Unusual pictures, the same for everyone."""
    return [_picture(one) for one in per_example.probe_pictures(_PROBES, _PROBE_SIDE)]


def _picture(pixels: PixelArray) -> Picture:
    from PIL import Image

    return Image.fromarray(pixels)


def _prepare(image: Picture, transform: Callable[[Picture], ArrayLike], mapped: bool) -> AnyArray:
    found = transform(image)
    in_bytes = mapped and getattr(found, "dtype", None) == np.uint8
    return np.asarray(found, dtype=np.uint8 if in_bytes else np.float32)


def changed_module(module: torch.nn.Module, delta: EncoderDelta) -> torch.nn.Module:
    """A copy of the network with parameters replaced ('state'), or with products added ('low-rank')."""
    changed = deepcopy(module)
    state = changed.state_dict()
    low_rank = delta.kind == "low-rank"
    for name in sorted({one.rpartition(".")[0] for one in delta.arrays} if low_rank else delta.arrays):
        target = state.get(name) if delta.kind in ("state", "low-rank") else None
        new = None if target is None else (_sum if low_rank else _replacement)(target, name, delta.arrays)
        if target is None or new is None or not target.is_floating_point():
            rule = f"A change of '{delta.base.name}' must fit parameters that it has; '{name}' does not."
            raise Incompatible(f"{rule} Use the network that the model was fitted with.")
        target.copy_(new)
    return changed


def _replacement(target: torch.Tensor, name: str, arrays: Mapping[str, Floats32]) -> torch.Tensor | None:
    """What takes the parameter's place, if it has its shape."""
    new = target.new_tensor(arrays[name])
    return new if new.shape == target.shape else None


def _sum(target: torch.Tensor, name: str, arrays: Mapping[str, Floats32]) -> torch.Tensor | None:
    """The parameter, as a matrix, plus up · down, if these are two factors of its shape and nothing else."""
    parts = {one: one.rpartition(".") for one in arrays}
    own = {key[2]: target.new_tensor(arrays[one]) for one, key in parts.items() if key[0] == name}
    up, down = own.pop("up", target), own.pop("down", target)
    fit = not own and up.ndim == down.ndim == 2 and target.ndim > 1 and up.shape[1] == len(down)
    if not fit or (len(up), down.shape[1]) != target.flatten(1).shape:
        return None
    return target + (up @ down).reshape(target.shape)


def words_of_layer(layer: torch.nn.Linear, names: tuple[str, ...]) -> Vocabulary | None:
    """The vocabulary in a torch linear layer, or None if it has another number of outputs than names."""
    weights = layer.weight.detach().float().cpu().numpy()
    if weights.ndim != 2 or len(weights) != len(names):
        return None
    bias = weights[:, 0] * 0 if layer.bias is None else layer.bias.detach().float().cpu().numpy()
    return Vocabulary(names, weights, bias)
