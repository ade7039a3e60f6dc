"""Rows in an `.npy` file that is one of many: the header is read at first, and of the rows what is asked for.

A part is mapped when it is asked for and let go with the array that stands for it. One map for the whole file
would be as fast, but all pages that were ever touched would count as memory in use.
"""

from __future__ import annotations

from dataclasses import dataclass
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
        """The rows between two places, not copied, or those at some places."""
        with self.file.opened() as stream:
            if self.by_column or not isinstance(which, slice):
                order: Any = "F" if self.by_column else "C"
                whole = np.memmap(stream, self.dtype, "r", self.start, (self.count, self.width), order)
                return np.asarray(whole[which])
            start = self.start + which.start * self.width * self.dtype.itemsize
            shape = (which.stop - which.start, self.width)
            return np.asarray(np.memmap(stream, self.dtype, "r", start, shape))
