"""Working through many rows a chunk at a time, on all cores.

Everything done to a chunk here is exact, so neither the size of the chunks nor the number of threads changes
a result; they only decide how much memory is in use and how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from dptransfer.compute.cores import usable_cores
from dptransfer.compute.threads import side_by_side

_CHUNK_ELEMENTS = 2**18  # two megabytes of float64: the passes over one chunk stay in the cache
_Result = TypeVar("_Result")


def row_chunks(count: int, dimension: int) -> Iterator[slice]:
    """Slices over `count` rows, each small enough that working copies stay in the processor's cache."""
    return _slices(count, _chunks(count, dimension))


def over_chunks(work: Callable[[slice], _Result], count: int, dimension: int) -> Iterator[_Result]:
    """What `work` gives for each chunk, in order; chunks are worked on side by side.

    >>> sum(over_chunks(lambda chunk: chunk.stop - chunk.start, count=10**6, dimension=100))
    1000000
    """
    # Less than an eighth of a chunk is done sooner than another thread has begun with it.
    worthwhile = count * dimension // max(1, _CHUNK_ELEMENTS // 8)
    workers = max(1, min(usable_cores(), worthwhile))
    # As many for each worker: none waits for another's last.
    rounds = -(-_chunks(count, dimension) // workers)
    return side_by_side(work, list(_slices(count, rounds * workers)), workers)


def _chunks(count: int, dimension: int) -> int:
    """How many it takes."""
    return -(-count // max(1, _CHUNK_ELEMENTS // max(1, dimension)))


def _slices(count: int, chunks: int) -> Iterator[slice]:
    """At most so many, of one size; the last may be smaller."""
    step = max(1, -(-count // max(1, chunks)))
    for start in range(0, count, step):
        yield slice(start, min(count, start + step))
