"""The similarity kernel on CUDA: private rows stay on the device, public rows stream through it.

Private rows are sorted by class and kept in float16 or int8; public rows come slab by slab, see `exact.cuda`.
This module is imported when a device is used, and not before; without Triton it has no kernel.

The fused Triton kernel does product, cap and per-class sum in one pass, with nothing written but the sums.
A program owns a block of public rows and walks over tiles of private rows, which are sorted by class. A tile
of products stays in registers: it is capped there, summed along its private rows, and added to the result. A
tile inside one class is summed whole. In one that several classes share, the columns up to the end of each
run but the last are summed once more, under a mask; the differences of these sums are the runs' own. So there
are at most (tiles + classes) sums in all, no class is padded, and class sizes are data, not something the
kernel is compiled for. Weights of rows, where there are some, multiply the capped products inside those sums,
so the number of different weights does not matter; for them there is a second variant of the kernel.

Why it is exact. Each product v is an integer of size below 2²² (float16 grid) or 2¹⁴ (int8 grid), exact in
the float32 or int32 accumulator. A float32 product becomes an integer without a conversion instruction: v +
1.5·2²³ lies in [2²³, 2²⁴], where floats are the integers, so its bits are those of 1.5·2²³ plus v. Then
clip(v, low, high) − low is clip(v − low, 0, high − low) in integers, at most 2·2047², and 256 of them stay
below 2³¹. Totals are added in int64. Products with weights, below 2³⁹, are int64 from the start.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, Integers, Tensor
from dptransfer.exact.capped_similarity import PART, ClassRows, exact_parts
from dptransfer.exact.cuda import Array, map_slabs, send_slab, to_device
from dptransfer.exact.sums import class_sums_on_cuda

try:
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:  # the caller asks `exact.cuda.require_cuda` first
    triton = None

BLOCK_PUBLIC = 128
BLOCK_PRIVATE = 256
_SLAB_BYTES = 2**27  # of public rows; a few of them are on the device at a time, two in page-locked memory
_RESULT_BYTES = 2**27
_STEP = {"float16": 64, "int8": 128}  # products' width per step: 128 bytes
_WALK = {"float16": 32, "int8": 8}  # private tiles per program, at most; measured

if triton is not None:
    # plain numbers: no compiled variants of them
    _OPEN = ["count", "tiles", "classes", "low", "high", "walk"]

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def weighted_sums(capped, weight):  # type: ignore[no-untyped-def]
        """Σ along the private rows of capped products times their weights."""
        return tl.sum(capped.to(tl.int64) * weight.to(tl.int64)[None, :], axis=1)

    @triton.jit(do_not_specialize=_OPEN)  # type: ignore[untyped-decorator,unused-ignore]
    def capped_sums(  # type: ignore[no-untyped-def]
        public,
        private,
        result,
        whole,
        first_run,
        run_class,
        run_end,
        weights,
        count,
        tiles,
        classes,
        low,
        high,
        walk,
        STEPS: tl.constexpr,
        BLOCK_M: tl.constexpr,
        BLOCK_N: tl.constexpr,
        BLOCK_K: tl.constexpr,
        STAGES: tl.constexpr,
        INTEGER: tl.constexpr,
    ):
        """Add Σ clip(dot, low, high) − low to result[public row, class] for some tiles of private rows.

        `public` and `private` are tensor descriptors; `whole[t]` is the class of tile t, or −1 if it has
        several, whose runs are then `first_run[t]` to `first_run[t + 1]`; `walk` tiles belong to a program.
        `weights` has one for each private row, and zeros for what fills up the last tile, or is None.
        """
        blocks = tl.cdiv(count, BLOCK_M)
        block = tl.program_id(0) % blocks  # neighbours share their private tiles in the cache
        start = (tl.program_id(0) // blocks) * walk
        rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
        sums = result + rows.to(tl.int64) * classes
        there = rows < count
        columns = tl.arange(0, BLOCK_N)
        kind: tl.constexpr = tl.int32 if INTEGER else tl.float32
        wide: tl.constexpr = tl.int32 if weights is None else tl.int64
        for tile in range(start, tl.minimum(start + walk, tiles)):
            owner = tl.load(whole + tile)  # asked for early, so that it is there when the products are
            begin = tl.load(first_run + tile)
            end = tl.load(first_run + tile + 1)
            # Integers start at −low, which saves an instruction later.
            dots = tl.full((BLOCK_M, BLOCK_N), 0 - low if INTEGER else 0.0, dtype=kind)
            for k in tl.range(0, STEPS, num_stages=STAGES):
                p = public.load([block * BLOCK_M, k * BLOCK_K])
                x = private.load([tile * BLOCK_N, k * BLOCK_K])
                dots = tl.dot(p, x.T, dots, out_dtype=kind)
            if INTEGER:
                shifted = dots
            else:
                shifted = (dots + 12582912.0).to(tl.int32, bitcast=True) - (low + 1262485504)
            capped = tl.maximum(tl.minimum(shifted, high - low), 0)
            if weights is None:
                total = tl.sum(capped, axis=1)
            else:
                weight = tl.load(weights + tile * BLOCK_N + columns)
                total = weighted_sums(capped, weight)
            if owner >= 0:
                tl.atomic_add(sums + owner, total.to(tl.int64), mask=there, sem="relaxed")
            else:
                before = tl.zeros((BLOCK_M,), dtype=wide)
                for run in range(begin, end - 1):
                    inside = columns < tl.load(run_end + run)
                    if weights is None:
                        upto = tl.sum(tl.where(inside[None, :], capped, 0), axis=1)
                    else:
                        upto = weighted_sums(capped, tl.where(inside, weight, 0))
                    owner = tl.load(run_class + run)
                    tl.atomic_add(sums + owner, (upto - before).to(tl.int64), mask=there, sem="relaxed")
                    before = upto
                # The last run has the rest, less the zero rows that fill up the last tile, each of which
                # counts clip(0 − low, 0, high − low) where it has no weight of zero.
                rest = total - before
                if weights is None:
                    blank = tl.maximum(tl.minimum(0 - low, high - low), 0)
                    rest -= blank * (BLOCK_N - tl.load(run_end + end - 1))
                owner = tl.load(run_class + end - 1)
                tl.atomic_add(sums + owner, rest.to(tl.int64), mask=there, sem="relaxed")


class CudaCappedSums:
    """Sums of clip(dot, low, high) − low, as `CappedSums` gives them.

    Private rows are on the device in order of class, with the runs of classes in every tile.
    """

    def __init__(self, private: ClassRows, low: int, high: int, *, precision: str = "float16") -> None:
        self._precision, self._classes, self._caps = precision, private.classes, (low, high)
        owner = to_device(private.labels).long()
        order = torch.argsort(owner, stable=True)
        self._rows = self._in_precision(to_device(private.rows))[order]
        sizes = torch.bincount(owner, minlength=self._classes).cpu().numpy()
        self._tiles = -(-len(owner) // BLOCK_PRIVATE)
        self._layout = [to_device(part) for part in tile_runs(sizes, BLOCK_PRIVATE)]
        self._weights = None
        if private.weights is not None:
            own = to_device(private.weights).int()[order]
            missing = self._tiles * BLOCK_PRIVATE - len(own)
            self._weights = torch.nn.functional.pad(own, (0, missing))  # what fills up a tile counts nothing

    def __call__(self, public_rows: Array) -> Integers:
        """(public rows, classes) sums."""
        return _scores(public_rows, self._classes, self.of_slab)

    def of_slab(self, public_rows: Array) -> Tensor:
        """The same, of few enough public rows for one slab, left on the device."""
        from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            TensorDescriptor,
        )

        public = send_slab(public_rows)
        sums = torch.zeros((len(public), self._classes), dtype=torch.int64, device="cuda")
        if not self._tiles or not len(public):
            return sums
        public, step = self._in_precision(public), _STEP[self._precision]
        blocks = -(-len(public) // BLOCK_PUBLIC)
        units = torch.cuda.get_device_properties(public.device).multi_processor_count
        walk = max(1, min(_WALK[self._precision], self._tiles * blocks // (8 * units)))
        capped_sums[(blocks * -(-self._tiles // walk),)](
            TensorDescriptor.from_tensor(public, [BLOCK_PUBLIC, step]),
            TensorDescriptor.from_tensor(self._rows, [BLOCK_PRIVATE, step]),
            sums,
            *self._layout,
            self._weights,
            len(public),
            self._tiles,
            self._classes,
            *self._caps,
            walk,
            STEPS=-(-public.shape[1] // step),
            BLOCK_M=BLOCK_PUBLIC,
            BLOCK_N=BLOCK_PRIVATE,
            BLOCK_K=step,
            STAGES=4,
            INTEGER=self._precision == "int8",
            num_warps=8,
        )
        return sums

    def _in_precision(self, rows: Tensor) -> Tensor:
        """The kernel's type; rows padded with zeros to whole 16-byte pieces, which the copy engine needs."""
        rows = rows.to(torch.int8 if self._precision == "int8" else torch.float16)
        missing = -rows.shape[1] % 16
        return torch.nn.functional.pad(rows, (0, missing)) if missing else rows.contiguous()


