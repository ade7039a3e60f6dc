"""Working through many rows a chunk at a time, on all cores.

Everything done to a chunk here is exact, so neither the size of the chunks nor the number of threads changes
a result; they only decide how much memory is in use and how long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from dptransfer.compute.cores import usable_cores

_CHUNK_ELEMENTS = 2**18  # two megabytes of float64: the passes over one chunk stay in the cache
_Result = TypeVar("_Result")


def row_chunks(count: int, dimension: int) -> Iterator[slice]:
    """Slices over `count` rows, each small enough that working copies stay in the processor's cache."""
    step = max(1, _CHUNK_ELEMENTS // max(1, dimension))
    for start in range(0, count, step):
        yield slice(start, min(count, start + step))


def over_chunks(work: Callable[[slice], _Result], count: int, dimension: int) -> Iterator[_Result]:
    """What `work` gives for each chunk, in order; chunks are worked on side by side.

    >>> sum(over_chunks(lambda chunk: chunk.stop - chunk.start, count=10**6, dimension=100))
    1000000
    """
    chunks = list(row_chunks(count, dimension))
    workers = min(len(chunks), usable_cores())
    if workers < 2:
        yield from map(work, chunks)
        return
    rounds = -(-len(chunks) // workers)
    step = -(-count // (rounds * workers))  # as many chunks for each worker: none waits for another's last
    shares = [slice(start, min(count, start + step)) for start in range(0, count, step)]
    # One thread of linear algebra per chunk: its own threads would only wait for one another.
    with _linear_algebra().limit(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        yield from pool.map(work, shares)


@cache
def _linear_algebra() -> Any:
    """Who can be told how many threads to use; to look for them takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
