"""CUDA devices: where an answer is computed, and rows streamed through a device.

Rows that are on the device already are used where they are. Others, a memory map of any size among them, come
in slabs: while the device works on one, threads read the next into page-locked memory, from which the device
copies by itself; results go back the same way. So memory on the device depends on the slab and not on the
number of rows. Torch is imported when something runs, not before.

A step of training is many small kernels, and a host takes longer to start them than a GPU to run them. Where
all steps have one shape, the kernels of the first are recorded (a CUDA graph) and started together for the
others. They are the same kernels on the same places in memory: what they compute is not changed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Tensor
from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import ArgumentError
from dptransfer.exact.chunks import side_by_side, slices

Array: TypeAlias = Any
"""An array of NumPy's, or a tensor of torch's: integers come out equal, and operations are written alike."""

_Array = TypeVar("_Array", AnyArray, "Tensor")

DEVICES = ("cpu", "cuda")


def use_cuda(device: str, *arrays: object) -> bool:
    """Whether to compute on CUDA; asked for where there is none, it is an error and never a silent CPU.

    >>> use_cuda("cpu", [1, 2])
    False
    """
    checks.one_of("device", device, DEVICES)
    if device == "cpu" and not any(on_cuda(array) for array in arrays):
        return False
    require_cuda()
    return True


def on_cuda(array: object) -> TypeGuard[Tensor]:
    """Whether this is a tensor in a GPU's memory."""
    return bool(getattr(array, "is_cuda", False))


def on_host(array: Array) -> AnyArray:
    """The array, or a tensor as one."""
    return np.asarray(array.cpu() if on_cuda(array) else array)


def namespace(array: Array) -> ModuleType:
    """NumPy, or torch for its tensors: both know the few functions used here by the same names."""
    if isinstance(array, np.ndarray):
        return np
    return torch


def square_root(values: _Array) -> _Array:
    """The correctly rounded square root of an array, or of a float64 tensor.

    On NVIDIA GPUs torch's own is; on CPUs it may come from a vector library that is off in the last bit.

    >>> square_root(np.array([4.0, 9.0]))
    array([2., 3.])
    """
    if isinstance(values, np.ndarray):
        return np.sqrt(values)
    return values.sqrt() if values.is_cuda else namespace(values).from_numpy(np.sqrt(values.numpy()))


def place_beside(array: Array, other: _Array) -> _Array:
    """The array where the other one is: in NumPy, or in torch on a device, where a tensor is already."""
    placed: _Array = array
    if isinstance(array, np.ndarray) and not isinstance(other, np.ndarray):
        placed = namespace(other).from_numpy(array).to(other.device)
    return placed


def require_cuda() -> None:
    """Raise unless torch, Triton and a device are there."""
    todo = "Use device='cpu', which gives the same results."
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            raise ArgumentError(f"device='cuda' needs {package}; it is not installed. {todo}")
    if not torch.cuda.is_available():
        raise ArgumentError(f"device='cuda' needs a CUDA device; torch finds none. {todo}")


_MOST_COPIERS = 16  # threads: one alone is slower than the device, and more are not faster


def slabs(rows: Array, step: int) -> Iterator[tuple[slice, Tensor]]:
    """(place, rows on the device), `step` rows at a time, in order."""
    step = max(1, min(step, len(rows)))
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    lanes = [_InwardLane(), _InwardLane()]
    for number, place in enumerate(slices(slice(0, len(rows)), step)):
        part = rows[place]
        yield place, part if on_cuda(part) else lanes[number % 2].take(part, step, stream)


def send_slab(rows: Array) -> Tensor:
    """All of these rows on the device: few enough for one slab."""
    if on_cuda(rows):
        return rows
    return _InwardLane().take(rows, len(rows), torch.cuda.Stream())  # type: ignore[no-untyped-call]


