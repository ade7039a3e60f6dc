"""Where an answer is computed: on CUDA if it is asked for or the rows are there already, else on the CPU."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray
from dptransfer.errors import ArgumentError

DEVICES = ("cpu", "cuda")


def use_cuda(device: str, *arrays: Any) -> bool:
    """Whether to compute on CUDA; asked for where there is none, it is an error and never a silent CPU.

    >>> use_cuda("cpu", [1, 2])
    False
    """
    _check.one_of("device", device, DEVICES)
    if device == "cpu" and not any(on_cuda(array) for array in arrays):
        return False
    require_cuda()
    return True


def on_cuda(array: Any) -> bool:
    """Whether this is a tensor in a GPU's memory."""
    return bool(getattr(array, "is_cuda", False))


def on_host(array: Any) -> AnyArray:
    """The array, or a tensor as one."""
    return np.asarray(array.cpu() if on_cuda(array) else array)


def there(array: Any, other: Any) -> Any:
    """The array where the other one is: in NumPy, or in torch on a device, where a tensor is already."""
    if isinstance(other, np.ndarray) or not isinstance(array, np.ndarray):
        return array
    import torch

    return torch.from_numpy(array).to(other.device)


def require_cuda() -> None:
    """Raise unless torch, Triton and a device are there."""
    todo = "Use device='cpu', which gives the same results."
    try:
        import torch
    except ImportError:
        raise ArgumentError(f"device='cuda' needs torch; it is not installed. {todo}") from None
    if not torch.cuda.is_available():
        raise ArgumentError(f"device='cuda' needs a CUDA device; torch finds none. {todo}")
    if importlib.util.find_spec("triton") is None:
        raise ArgumentError(f"device='cuda' needs Triton; it is not installed. {todo}")
