"""Work through rows in chunks on all cores, on every thread with the default float settings.

Nothing here may decide a result. Everything done to a chunk is exact, so neither the size of the chunks nor
the number of threads changes a result; they only decide how much memory is in use and how long it takes.

**Float settings.** A thread carries settings that change what float operations do: how they round, whether
subnormal numbers count as zeros, whether an overflow or a NaN stops the process. NumPy adds its own: whether
they warn or raise (`np.seterr`). A program may set any of them on one thread and not on another, so the same
row could be rounded differently, or make the program stop, depending on which thread it meets. Work on
private rows therefore runs with the defaults, and what was set before is put back afterwards.

C99's `fesetenv` does that on Linux and macOS. Elsewhere, only NumPy's settings are changed; what then remains
is in docs/sharp-edges.md. Subnormal numbers do not rest on it: `lattice.scaled_rows` reads bits.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dptransfer.base.progress import tell
from dptransfer.base.types import AnyArray, Floats, Integers
from dptransfer.base.worker_env import usable_cores

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
_own = threading.local()

_LARGEST_SIDE = 4096
_CHUNK_ELEMENTS = 2**18  # two megabytes of float64: the passes over one chunk stay in the cache


@contextmanager
def plain_floats() -> Iterator[None]:
    """Run what is inside with the default settings of this thread's floats.

    >>> with np.errstate(all="raise"), plain_floats():
    ...     float(np.float64(1e308) * 10)
    inf
    """
    library, default = _float_environment()
    with np.errstate(all="ignore"):
        if library is None:  # pragma: no cover — Windows
            yield
            return
        before = (ctypes.c_longlong * 32)()  # far more than any platform's fenv_t
        library.fegetenv(before)
        try:
            library.fesetenv(default)
            yield
        finally:
            library.fesetenv(before)


@cache
def _float_environment() -> tuple[ctypes.CDLL | None, object]:
    """The C library, and its name for the default settings; (None, None) where there is none."""
    if not sys.platform.startswith(("linux", "darwin")):
        return None, None  # pragma: no cover — Windows
    # PyDLL keeps Python's lock during these calls, which are shorter than giving it up would take.
    try:
        library = ctypes.PyDLL("libm.so.6")
    except OSError:  # pragma: no cover — macOS and musl have one library for all
        library = ctypes.PyDLL(None)
    for name in ("_FE_DFL_ENV", "__fe_dfl_env"):  # an object on macOS, and in glibc for POWER
        with suppress(ValueError):
            return library, ctypes.byref((ctypes.c_longlong * 2).in_dll(library, name))
    return library, ctypes.c_void_p(-1)  # glibc and musl elsewhere


def side_by_side(work: Callable[[_Part], _Result], parts: Sequence[_Part], threads: int) -> Iterator[_Result]:
    """What `work` gives for each part, in order, on this many threads, all with the default float settings.

    Work that is shared out by work that was itself shared out stays on its thread: all cores are busy then,
    and threads that wait for a place among themselves would wait forever.

    >>> list(side_by_side(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    plain = partial(_with_plain_floats, work)
    if min(threads, len(parts)) < 2 or getattr(_own, "is_kept", False):
        yield from map(plain, parts)
        return
    with one_blas_thread():  # each: its own threads would only wait for one another
        pool = _thread_pool(threads)
        # With a part for each, one is done here: this thread would only sleep, and waking one takes time.
        handed = parts if len(parts) > threads else parts[:-1]
        pending: list[Future[_Result]] = [pool.submit(plain, part) for part in handed]
        pending.reverse()
        try:
            own = [plain(part) for part in parts[len(handed) :]]
            while pending:
                yield pending.pop().result()  # popped, so that what was fetched is not kept
            yield from own
        finally:  # an error, or nobody wants the rest: nothing runs on after this
            for future in pending:
                future.cancel()
            wait(pending)


@dataclass(frozen=True)
class Threads:
    """Workers in this process: so many pieces at a time, each on a thread of its own from beginning to end.

    >>> list(Threads(2).each(len, ["one", "three"], "word"))
    [(0, 3), (1, 5)]
    """

    count: int

    def ready(self) -> None:
        """They always are."""

    def each(
        self, work: Callable[[_Part], _Result], pieces: Sequence[_Part], what: str
    ) -> Iterator[tuple[int, _Result]]:
        """In order."""
        for number, result in enumerate(side_by_side(work, pieces, self.count)):
            yield number, result
            tell(number + 1, len(pieces), what)


def run_on_thread(work: Callable[[], _Result]) -> Future[_Result]:
    """Start `work` on another thread; whoever asks for the result waits for it.

    >>> other = run_on_thread(lambda: 2 + 3)
    >>> other.result()
    5
    """
    return _thread_pool(1).submit(_with_plain_floats, work)


def _with_plain_floats(work: Callable[..., _Result], *part: object) -> _Result:
    with plain_floats():
        return work(*part)


@cache
def _thread_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "dptransfer", initializer=lambda: setattr(_own, "is_kept", True))


@contextmanager
def one_blas_thread(side: int = 0) -> Iterator[None]:
    """Use a single BLAS thread in the block, in this whole process; for matrices of at most 4,096 a side.

    The threads of BLAS wait for each other in a loop. Where another process has their cores, a singular value
    decomposition that takes 1.5 seconds on one thread takes ten times as long on all. On idle cores one
    thread takes 1.5 times as long as two, and rounds alike on every machine. Larger matrices (the shorter
    side is `side`) keep all threads, for they take minutes. Blocks may overlap, in one thread or in several.
    """
    if side > _LARGEST_SIDE:
        yield
        return
    with _blas.lock:
        if not _blas.users:
            _blas.limits.enter_context(_linear_algebra().limit(limits=1, user_api="blas"))
        _blas.users += 1
    try:
        yield
    finally:
        with _blas.lock:
            _blas.users -= 1
            if not _blas.users:
                _blas.limits.close()


class _BlasUsers:
    """Counts who wants a single thread: the first one's limit is lifted by the last, in whatever order."""

    def __init__(self) -> None:
        self.lock, self.users, self.limits = threading.Lock(), 0, ExitStack()


_blas = _BlasUsers()


@cache
def _linear_algebra() -> ThreadpoolController:
    """Who can be told how many threads to use; to look for them takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _start_anew() -> None:  # pragma: no cover — in children of a fork, which report nothing
    """A forked child has the executor and none of its threads, and a lock that nobody would give back."""
    _thread_pool.cache_clear()
    _BlasUsers.__init__(_blas)


if hasattr(os, "register_at_fork"):  # pragma: no branch — Windows has none
    os.register_at_fork(after_in_child=_start_anew)


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Some rows of an array, or pictures of files, taken out where they are worked on, a chunk at a time.

    To take them all out first would be the work of one thread, into memory that is new to all.

    >>> SelectedRows(np.array([[1], [2], [3]]), np.array([0, 2]))[:1]
    array([[1]])

    Attributes:
        rows: all of them.
        positions: which are chosen, in order.
    """

    rows: Any
    positions: Integers

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array of them."""
        return (len(self.positions), *self.rows.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of their numbers."""
        kind: np.dtype[Any] = self.rows.dtype
        return kind

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, chosen: int | slice | Integers, /) -> AnyArray:
        found: AnyArray = self.rows[self.positions[chosen]]
        return found


