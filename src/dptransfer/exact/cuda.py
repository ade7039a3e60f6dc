"""CUDA devices: where an answer is computed, and rows streamed through a device.

Rows that are on the device already are used where they are. Others, a memory map of any size among them, come
in slabs: while the device works on one, threads read the next into page-locked memory, from which the device
copies by itself; results go back the same way. So memory on the device depends on the slab and not on the
number of rows. Torch is imported when something runs, not before.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from dptransfer.base import checks
from dptransfer.base.types import AnyArray
from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import ArgumentError
from dptransfer.exact.chunks import side_by_side, slices

if TYPE_CHECKING:
    from torch import Tensor


DEVICES = ("cpu", "cuda")


def use_cuda(device: str, *arrays: Any) -> bool:
    """Whether to compute on CUDA; asked for where there is none, it is an error and never a silent CPU.

    >>> use_cuda("cpu", [1, 2])
    False
    """
    checks.one_of("device", device, DEVICES)
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


Slab: TypeAlias = "tuple[slice, Tensor]"

_MOST_COPIERS = 16  # threads: one alone is slower than the device, and more are not faster


def slabs(rows: Any, step: int) -> Iterator[Slab]:
    """(place, rows on the device), `step` rows at a time, in order."""
    import torch

    step = max(1, min(step, len(rows)))
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    lanes = [_Inward(), _Inward()]
    for number, place in enumerate(slices(slice(0, len(rows)), step)):
        part = rows[place]
        yield place, part if on_cuda(part) else lanes[number % 2].take(part, step, stream)


def sent(rows: Any) -> Tensor:
    """All of these rows on the device: few enough for one slab."""
    import torch

    if isinstance(rows, torch.Tensor) and rows.is_cuda:
        return rows
    return _Inward().take(rows, len(rows), torch.cuda.Stream())  # type: ignore[no-untyped-call]


def fetched(found: Tensor) -> AnyArray:
    """A tensor as an array, by way of page-locked memory, where it then is."""
    import torch

    if not found.is_cuda:
        return found.numpy()
    home = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
    home.copy_(found, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return home.numpy()


def gathered(
    rows: Any, work: Callable[[Tensor], Tensor], columns: int, kind: DTypeLike, step: int
) -> AnyArray:
    """(rows, columns) host array of what `work` makes of the rows on the device, slab by slab."""
    step = max(1, min(step, len(rows)))
    result = np.empty((len(rows), columns), dtype=kind)
    lanes = [_Outward(), _Outward()]
    for number, (place, slab) in enumerate(slabs(rows, step)):
        made, lane = work(slab), lanes[number % 2]
        lane.finish()
        lane.give(made, result[place], step)
    for lane in lanes:
        lane.finish()
    return result


def to_device(array: Any) -> Tensor:
    """An array or tensor as a tensor on the device."""
    import torch

    return array.cuda() if isinstance(array, torch.Tensor) else torch.from_numpy(np.asarray(array)).cuda()


class _Inward:
    """Page-locked memory for one slab on its way in."""

    def __init__(self) -> None:
        self.locked: Tensor | None = None
        self.copied: Any = None

    def take(self, rows: Any, step: int, stream: Any) -> Tensor:
        """Copy host rows to the device on `stream`; what is asked of the device next waits for it."""
        import torch

        source = rows.numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)
        if self.locked is None:
            kind = torch.from_numpy(np.empty(0, dtype=source.dtype.newbyteorder("="))).dtype
            self.locked = torch.empty((step, *source.shape[1:]), dtype=kind, pin_memory=True)
        else:
            self.copied.synchronize()  # the device has read the slab before
        part = self.locked[: len(source)]
        _copy(source, part.numpy())
        with torch.cuda.stream(stream):
            slab = part.to("cuda", non_blocking=True)
            self.copied = stream.record_event()
        torch.cuda.current_stream().wait_event(self.copied)
        slab.record_stream(torch.cuda.current_stream())
        return slab


class _Outward:
    """Page-locked memory for one slab's results on their way back, and where they belong."""

    def __init__(self) -> None:
        self.locked: Tensor | None = None
        self.target: AnyArray | None = None
        self.done: Any = None

    def give(self, made: Tensor, target: AnyArray, step: int) -> None:
        """Copy results back once they are there."""
        import torch

        if self.locked is None:
            self.locked = torch.empty((step, *made.shape[1:]), dtype=made.dtype, pin_memory=True)
        self.target = target
        self.locked[: len(made)].copy_(made, non_blocking=True)
        self.done = torch.cuda.current_stream().record_event()

    def finish(self) -> None:
        """Wait for the results on their way, if any, and put them in place."""
        if self.target is not None and self.locked is not None:
            self.done.synchronize()
            _copy(self.locked[: len(self.target)].numpy(), self.target)
            self.target = None


def _copy(source: AnyArray, target: AnyArray) -> None:
    """Between pageable and page-locked memory, on several threads, unless this is one of them."""
    threads = min(_MOST_COPIERS, usable_cores())
    cuts = np.linspace(0, len(source), threads + 1).astype(int)
    pieces = [slice(first, last) for first, last in pairwise(cuts)]
    for _ in side_by_side(lambda piece: np.copyto(target[piece], source[piece]), pieces, threads):
        pass