class CudaLinearSums:
    """Sums of dot + shift, as `LinearSums` gives them; float64 takes rows of either norm."""

    def __init__(self, private: ClassRows, shift: int, *, norm: int = 2047, any_length: bool = False) -> None:
        self._longest = norm**2 if any_length else None
        rows, labels, classes, weights = private
        sums, times = class_sums_on_cuda(rows, labels, classes, weights=weights), None
        parts: list[AnyArray] = [sums]
        if weights is not None:
            parts, times = [*exact_parts(sums.astype(np.float64))], to_device(weights).double()
        counts = torch.bincount(to_device(labels).long(), times, minlength=classes).long()  # exact below 2⁵³
        self._first, *self._rest = (to_device(part).double().T.contiguous() for part in parts)
        self._shifts = counts * shift

    def __call__(self, public_rows: Array) -> Integers:
        """(public rows, classes) sums."""
        return _scores(public_rows, len(self._shifts), self.of_slab)

    def of_slab(self, public_rows: Array) -> Tensor:
        """The same, of few enough public rows for one slab, left on the device."""
        rows = send_slab(public_rows).double()
        total = (rows @ self._first).long()
        for part in self._rest:
            total = total * int(PART) + (rows @ part).long()
        if self._longest is not None:
            total[torch.linalg.vecdot(rows, rows) > self._longest] = 0
        return total + self._shifts