def over_chunks(work: Callable[[slice], _Result], count: int, dimension: int) -> Iterator[_Result]:
    """What `work` gives for each chunk, in order; chunks are worked on side by side.

    >>> sum(over_chunks(lambda chunk: chunk.stop - chunk.start, count=10**6, dimension=100))
    1000000
    """
    step, workers = rows_and_workers(count, dimension, _CHUNK_ELEMENTS)
    return side_by_side(work, slices(slice(0, count), step), workers)


def concatenate_chunks(work: Callable[[slice], AnyArray], count: int, dimension: int) -> Floats:
    """One number for each row: what `work` gives for chunks, behind one another."""
    return np.concatenate([np.zeros(0), *over_chunks(work, count, dimension)])


def rows_and_workers(count: int, dimension: int, elements: int) -> tuple[int, int]:
    """Rows of a chunk that has about so many elements at most, and how many threads work on such chunks."""
    # Less than an eighth of a chunk is done sooner than another thread has begun with it.
    workers = max(1, min(usable_cores(), count * dimension // max(1, elements // 8)))
    needed = -(-count // max(1, elements // max(1, dimension)))
    # As many for each worker, of one size: none waits for another's last.
    return -(-count // max(1, -(-needed // workers) * workers)), workers


def in_cache(chunk: slice, dimension: int) -> list[slice]:
    """The chunk in equal pieces, over each of which passes stay in the cache; as it is, if it is one.

    For work that is shared out in larger chunks and makes several passes over the rows.

    >>> in_cache(slice(100, 1100), dimension=768)
    [slice(100, 434, None), slice(434, 768, None), slice(768, 1100, None)]
    """
    count = chunk.stop - chunk.start
    pieces = -(-count // max(1, _CHUNK_ELEMENTS // max(1, dimension)))
    return slices(chunk, -(-count // max(1, pieces)))


def slices(rows: slice, step: int) -> list[slice]:
    """The rows, so many at a time; the last may be fewer.

    >>> slices(slice(2, 7), 3)
    [slice(2, 5, None), slice(5, 7, None)]
    """
    starts = range(rows.start, rows.stop, max(1, step))
    return [slice(start, min(rows.stop, start + step)) for start in starts]


def mapped_rows(work: Callable[[AnyArray], AnyArray], rows: AnyArray, width: int) -> Integers:
    """The integer rows of this width that `work` makes of the rows, a chunk at a time."""
    result = np.empty((len(rows), width), dtype=np.int64)

    def fill(chunk: slice) -> None:
        result[chunk] = work(rows[chunk])

    for _ in over_chunks(fill, *rows.shape):
        pass
    return result
