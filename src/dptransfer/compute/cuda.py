"""The similarity kernel on CUDA: private rows stay on the device, public rows stream through it.

Private rows are sorted by class and kept in float16 or int8. Public rows that are on the device already are
used where they are; others, a memory map of any size among them, come in slabs: while the device works on
one, the next is read into page-locked memory and copied over. See `compute.cuda_kernel` for the kernel and
why its integers are exact. Torch and Triton are imported here when something runs, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

Integers = NDArray[np.int64]

_SLAB_BYTES = 2**28  # of public rows; two of them are on the device at a time, and two in page-locked memory
_RESULT_BYTES = 2**27
_STEP = {"float16": 64, "int8": 128}  # products' width per step: 128 bytes
_WALK = {"float16": 32, "int8": 8}  # private tiles per program, at most; measured
_COPIERS = 8


def require_cuda() -> None:
    """Raise unless torch, Triton and a device are there."""
    todo = "Use device='cpu', which gives the same integers."
    try:
        import torch
    except ImportError:
        raise ArgumentError(f"device='cuda' needs torch; it is not installed. {todo}") from None
    if not torch.cuda.is_available():
        raise ArgumentError(f"device='cuda' needs a CUDA device; torch finds none. {todo}")
    from dptransfer.compute import cuda_kernel

    if not cuda_kernel.AVAILABLE:
        raise ArgumentError(f"device='cuda' needs Triton; it is not installed. {todo}")


def capped(
    private_rows: Any,
    labels: Any,
    classes: int,
    public_rows: Any,
    low: int,
    high: int,
    chunk: int | None = None,
    *,
    precision: str = "float16",
) -> Integers:
    """(public rows, classes) sums of clip(dot, low, high) − low, as `compute.cpu.capped` gives them."""
    require_cuda()
    prepared = Prepared(private_rows, labels, classes, precision)
    return _over_slabs(public_rows, classes, chunk, lambda slab, sums: prepared.add(slab, sums, low, high))


def linear(private_rows: Any, labels: Any, classes: int, public_rows: Any, shift: int) -> Integers:
    """(public rows, classes) sums of dot + shift, as `compute.cpu.linear` gives them."""
    require_cuda()
    import torch

    owner = _on_device(labels).long()
    sums = torch.zeros((classes, private_rows.shape[1]), dtype=torch.int64, device="cuda")
    step = max(1, 2**24 // max(1, private_rows.shape[1]))
    for start in range(0, len(owner), step):
        rows = _on_device(private_rows[start : start + step])
        sums.index_add_(0, owner[start : start + step], rows.long())
    offset = torch.bincount(owner, minlength=classes) * shift
    wide = sums.double().T.contiguous()

    def add(slab: Tensor, result: Tensor) -> None:
        result += (slab.double() @ wide).long() + offset

    return _over_slabs(public_rows, classes, None, add)


class Prepared:
    """Private rows on the device in order of class, with the runs of classes in every tile."""

    def __init__(self, private_rows: Any, labels: Any, classes: int, precision: str) -> None:
        import torch

        from dptransfer.compute.cuda_kernel import BLOCK_PRIVATE

        self.precision, self.classes = precision, classes
        owner = _on_device(labels).long()
        order = torch.argsort(owner, stable=True)
        self.rows = self._in_precision(_on_device(private_rows))[order]
        sizes = torch.bincount(owner, minlength=classes).cpu().numpy()
        self.tiles = -(-len(owner) // BLOCK_PRIVATE)
        self.layout = [_on_device(part) for part in tile_runs(sizes, BLOCK_PRIVATE)]

    def add(self, public: Tensor, sums: Tensor, low: int, high: int) -> None:
        """Add the capped sums for these public rows to `sums`, (public rows, classes) in int64."""
        if not self.tiles or not len(public):
            return
        import torch
        from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            TensorDescriptor,
        )

        from dptransfer.compute.cuda_kernel import BLOCK_PRIVATE, BLOCK_PUBLIC, capped_sums

        public, step = self._in_precision(public), _STEP[self.precision]
        blocks = -(-len(public) // BLOCK_PUBLIC)
        units = torch.cuda.get_device_properties(public.device).multi_processor_count
        walk = max(1, min(_WALK[self.precision], self.tiles * blocks // (8 * units)))
        capped_sums[(blocks * -(-self.tiles // walk),)](
            TensorDescriptor.from_tensor(public, [BLOCK_PUBLIC, step]),
            TensorDescriptor.from_tensor(self.rows, [BLOCK_PRIVATE, step]),
            sums,
            *self.layout,
            len(public),
            self.tiles,
            self.classes,
            low,
            high,
            walk,
            STEPS=-(-public.shape[1] // step),
            BLOCK_M=BLOCK_PUBLIC,
            BLOCK_N=BLOCK_PRIVATE,
            BLOCK_K=step,
            STAGES=4,
            INTEGER=self.precision == "int8",
            num_warps=8,
        )

    def _in_precision(self, rows: Tensor) -> Tensor:
        """The kernel's type; rows padded with zeros to whole 16-byte pieces, which the copy engine needs."""
        import torch

        rows = rows.to(torch.int8 if self.precision == "int8" else torch.float16)
        missing = -rows.shape[1] % 16
        return torch.nn.functional.pad(rows, (0, missing)) if missing else rows.contiguous()


