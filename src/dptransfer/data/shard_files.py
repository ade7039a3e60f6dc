"""Rows in one of many .npy or Parquet files, read by position; fails if a file changes.

A part is mapped when it is asked for and let go with the array that stands for it. One map for the whole file
would be as fast, but all pages that were ever touched would count as memory in use.
"""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Integers
from dptransfer.data.arrow import WHOLE_FILE, dense_rows, named_features, row_columns, row_form
from dptransfer.data.numpy_files import array_header
from dptransfer.data.tables import parsing, require, unreadable


@dataclass(frozen=True)
class Unchanged:
    """A file by name, with the size and the time of writing that it had at first.

    Whoever opens it again is told if it is another one by now: rows of two versions would be mixed. The
    object holds nothing open, so it travels to other processes.

    Attributes:
        path: where it is.
        size: bytes.
        written: when it was last written, in nanoseconds.
    """

    path: Path
    size: int
    written: int

    @classmethod
    @contextmanager
    def first(cls, path: Path) -> Iterator[tuple[Unchanged, BinaryIO]]:
        """The file as it is now, and open for reading."""
        with _open(path) as stream:
            found = os.fstat(stream.fileno())
            yield cls(path, found.st_size, found.st_mtime_ns), stream

    def __reduce__(self) -> tuple[type[Unchanged], tuple[Path, int, int]]:
        """On its way to another process, which may work in another folder."""
        return Unchanged, (self.path.absolute(), self.size, self.written)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file open for reading, or an error if it is another one by now."""
        with _open(self.path) as stream:
            found = os.fstat(stream.fileno())
            same = (found.st_size, found.st_mtime_ns) == (self.size, self.written)
            rule = "a file must stay as it is; this changed while it was read."
            require(same, self.path, rule, "Start again when nobody writes to it.")
            yield stream


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as problem:
        closed = f"the file must be readable; it is not ({problem.strerror})."
        raise unreadable(path, closed, "Check the path and its permissions.") from None


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


_KEPT = 2  # a slice may begin in one group and end in the next


class RecentGroups:
    """The row groups that were decoded last, so that whoever walks through decodes each once.

    Threads take turns: pyarrow uses all cores for one group already. It travels empty.
    """

    def __init__(self) -> None:
        self._lock, self._groups = Lock(), OrderedDict[tuple[Path, int], AnyArray]()

    def get(self, key: tuple[Path, int], decode: Callable[[], AnyArray]) -> AnyArray:
        """The rows of a group, decoded if they are not among the last."""
        with self._lock:
            if key not in self._groups:
                while len(self._groups) >= _KEPT:
                    self._groups.popitem(last=False)
                self._groups[key] = decode()
            self._groups.move_to_end(key)
            return self._groups[key]

    def __reduce__(self) -> tuple[type[RecentGroups], tuple[()]]:
        return RecentGroups, ()


@dataclass(frozen=True)
class ParquetShard:
    """Rows of one row group.

    Attributes:
        file: the file as it was when it was opened first.
        group: which row group of it.
        count: how many rows.
        width: numbers in a row.
        dtype: their type.
        columns: where they are: one column of lists, or one for each feature.
        names: what the features are called, where they have a column each.
        recent: groups decoded last, of this file and of those beside it.
    """

    file: Unchanged
    group: int
    count: int
    width: int
    dtype: np.dtype[Any]
    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    recent: RecentGroups

    @classmethod
    def all_at(
        cls,
        path: Path,
        features: str | Sequence[str] | None,
        others: Collection[str | None],
        recent: RecentGroups,
    ) -> list[ParquetShard]:
        """The row groups of a file; none where it has no rows.

        Args:
            path: the file.
            features: the columns that are features, as for `feature_names`.
            others: the columns that tell people or labels, and so are none.
            recent: where decoded groups are kept.
        """
        with Unchanged.first(path) as (file, stream):
            opened = _opened(path, stream)
            schema = opened.schema_arrow
            columns = row_columns(path, schema, features, others)
            width, dtype = row_form(path, schema, columns, lambda: _first_cells(path, opened, columns))
            names = named_features(schema, columns)
            counts = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
        return [
            cls(file, group, count, width, dtype, columns, names, recent)
            for group, count in enumerate(counts)
            if count
        ]

    def read(self, which: slice | Integers) -> AnyArray:
        """The rows between two places, or at some places."""
        rows = self.recent.get((self.file.path, self.group), self._decoded)
        found: AnyArray = rows[which]
        return found

    def _decoded(self) -> AnyArray:
        path = self.file.path
        with self.file.opened() as stream:
            opened = _opened(path, stream)
            with parsing(path, *WHOLE_FILE):
                table = opened.read_row_group(self.group, columns=list(self.columns))
        rows = dense_rows(path, table, self.columns)
        uneven = f"all rows must have one width; some have {rows.shape[1]} numbers, and others {self.width}."
        require(rows.shape == (self.count, self.width), path, uneven, "Encode all with one encoder.")
        rows = rows.astype(self.dtype, copy=False)
        rows.flags.writeable = False
        return rows


def _opened(path: Path, stream: Any) -> Any:
    parquet = checks.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
    with parsing(path, *WHOLE_FILE):
        return parquet.ParquetFile(stream)


def _first_cells(path: Path, opened: Any, columns: tuple[str, ...]) -> Any:
    """The first cells of a column, decoded alone, to see how long its lists are; None without any."""
    arrow = checks.installed("pyarrow", "readers", "Reading a Parquet file")
    with parsing(path, *WHOLE_FILE):
        batch = next(iter(opened.iter_batches(batch_size=64, columns=list(columns))), None)
        return None if batch is None else arrow.Table.from_batches([batch])
