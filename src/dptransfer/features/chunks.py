"""Working through many rows a chunk at a time, on all cores.

Everything done to a chunk here is exact, so neither the size of the chunks nor the number of threads changes
a result; they only decide how much memory is in use and how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.compute.cores import usable_cores
from dptransfer.compute.threads import side_by_side

_CHUNK_ELEMENTS = 2**18  # two megabytes of float64: the passes over one chunk stay in the cache
_Result = TypeVar("_Result")


def over_chunks(work: Callable[[slice], _Result], count: int, dimension: int) -> Iterator[_Result]:
    """What `work` gives for each chunk, in order; chunks are worked on side by side.

    >>> sum(over_chunks(lambda chunk: chunk.stop - chunk.start, count=10**6, dimension=100))
    1000000
    """
    # Less than an eighth of a chunk is done sooner than another thread has begun with it.
    worthwhile = count * dimension // max(1, _CHUNK_ELEMENTS // 8)
    workers = max(1, min(usable_cores(), worthwhile))
    needed = -(-count // max(1, _CHUNK_ELEMENTS // max(1, dimension)))
    # As many for each worker, of one size: none waits for another's last.
    chunks = -(-needed // workers) * workers
    step = max(1, -(-count // max(1, chunks)))
    parts = [slice(start, min(count, start + step)) for start in range(0, count, step)]
    return side_by_side(work, parts, workers)


def mapped_rows(work: Callable[[AnyArray], AnyArray], rows: AnyArray, width: int) -> Integers:
    """The integer rows of this width that `work` makes of the rows, a chunk at a time."""
    result = np.empty((len(rows), width), dtype=np.int64)

    def fill(chunk: slice) -> None:
        result[chunk] = work(rows[chunk])

    for _ in over_chunks(fill, *rows.shape):
        pass
    return result