def tile_runs(sizes: Integers, tile: int) -> tuple[NDArray[np.int32], ...]:
    """How classes of these sizes, one after another, lie in tiles of `tile` rows.

    Returns `whole`, the class of each tile that is full of one class (−1 for others); `first`, the number of
    each tile's first run, with the number of runs at the end; and each run's class and end in its tile.

    >>> [part.tolist() for part in tile_runs(np.array([5, 0, 2]), tile=4)]
    [[0, -1], [0, 1, 3], [0, 0, 2], [4, 1, 3]]
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cuts = np.unique(np.concatenate([np.arange(0, starts[-1], tile), starts]))
    begin, end = cuts[:-1], cuts[1:]
    owner = np.searchsorted(starts, begin, side="right") - 1
    place = begin // tile
    first = np.searchsorted(place, np.arange(-(-starts[-1] // tile) + 1))
    whole = np.where((end - begin == tile)[first[:-1]], owner[first[:-1]], -1) if len(begin) else begin
    parts = (whole, first, owner, end - place * tile)
    return tuple(part.astype(np.int32) for part in parts)


def _scores(public_rows: Array, classes: int, sums: Callable[[Tensor], Tensor]) -> Integers:
    """`sums` of the public rows, slab by slab, on the host."""
    fitting = min(_SLAB_BYTES // (2 * max(1, public_rows.shape[1])), _RESULT_BYTES // (8 * classes))
    return map_slabs(public_rows, sums, classes, np.int64, fitting)
