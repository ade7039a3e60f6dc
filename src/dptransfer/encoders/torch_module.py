"""Any `torch.nn.Module` as an image encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.arrays import EncodedRows, Floats32
from dptransfer.data.identity import EncoderIdentity, require_same_encoder
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.base import ImageEncoder, require_rows
from dptransfer.encoders.delta import EncoderDelta
from dptransfer.encoders.device import repeatable, torch_device
from dptransfer.errors import Incompatible

if TYPE_CHECKING:
    import torch
    from PIL import Image


class PixelMap(NamedTuple):
    """Pictures squeezed to side × side by bicubic interpolation, their bytes taken less `mean`, ÷ `scale`.

    Attributes:
        side: height and width.
        mean: of a channel's bytes: one number, or one for each of the three.
        scale: likewise.
    """

    side: int
    mean: float | tuple[float, ...]
    scale: float | tuple[float, ...]


class TorchModuleEncoder(ImageEncoder):
    """A module and its preprocessing, under a name the user declares.

    The module is put in evaluation mode. Its output must be rows, (pictures, features), or feature maps,
    (pictures, channels, height, width), which are averaged over space. It is `module` then, for methods that
    take gradients of it; `adapted` is the way to change it.

    Args:
        module: the network.
        transform: turns one RGB picture into the network's input, shape (channels, height, width), a tensor
            or an array; or squeezes it to bytes, (side, side, 3), which are scaled on the device then, as
            `pixel_map` says. Called from several threads.
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

    def __init__(
        self,
        module: torch.nn.Module,
        transform: Callable[[Image.Image], Any],
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
        self._torch = _check.installed("torch", "torch", "A torch encoder")
        self._device = torch_device(device)
        self._transform = transform
        self._layout = self._torch.channels_last if channels_last else self._torch.contiguous_format
        digest = weights or state_digest(module.state_dict())
        placed: Any = module.eval().to(self._device)
        self.module = placed.to(memory_format=self._layout) if channels_last else placed
        self.pixel_map, self.source_head, self.vocabulary = pixel_map, source_head, vocabulary
        self.identity = EncoderIdentity(name, digest, transform_name, size)
        self.dimension = self.measured_dimension()
        if self._device.type == "cuda" and type(self).prepare is TorchModuleEncoder.prepare:
            self.prepared_apart = partial(_prepared, transform=transform, mapped=pixel_map is not None)

    def prepare(self, image: Image.Image) -> NDArray[Any]:
        """The transform's result, as float32 unless it is bytes for the pixel map."""
        return _prepared(image, self._transform, self.pixel_map is not None)

    def forward(self, pixels: NDArray[Any]) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        with repeatable():
            inputs = self._torch.from_numpy(pixels).to(self._device)
            if self.pixel_map is not None and pixels.dtype == np.uint8:
                _, *scaling = self.pixel_map
                mean, scale = (inputs.new_tensor(one, dtype=self._torch.float32) for one in scaling)
                inputs = ((inputs.float() - mean) / scale).permute(0, 3, 1, 2)
            if inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=self._layout)
            return require_rows(self.rows_of(inputs).float().cpu().numpy(), len(pixels))

    def rows_of(self, inputs: Any) -> Any:
        """Rows for input tensors, as a tensor that gradients flow through."""
        output = self.module(inputs)
        return output.mean((2, 3)) if output.ndim == 4 else output

    def adapted(self, delta: EncoderDelta) -> TorchModuleEncoder:
        """The same encoder with some of its parameters and buffers replaced; this one stays as it is."""
        require_same_encoder(delta.base, self.identity, names=("The change of an encoder", "the encoder"))
        changed = copy(self)
        changed.module, changed.identity = changed_module(self.module, delta), delta.identity
        changed.vocabulary = None  # it was trained with the rows as they were
        return changed


def _prepared(image: Image.Image, transform: Callable[[Image.Image], Any], mapped: bool) -> NDArray[Any]:
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
        new = None if target is None else (_sum if low_rank else _replaced)(target, name, delta.arrays)
        if target is None or new is None or not target.is_floating_point():
            raise Incompatible(
                f"A change of the encoder '{delta.base.name}' must replace parameters that it has, by ones "
                f"of their shape; '{name}' does not. Use the network that the model was fitted with."
            )
        target.copy_(new)
    return changed


def _replaced(target: Any, name: str, arrays: Mapping[str, Floats32]) -> Any:
    """What takes the parameter's place, if it has its shape."""
    new = target.new_tensor(arrays[name])
    return new if new.shape == target.shape else None


def _sum(target: Any, name: str, arrays: Mapping[str, Floats32]) -> Any:
    """The parameter, as a matrix, plus up · down, if these are two factors of its shape and nothing else."""
    own = {
        one.rpartition(".")[2]: target.new_tensor(arrays[one])
        for one in arrays
        if one.rpartition(".")[0] == name
    }
    up, down = own.pop("up", target), own.pop("down", target)
    fit = not own and up.ndim == down.ndim == 2 and target.ndim > 1 and up.shape[1] == len(down)
    if not fit or (len(up), down.shape[1]) != target.flatten(1).shape:
        return None
    return target + (up @ down).reshape(target.shape)


def state_digest(state: Mapping[str, Any]) -> str:
    """Digest of a torch state dict: names, types, shapes and bytes, in the order of the names.

    The same weights give the same digest whatever file they came in and whatever device they are on.
    """
    import torch

    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def words_of_layer(layer: Any, names: tuple[str, ...]) -> Vocabulary | None:
    """The vocabulary in a torch linear layer, or None if it has another number of outputs than names."""
    weights = layer.weight.detach().float().cpu().numpy()
    if weights.ndim != 2 or len(weights) != len(names):
        return None
    bias = weights[:, 0] * 0 if layer.bias is None else layer.bias.detach().float().cpu().numpy()
    return Vocabulary(names, weights, bias)
