"""One array in many files, larger than memory: rows are read when asked for, and a snapshot finds changes."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Literal, NoReturn

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Integers
from dptransfer.data.numpy_files import array_header
from dptransfer.data.table_files import WHOLE_FILE, dense_rows, is_list, named_features, parquet, row_columns
from dptransfer.data.tables import USUAL_COLUMNS, Columns, parsing, require, unreadable
from dptransfer.errors import ArgumentError, DataError

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True)
class FileSnapshot:
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
    def of(cls, path: Path) -> FileSnapshot:
        """The file as it is now."""
        with _open(path) as stream:
            found = os.fstat(stream.fileno())
        return cls(path, found.st_size, found.st_mtime_ns)

    def __reduce__(self) -> tuple[type[FileSnapshot], tuple[Path, int, int]]:
        """On its way to another process, which may work in another folder."""
        return FileSnapshot, (self.path.absolute(), self.size, self.written)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
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

    A part is mapped when it is asked for and let go with the array that stands for it. One map for the whole
    file would be as fast, but all pages that were ever touched would count as memory in use.

    Attributes:
        file: the file as it was when it was opened first.
        start: the first byte of the rows.
        count: how many rows.
        width: numbers in a row.
        dtype: their type.
        by_column: whether the file has one column after the other, as Fortran does.
    """

    file: FileSnapshot
    start: int
    count: int
    width: int
    dtype: np.dtype[np.generic]
    by_column: bool
    names: ClassVar[None] = None

    @classmethod
    def at(cls, path: Path) -> NpyShard:
        """The shard in this file, once its header and its size are found to be right."""
        file = FileSnapshot.of(path)
        with file.open() as stream, parsing(path, _WHOLE, _AGAIN):
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
        with self.file.open() as stream:
            # `np.memmap` does the same, and takes as long for it as a megabyte takes to be read.
            part = mmap.mmap(
                stream.fileno(), before + last - first, access=mmap.ACCESS_READ, offset=first - before
            )
        order: Literal["C", "F"] = "F" if self.by_column else "C"
        return np.ndarray((stop - start, self.width), self.dtype, part, before, order=order)


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
    """

    file: FileSnapshot
    group: int
    count: int
    width: int
    dtype: np.dtype[np.generic]
    columns: tuple[str, ...]
    names: tuple[str, ...] | None

    @classmethod
    def all_at(cls, path: Path, asked: Columns) -> list[ParquetShard]:
        """The row groups of a file; none where it has no rows.

        Args:
            path: the file.
            asked: the columns of features, and those that tell people or labels and so are none.
        """
        file = FileSnapshot.of(path)
        with file.open() as stream:
            opened = _opened(path, stream)
            schema = opened.schema_arrow
            columns = row_columns(path, schema, asked)
            width, dtype = _row_form(path, opened, columns)
            names = named_features(schema, columns)
            counts = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
        shards = (cls(file, *one, width, dtype, columns, names) for one in enumerate(counts))
        return [shard for shard in shards if shard.count]

    def read(self, which: slice | Integers) -> AnyArray:
        """The rows between two places, or at some places."""
        with _decoding:  # threads take turns: pyarrow uses all cores for one group already
            rows = _decoded(self)
        found: AnyArray = rows[which]
        return found


_decoding = Lock()


@lru_cache(maxsize=2)  # whoever walks through decodes each once; a slice may end in the next
def _decoded(shard: ParquetShard) -> AnyArray:
    path = shard.file.path
    with shard.file.open() as stream:
        opened = _opened(path, stream)
        with parsing(path, *WHOLE_FILE):
            table = opened.read_row_group(shard.group, columns=list(shard.columns))
    rows = dense_rows(path, table, shard.columns)
    uneven = f"all rows must have one width; some have {rows.shape[1]} numbers, and others {shard.width}."
    require(rows.shape == (shard.count, shard.width), path, uneven, "Encode all with one encoder.")
    rows = rows.astype(shard.dtype, copy=False)
    rows.flags.writeable = False
    return rows


def _opened(path: Path, stream: BinaryIO) -> pq.ParquetFile:
    with parsing(path, *WHOLE_FILE):
        return parquet().ParquetFile(stream)


def _row_form(
    path: Path, opened: pq.ParquetFile, columns: tuple[str, ...]
) -> tuple[int, np.dtype[np.generic]]:
    """Numbers in a row, and their type as it is read, where lists of whole numbers are floats.

    The first rows tell how long lists are.
    """
    import pyarrow as arrow

    kind = opened.schema_arrow.field(columns[0]).type
    if not is_list(kind):
        return len(columns), np.dtype(np.float64)
    floats = arrow.types.is_floating(kind.value_type)
    with parsing(path, *WHOLE_FILE):
        first = next(iter(opened.iter_batches(batch_size=64, columns=list(columns))), None)
    width = 1 if first is None else dense_rows(path, arrow.Table.from_batches([first]), columns).shape[1]
    return width, np.dtype(kind.value_type.to_pandas_dtype() if floats else np.float64)


_IN_SLICES = (
    "Rows in many files may be more than memory holds, and are read in part: rows[start:stop], or rows[...] "
    "with an array of positions. {} Read a slice at a time."
)


class ShardedRows:
    """Rows in many files, by position over all of them; nothing is read but what is asked for.

    `rows[start:stop]` and `rows[positions]` give plain arrays of floats. A slice inside one file of floats is
    that part of the file, mapped and not copied. Nothing stays open, so the object travels to other
    processes, which need the same files at the same paths; a file that changed meanwhile is refused.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for number in range(3):
    ...     np.save(folder / f"part_{number}.npy", np.full((2, 4), number, dtype=np.float32))
    >>> rows = ShardedRows(sorted(folder.iterdir()))
    >>> rows.shape, rows[1:5][:, 0].tolist(), rows[np.array([5, 0])][:, 0].tolist()
    ((6, 4), [0.0, 1.0, 1.0, 2.0], [2.0, 0.0])

    Args:
        files: `.npy` files (float16, float32, float64 or int8) or Parquet files, in the order of the rows;
            all of one width and type.
        scale: what int8 values are multiplied with to be rows, in float32; 1 without it.
        columns: those of features, people and labels in Parquet files.
        finite: whether it is on record that all rows are finite.

    Attributes:
        shards: the `.npy` files, or the row groups of the Parquet files.
        shape: (rows, numbers in a row).
        dtype: type of the rows that are given.
        stored: type of the numbers in the files.
        scale: of int8 values; None for floats.
        finite: whether all rows are known to be finite; whole numbers always are.
    """

    ndim = 2

    def __init__(
        self,
        files: Sequence[str | Path],
        *,
        scale: float | None = None,
        columns: Columns = USUAL_COLUMNS,
        finite: bool = False,
    ) -> None:
        paths = [Path(file).absolute() for file in files]  # whoever they travel to may be elsewhere
        if not paths:
            raise DataError("Rows in many files need at least one file; there is none. Name the files.")
        found: list[NpyShard | ParquetShard] = []
        for path in paths:
            kind = path.suffix.lower()
            known = kind in (".npy", ".parquet") and kind == paths[0].suffix.lower()
            require(known, path, "shards must be all .npy or all .parquet files.", "Name files of one kind.")
            shards = [NpyShard.at(path)] if kind == ".npy" else ParquetShard.all_at(path, columns)
            some = any(shard.count for shard in shards)
            require(some, path, "a shard must have at least one row; this has none.", "Remove the file.")
            found += shards
            first, one = found[0], shards[0]
            other = f"this has {one.width}, and '{first.file.path.name}' has {first.width}."
            width = f"all shards must have rows of one width; {other}"
            require(one.width == first.width, path, width, "Encode all with one encoder.")
            types = f"all shards must be of one type; this is {one.dtype}, and the first is {first.dtype}."
            require(one.dtype == first.dtype, path, types, "Convert them, say to float32.")
            names = "all shards must have the same columns of features; this has others than the first."
            require(one.names == first.names, path, names, "Write it again.")
        self.shards = tuple(found)
        self._ends = np.cumsum([shard.count for shard in self.shards], dtype=np.int64)
        self._chosen: Integers | None = None
        self.stored = self.shards[0].dtype
        whole = self.stored.kind == "i"
        if scale is not None and not whole:
            raise ArgumentError(f"scale is for int8 rows; these are {self.stored}. Leave it out.")
        self.scale = None if not whole else 1.0 if scale is None else checks.moderate("scale", scale)
        self.dtype = np.dtype(np.float32) if whole else self.stored
        self.finite = finite or whole
        self.shape = (int(self._ends[-1]), self.shards[0].width)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """What the features are called, where they have a column each."""
        return self.shards[0].names

    @property
    def files(self) -> tuple[Path, ...]:
        """The files, in order."""
        return tuple(dict.fromkeys(shard.file.path for shard in self.shards))

    def take(self, positions: Integers) -> ShardedRows:
        """The rows at these positions as rows of their own; they are read when they are asked for."""
        found = self._places(positions)
        view = copy(self)
        view._chosen = found if self._chosen is None else self._chosen[found]
        view.shape = (len(found), self.shape[1])
        return view

    def require_unchanged(self) -> None:
        """Raise if any of the files is another one by now."""
        for shard in {shard.file.path: shard for shard in self.shards}.values():
            with shard.file.open():
                pass

    def whereabouts(self, position: int) -> str:
        """Where a row is, in words: its file, and its number there."""
        place = position if self._chosen is None else int(self._chosen[position])
        path = self.shards[int(np.searchsorted(self._ends, place, side="right"))].file.path
        before = [shard.file.path for shard in self.shards].index(path)
        return f"row {place - self._begin(before)} of '{path}'"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice | Integers) -> AnyArray:
        return self.read(which)

    def read(self, which: slice | Integers, *, as_stored: bool = False) -> AnyArray:
        """The rows of a slice, or at some positions; as_stored gives int8 values and not rows of them."""
        dtype = self.stored if as_stored else self.dtype
        rows = self._numbers(which, dtype)
        if rows.dtype != dtype:
            rows = rows.astype(dtype)
        if not as_stored and self.scale not in (None, 1.0):
            rows *= np.float32(self.scale)  # a copy by now: the files have integers
        return rows

    def _numbers(self, which: slice | Integers, dtype: np.dtype[np.generic]) -> AnyArray:
        """What the files have; of this type if it is of several files, and so copied anyway."""
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step != 1:
                return self._numbers(np.arange(start, stop, step), dtype)
            if self._chosen is None:
                return self._between(start, stop, dtype)
            return self._at(self._chosen[start:stop], dtype)
        places = self._places(which)
        return self._at(places if self._chosen is None else self._chosen[places], dtype)

    def _between(self, start: int, stop: int, dtype: np.dtype[np.generic]) -> AnyArray:
        if stop <= start:
            return np.empty((0, self.shape[1]), dtype)
        first, last = np.searchsorted(self._ends, (start, stop - 1), side="right").tolist()
        if first == last:
            begin = self._begin(first)
            inside: AnyArray = self.shards[first].read(slice(start - begin, stop - begin))
            return inside
        rows = np.empty((stop - start, self.shape[1]), dtype)
        ends = [start, *self._ends[first:last].tolist(), stop]
        for begin, end in pairwise(ends):  # a file each
            rows[begin - start : end - start] = self._between(begin, end, dtype)
        return rows

    def _at(self, places: Integers, dtype: np.dtype[np.generic]) -> AnyArray:
        rows = np.empty((len(places), self.shape[1]), dtype)
        # In the order of the files, whatever that of the places: each is opened once, and read forwards.
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        whose = np.searchsorted(self._ends, ordered, side="right")
        bounds = [*np.flatnonzero(np.diff(whose, prepend=-1)).tolist(), len(whose)]
        for start, stop in pairwise(bounds):
            number = int(whose[start])
            part = self.shards[number].read(ordered[start:stop] - self._begin(number))
            rows[order[start:stop]] = part
        return rows

    def _begin(self, number: int) -> int:
        return 0 if number == 0 else int(self._ends[number - 1])

    def _places(self, positions: object) -> Integers:
        """Positions from 0, checked."""
        if not isinstance(positions, np.ndarray) or positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise DataError(_IN_SLICES.format(f"This is neither: {type(positions).__name__}."))
        places: Integers = positions.astype(np.int64)
        places[places < 0] += len(self)
        if len(places) and not 0 <= places.min() <= places.max() < len(self):
            raise IndexError("a position is beyond the rows")
        return places

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise DataError(_IN_SLICES.format("All of them were asked for at once."))

    def __iter__(self) -> NoReturn:
        raise DataError(_IN_SLICES.format("They were asked for one at a time."))

    def __repr__(self) -> str:  # not how many: rows may be private
        return f"ShardedRows(dimension {self.shape[1]}, {self.stored})"


def stored_bytes(rows: object) -> bool:
    """Whether rows are whole numbers of one byte in their files, which the same rows in floats are not."""
    return isinstance(rows, ShardedRows) and rows.stored == np.int8
