"""The similarity kernel on CUDA: private rows stay on the device, public rows stream through it.

Private rows are sorted by class and kept in float16 or int8; public rows come slab by slab, see
`exact.cuda`. `exact.similarity_kernel` has the kernel and why its integers are exact. Torch and Triton are
imported here when something runs, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, Integers
from dptransfer.exact import cuda as stream
from dptransfer.exact.cuda import to_device
from dptransfer.exact.similarity_cpu import PART, ClassRows, exact_parts
from dptransfer.exact.sums import class_sums_on_cuda

if TYPE_CHECKING:
    from torch import Tensor


_SLAB_BYTES = 2**27  # of public rows; a few of them are on the device at a time, two in page-locked memory
_RESULT_BYTES = 2**27
_STEP = {"float16": 64, "int8": 128}  # products' width per step: 128 bytes
_WALK = {"float16": 32, "int8": 8}  # private tiles per program, at most; measured


class Capped:
    """Sums of clip(dot, low, high) − low, as `similarity_cpu.Capped` gives them.

    Private rows are on the device in order of class, with the runs of classes in every tile.
    """

    def __init__(self, private: ClassRows, low: int, high: int, *, precision: str = "float16") -> None:
        import torch

        from dptransfer.exact.similarity_kernel import BLOCK_PRIVATE

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

    def __call__(self, public_rows: Any) -> Integers:
        """(public rows, classes) sums."""
        return _scores(public_rows, self._classes, self.there)

    def there(self, public_rows: Any) -> Tensor:
        """The same, of few enough public rows for one slab, left on the device."""
        import torch
        from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            TensorDescriptor,
        )

        from dptransfer.exact.similarity_kernel import BLOCK_PRIVATE, BLOCK_PUBLIC, capped_sums

        public = stream.sent(public_rows)
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
        import torch

        rows = rows.to(torch.int8 if self._precision == "int8" else torch.float16)
        missing = -rows.shape[1] % 16
        return torch.nn.functional.pad(rows, (0, missing)) if missing else rows.contiguous()


class Linear:
    """Sums of dot + shift, as `similarity_cpu.Linear` gives them; float64 takes rows of either norm."""

    def __init__(self, private: ClassRows, shift: int, *, norm: int = 2047, any_length: bool = False) -> None:
        import torch

        self._longest = norm**2 if any_length else None
        rows, labels, classes, weights = private
        sums, times = class_sums_on_cuda(rows, labels, classes, weights=weights), None
        parts: list[AnyArray] = [sums]
        if weights is not None:
            parts, times = [*exact_parts(sums.astype(np.float64))], to_device(weights).double()
        counts = torch.bincount(to_device(labels).long(), times, minlength=classes).long()  # exact below 2⁵³
        self._first, *self._rest = (to_device(part).double().T.contiguous() for part in parts)
        self._shifts = counts * shift

    def __call__(self, public_rows: Any) -> Integers:
        """(public rows, classes) sums."""
        return _scores(public_rows, len(self._shifts), self.there)

    def there(self, public_rows: Any) -> Tensor:
        """The same, of few enough public rows for one slab, left on the device."""
        import torch

        rows = stream.sent(public_rows).double()
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


def _scores(public_rows: Any, classes: int, sums: Callable[[Tensor], Tensor]) -> Integers:
    """`sums` of the public rows, slab by slab, on the host."""
    fitting = min(_SLAB_BYTES // (2 * max(1, public_rows.shape[1])), _RESULT_BYTES // (8 * classes))
    return stream.gathered(public_rows, sums, classes, np.int64, fitting)
