"""Working through many rows a chunk at a time, on all cores.

Everything done to a chunk here is exact, so neither the size of the chunks nor the number of threads changes
a result; they only decide how much memory is in use and how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.compute.cores import usable_cores
from dptransfer.compute.threads import side_by_side

_CHUNK_ELEMENTS = 2**18  # two megabytes of float64: the passes over one chunk stay in the cache
_ChunkResult = TypeVar("_ChunkResult")


@dataclass(frozen=True, eq=False)
class Chosen:
    """Some rows of an array, taken out of it where they are worked on, a chunk at a time.

    To take them all out first would be the work of one thread, into memory that is new to all.

    >>> Chosen(np.array([[1], [2], [3]]), np.array([0, 2]))[:1]
    array([[1]])

    Attributes:
        rows: all of them.
        positions: which are chosen, in order.
    """

    rows: AnyArray
    positions: Integers

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, chunk: slice) -> AnyArray:
        return self.rows[self.positions[chunk]]


def over_chunks(work: Callable[[slice], _ChunkResult], count: int, dimension: int) -> Iterator[_ChunkResult]:
    """What `work` gives for each chunk, in order; chunks are worked on side by side.

    >>> sum(over_chunks(lambda chunk: chunk.stop - chunk.start, count=10**6, dimension=100))
    1000000
    """
    # Less than an eighth of a chunk is done sooner than another thread has begun with it.
    worthwhile = count * dimension // max(1, _CHUNK_ELEMENTS // 8)
    workers = max(1, min(usable_cores(), worthwhile))
    needed = -(-count // _rows_of_a_chunk(dimension))
    # As many for each worker, of one size: none waits for another's last.
    chunks = -(-needed // workers) * workers
    return side_by_side(work, _cut(slice(0, count), chunks), workers)


def in_cache(chunk: slice, dimension: int) -> list[slice]:
    """The chunk in equal pieces, over each of which passes stay in the cache; as it is, if it is one.

    For work that is shared out in larger chunks and makes several passes over the rows.

    >>> in_cache(slice(100, 1100), dimension=768)
    [slice(100, 434, None), slice(434, 768, None), slice(768, 1100, None)]
    """
    return _cut(chunk, -(-(chunk.stop - chunk.start) // _rows_of_a_chunk(dimension)))


def _rows_of_a_chunk(dimension: int) -> int:
    return max(1, _CHUNK_ELEMENTS // max(1, dimension))


def _cut(rows: slice, pieces: int) -> list[slice]:
    """Pieces of one size; the last may be smaller, and there may be fewer."""
    step = max(1, -(-(rows.stop - rows.start) // max(1, pieces)))
    return [slice(start, min(rows.stop, start + step)) for start in range(rows.start, rows.stop, step)]


def mapped_rows(work: Callable[[AnyArray], AnyArray], rows: AnyArray, width: int) -> Integers:
    """The integer rows of this width that `work` makes of the rows, a chunk at a time."""
    result = np.empty((len(rows), width), dtype=np.int64)

    def fill(chunk: slice) -> None:
        result[chunk] = work(rows[chunk])

    for _ in over_chunks(fill, *rows.shape):
        pass
    return result
