"""Rows in an `.npy` file that is one of many: the header is read at first, and of the rows what is asked for.

A part is mapped when it is asked for and let go with the array that stands for it. One map for the whole file
would be as fast, but all pages that were ever touched would count as memory in use.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.data.numpy_files import array_header
from dptransfer.data.parsing import parsing
from dptransfer.data.table import require
from dptransfer.data.unchanged import Unchanged

KINDS = ("float16", "float32", "float64", "int8")
_WHOLE = "an .npy file must be one complete array of rows; this is damaged, cut short or has more."
_WINDOW_BYTES = 2**25  # of the file that are mapped at a time where rows here and there are asked for
_AGAIN = "Write it again with numpy.save."


@dataclass(frozen=True)
class NpyShard:
    """Rows of one `.npy` file.

    Attributes:
        file: the file as it was when it was opened first.
        start: the first byte of the rows.
        count: how many rows.
        width: numbers in a row.
        dtype: their type.
        by_column: whether the file has one column after the other, as Fortran does.
    """

    file: Unchanged
    start: int
    count: int
    width: int
    dtype: np.dtype[Any]
    by_column: bool

    @classmethod
    def at(cls, path: Path) -> NpyShard:
        """The shard in this file, once its header and its size are found to be right."""
        with Unchanged.first(path) as (file, stream), parsing(path, _WHOLE, _AGAIN):
            shape, by_column, dtype = array_header(stream)
            start = stream.tell()
        table = f"rows must be numbers of shape (examples, dimension); found {len(shape)} dimensions."
        require(len(shape) == 2 and shape[1] > 0, path, table, "Move the file elsewhere, or reshape it.")
        known = dtype.name in KINDS and dtype.isnative
        kind = f"rows must be of the type {', '.join(KINDS)}; found {dtype if dtype.isnative else dtype.str}."
        require(known, path, kind, "Convert them, say to float32.")
        count, width = shape
        require(start + count * width * dtype.itemsize == file.size, path, _WHOLE, _AGAIN)
        return cls(file, start, count, width, dtype, by_column)

    def read(self, which: slice | Integers) -> AnyArray:
        """The rows between two places, not copied, or those at some places, which must be in order."""
        if self.by_column:
            return np.asarray(self._mapped(0, self.count)[which])
        if isinstance(which, slice):
            return self._mapped(which.start, which.stop)
        rows = np.empty((len(which), self.width), self.dtype)
        window = which // max(1, _WINDOW_BYTES // (self.width * self.dtype.itemsize))
        for start, stop in pairwise([*np.flatnonzero(np.diff(window, prepend=-1)).tolist(), len(which)]):
            first, last = int(which[start]), int(which[stop - 1])
            rows[start:stop] = self._mapped(first, last + 1)[which[start:stop] - first]
        return rows

    def _mapped(self, start: int, stop: int) -> AnyArray:
        """The rows between two places as a part of the file; of one by columns, they are all of it."""
        row = self.width * self.dtype.itemsize
        first, last = self.start + start * row, self.start + stop * row
        before = first % mmap.ALLOCATIONGRANULARITY
        with self.file.opened() as stream:
            # `np.memmap` does the same, and takes as long for it as a megabyte takes to be read.
            part = mmap.mmap(
                stream.fileno(), before + last - first, access=mmap.ACCESS_READ, offset=first - before
            )
        order: Any = "F" if self.by_column else "C"
        return np.ndarray((stop - start, self.width), self.dtype, part, before, order=order)
