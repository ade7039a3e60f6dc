"""More rows than memory: one array in many files, of which only the rows that are asked for are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Integers
from dptransfer.data.shard_files import NpyShard, ParquetShard, RecentGroups
from dptransfer.data.tables import require
from dptransfer.errors import ArgumentError, DataError

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
        features: which columns of Parquet files are features, as for `read_table`.
        others: columns of Parquet files that tell people or labels, and so are no features.
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
        features: str | Sequence[str] | None = None,
        others: Collection[str | None] = (),
        finite: bool = False,
    ) -> None:
        paths = [Path(file).absolute() for file in files]  # whoever they travel to may be elsewhere
        if not paths:
            raise DataError("Rows in many files need at least one file; there is none. Name the files.")
        found: list[NpyShard | ParquetShard] = []
        recent = RecentGroups()
        for path in paths:
            kind = path.suffix.lower()
            known = kind in (".npy", ".parquet") and kind == paths[0].suffix.lower()
            require(known, path, "shards must be all .npy or all .parquet files.", "Name files of one kind.")
            shards = (
                [NpyShard.at(path)] if kind == ".npy" else ParquetShard.all_at(path, features, others, recent)
            )
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
            require(_names(one) == _names(first), path, names, "Write it again.")
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
        return _names(self.shards[0])

    @property
    def files(self) -> tuple[Path, ...]:
        """The files, in order."""
        return tuple(dict.fromkeys(shard.file.path for shard in self.shards))

    def chosen(self, positions: Integers) -> ShardedRows:
        """The rows at these positions as rows of their own; they are read when they are asked for."""
        found = self._places(positions)
        view = copy(self)
        view._chosen = found if self._chosen is None else self._chosen[found]
        view.shape = (len(found), self.shape[1])
        return view

    def require_unchanged(self) -> None:
        """Raise if any of the files is another one by now."""
        for shard in {shard.file.path: shard for shard in self.shards}.values():
            with shard.file.opened():
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

    def _numbers(self, which: slice | Integers, dtype: np.dtype[Any]) -> AnyArray:
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

    def _between(self, start: int, stop: int, dtype: np.dtype[Any]) -> AnyArray:
        if stop <= start:
            return np.empty((0, self.shape[1]), dtype)
        first, last = np.searchsorted(self._ends, (start, stop - 1), side="right").tolist()
        if first == last:
            begin = self._begin(first)
            inside: AnyArray = self.shards[first].read(slice(start - begin, stop - begin))
            return inside
        rows = np.empty((stop - start, self.shape[1]), dtype)
        for number in range(first, last + 1):
            begin, end = self._begin(number), int(self._ends[number])
            here = slice(max(start, begin), min(stop, end))
            part = self.shards[number].read(slice(here.start - begin, here.stop - begin))
            rows[here.start - start : here.stop - start] = part
        return rows

    def _at(self, places: Integers, dtype: np.dtype[Any]) -> AnyArray:
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

    def _places(self, positions: Any) -> Integers:
        """Positions from 0, checked."""
        if not isinstance(positions, np.ndarray) or positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise DataError(_IN_SLICES.format(f"This is neither: {type(positions).__name__}."))
        places: Integers = positions.astype(np.int64)
        places[places < 0] += len(self)
        if len(places) and not 0 <= places.min() <= places.max() < len(self):
            raise IndexError("a position is beyond the rows")
        return places

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise DataError(_IN_SLICES.format("All of them were asked for at once."))

    def __iter__(self) -> NoReturn:
        raise DataError(_IN_SLICES.format("They were asked for one at a time."))

    def __repr__(self) -> str:  # not how many: rows may be private
        return f"ShardedRows(dimension {self.shape[1]}, {self.stored})"


def stored_bytes(rows: Any) -> bool:
    """Whether rows are whole numbers of one byte in their files, which the same rows in floats are not."""
    return isinstance(rows, ShardedRows) and rows.stored == np.int8


def _names(shard: NpyShard | ParquetShard) -> tuple[str, ...] | None:
    return shard.names if isinstance(shard, ParquetShard) else None