def tile_runs(sizes: Integers, tile: int) -> tuple[NDArray[np.int32], ...]:
    """How classes of these sizes, one after another, lie in tiles of `tile` rows.

    Returns `whole`, the class of each tile that is full of one class (−1 for others); `first`, the number of
    each tile's first run, with the number of runs at the end; and each run's class, begin and end in its
    tile.

    >>> [part.tolist() for part in tile_runs(np.array([5, 0, 2]), tile=4)]
    [[0, -1], [0, 1, 3], [0, 0, 2], [0, 0, 1], [4, 1, 3]]
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cuts = np.unique(np.concatenate([np.arange(0, starts[-1], tile), starts]))
    begin, end = cuts[:-1], cuts[1:]
    owner = np.searchsorted(starts, begin, side="right") - 1
    place = begin // tile
    first = np.searchsorted(place, np.arange(-(-starts[-1] // tile) + 1))
    whole = np.where((end - begin == tile)[first[:-1]], owner[first[:-1]], -1) if len(begin) else begin
    parts = (whole, first, owner, begin - place * tile, end - place * tile)
    return tuple(part.astype(np.int32) for part in parts)


def _over_slabs(
    public_rows: Any, classes: int, chunk: int | None, add: Callable[[Tensor, Tensor], None]
) -> Integers:
    """`add` applied to the public rows slab by slab; copies in, work and copies out run side by side."""
    import torch

    count, width = public_rows.shape
    fitting = min(_SLAB_BYTES // (2 * max(1, width)), _RESULT_BYTES // (8 * classes))
    step = min(chunk or max(1, fitting), max(1, count))
    result = np.zeros((count, classes), dtype=np.int64)
    copies = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    lanes = [_Lane(step, classes) for _ in range(2)]
    with ThreadPoolExecutor(_COPIERS) as pool:
        for number, start in enumerate(range(0, count, step)):
            lane = lanes[number % 2]
            lane.finish(result)
            rows = public_rows[start : start + step]
            slab = rows if getattr(rows, "is_cuda", False) else lane.take(rows, copies, pool)
            sums = torch.zeros((len(slab), classes), dtype=torch.int64, device="cuda")
            add(slab, sums)
            lane.give(start, sums)
    for lane in lanes:
        lane.finish(result)
    return result


class _Lane:
    """One slab's way to the device and back: page-locked memory on both sides, and whether it is in use."""

    def __init__(self, step: int, classes: int) -> None:
        import torch

        self.inward: Tensor | None = None
        self.outward = torch.empty((step, classes), dtype=torch.int64, pin_memory=True)
        self.done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.start = self.rows = 0

    def take(self, rows: Any, copies: Any, pool: ThreadPoolExecutor) -> Tensor:
        """Copy host rows to the device on the stream `copies`; the current stream waits for it."""
        import torch

        source = rows.numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)
        if self.inward is None:
            kind = torch.from_numpy(np.empty(0, dtype=source.dtype)).dtype
            self.inward = torch.empty((len(self.outward), source.shape[1]), dtype=kind, pin_memory=True)
        locked = self.inward[: len(source)].numpy()
        cuts = np.linspace(0, len(source), _COPIERS + 1).astype(int)
        pieces = [slice(a, b) for a, b in pairwise(cuts)]
        for _ in pool.map(lambda piece: np.copyto(locked[piece], source[piece]), pieces):
            pass
        with torch.cuda.stream(copies):
            slab = self.inward[: len(source)].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        slab.record_stream(torch.cuda.current_stream())
        return slab

    def give(self, start: int, sums: Tensor) -> None:
        """Copy the sums back once they are there."""
        self.start, self.rows = start, len(sums)
        self.outward[: self.rows].copy_(sums, non_blocking=True)
        self.done.record()

    def finish(self, result: Integers) -> None:
        """Wait for the last slab of this lane and put its sums in place."""
        if self.rows:
            self.done.synchronize()
            result[self.start : self.start + self.rows] = self.outward[: self.rows].numpy()
            self.rows = 0


def _on_device(rows: Any) -> Tensor:
    import torch

    return rows.cuda() if isinstance(rows, torch.Tensor) else torch.from_numpy(np.asarray(rows)).cuda()