def fetch_array(found: Tensor) -> AnyArray:
    """A tensor as an array, by way of page-locked memory, where it then is."""
    if not found.is_cuda:
        return found.numpy()
    home = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
    home.copy_(found, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return home.numpy()


def map_slabs(
    rows: Array, work: Callable[[Tensor], Tensor], columns: int, kind: DTypeLike, step: int
) -> AnyArray:
    """(rows, columns) host array of what `work` makes of the rows on the device, slab by slab."""
    step = max(1, min(step, len(rows)))
    result = np.empty((len(rows), columns), dtype=kind)
    lanes = [_OutwardLane(), _OutwardLane()]
    for number, (place, slab) in enumerate(slabs(rows, step)):
        made, lane = work(slab), lanes[number % 2]
        lane.finish()
        lane.give(made, result[place], step)
    for lane in lanes:
        lane.finish()
    return result


def to_device(array: Array) -> Tensor:
    """An array or tensor as a tensor on the device."""
    return array.cuda() if isinstance(array, torch.Tensor) else torch.from_numpy(np.asarray(array)).cuda()


class _InwardLane:
    """Page-locked memory for one slab on its way in."""

    def __init__(self) -> None:
        self.locked: Tensor | None = None
        self.copied: torch.Event | None = None

    def take(self, rows: Array, step: int, stream: torch.cuda.Stream) -> Tensor:
        """Copy host rows to the device on `stream`; what is asked of the device next waits for it."""
        source = rows.numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)
        if self.locked is None or self.copied is None:
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


class _OutwardLane:
    """Page-locked memory for one slab's results on their way back, and where they belong."""

    def __init__(self) -> None:
        self.locked: Tensor | None = None
        self.target: AnyArray | None = None
        self.done: torch.Event | None = None

    def give(self, made: Tensor, target: AnyArray, step: int) -> None:
        """Copy results back once they are there."""
        if self.locked is None:
            self.locked = torch.empty((step, *made.shape[1:]), dtype=made.dtype, pin_memory=True)
        self.target = target
        self.locked[: len(made)].copy_(made, non_blocking=True)
        self.done = torch.cuda.current_stream().record_event()

    def finish(self) -> None:
        """Wait for the results on their way, if any, and put them in place."""
        if self.target is not None and self.locked is not None and self.done is not None:
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


_TRIALS = 2  # before it is recorded, so that libraries have chosen and prepared what they use


def record_graph(
    compute: Callable[..., Tensor], *inputs: Tensor, thrifty: bool = False
) -> Callable[..., Tensor]:
    """The same function as a CUDA graph, for inputs of these shapes and types.

    On a CPU it is the function itself, and so it is where it cannot be recorded, as that of a network whose
    forward pass waits for the device.

    Args:
        compute: from tensors to a tensor.
        inputs: tensors on the device, of the shapes that it will be called with, and of any values that it
            can take. Those of later calls may be in ordinary memory.
        thrifty: whether memory that trials took is given back before what is recorded gets its own; whoever
            needs some next then waits for it.
    """
    if not inputs[0].is_cuda:
        return compute
    cuda: Any = torch.cuda
    kept = [one.clone() for one in inputs]
    before, aside = cuda.current_stream(), cuda.Stream()
    aside.wait_stream(before)
    with cuda.stream(aside):
        for _ in range(_TRIALS):
            compute(*kept)
    before.wait_stream(aside)
    if thrifty:
        cuda.synchronize()
        cuda.empty_cache()
    graph = cuda.CUDAGraph()
    try:
        with cuda.stream(aside):  # on the trials' stream, as libraries took memory for it that stays
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                found = compute(*kept)
            finally:
                graph.capture_end()
    except RuntimeError:
        return compute

    def replay(*given: Tensor) -> Tensor:
        for own, one in zip(kept, given, strict=True):
            own.copy_(one, non_blocking=True)
        graph.replay()
        return found.clone()  # as the next call writes to the same place

    return replay
