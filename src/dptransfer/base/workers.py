"""Worker pools: run tasks here, in worker processes or on a cluster; retry after crashes and timeouts.

A piece of work is a pure function of a piece of the data: asked again, for whatever reason, it gives the same
bytes. So a worker that crashed or timed out is simply replaced, nothing is counted twice, and what is made of
all pieces does not depend on who did them, or in which order they came back.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from dptransfer.base.checks import or_none, positive, whole
from dptransfer.base.progress import tell
from dptransfer.base.worker_env import cores_here, thread_variables
from dptransfer.errors import ArgumentError, DPTransferError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.process import BaseProcess


Piece = TypeVar("Piece")
Result = TypeVar("Result")
Numbered: TypeAlias = Iterator[tuple[int, Result]]


class Workers(Protocol):
    """Who works on pieces."""

    def ready(self) -> None:
        """Find out whether they can be reached, before anything is spent; raise if not."""

    def each(self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str) -> Numbered[Result]:
        """(number of a piece, what `work` gives for it), each once, in whatever order they are done.

        Args:
            work: a pure function that can be sent to another process, with the arrays that it needs inside,
                which it must not change. What it raises ends everything, here, as it was raised there.
            pieces: what it is called with, one at a time.
            what: what a piece is called, for whoever watches.
        """


@dataclass(frozen=True)
class ThisProcess:
    """This process, one piece after the other; what works on a piece may use all cores.

    >>> list(ThisProcess().each(len, ["one", "three"], "word"))
    [(0, 3), (1, 5)]
    """

    def ready(self) -> None:
        """It always is."""

    def each(self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str) -> Numbered[Result]:
        """In order."""
        for number, piece in enumerate(pieces):
            yield number, work(piece)
            tell(number + 1, len(pieces), what)


_MOST_PIECES = 1024
_PIECE_BYTES = 2**26


def pieces_of(count: int, bytes_each: int, most: int = _MOST_PIECES) -> list[slice]:
    """Parts of so many rows: of some megabytes each, and of more where there would be too many.

    >>> pieces_of(100, 2**20)
    [slice(0, 64, None), slice(64, 100, None)]
    """
    step = max(1, _PIECE_BYTES // max(1, bytes_each), -(-count // most))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


ATTEMPTS = 3
"""A piece that is lost so often, while no other is finished, is given up with all the rest."""

_SLOWEST_TIMES, _AT_LEAST = 20.0, 600.0
_LOOK = 5.0  # seconds between two looks at whether anybody is there


class WorkerLost(Exception):
    """A worker is gone before it could answer; its words say what is known of why."""


class TaskResult(NamedTuple):
    """What became of a piece: a result, or what was raised."""

    result: Any
    problem: BaseException | None


class WorkerPool(Protocol):
    """Those who work at present."""

    @property
    def window(self) -> int:
        """How many pieces they have at a time."""

    def submit(self, piece: object) -> Future[TaskResult]:
        """Hand a piece to whoever is free."""

    def outcome(self, answer: Future[TaskResult]) -> TaskResult:
        """What came back; raises `WorkerLost` if nothing did."""

    def require_alive(self) -> None:
        """Raise if there is nobody left who could answer, or replace whoever died."""

    def end(self) -> None:
        """End them at once, in the middle of a piece if need be."""


def map_with_retries(
    start_pool: Callable[[], WorkerPool],
    pieces: Sequence[object],
    what: str,
    *,
    patience: float | None,
    give_up: Callable[[Any, str], Any] | None = None,
) -> Iterator[tuple[int, Any]]:
    """(number, result) of every piece, each once, as they come back.

    A piece whose worker dies is handed out again. If none comes back for too long, somebody hangs: all are
    ended, and others begin with what they had. Each of that is one loss of a piece; three losses of one,
    without another finished in between, end everything, so that work which kills whoever does it does not
    go on forever, and a machine that dies with many pieces is one loss each. A pool that is gone as a whole
    ends everything at once.

    Args:
        start_pool: begins a pool.
        pieces: what is handed out.
        what: what a piece is called.
        patience: seconds in which one piece must come back; None for twenty times what the slowest has taken
            so far, and at least ten minutes.
        give_up: what a piece gives, and why, once two workers died with it; default none is given up alone.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    waiting, losses, done, slowest = deque(range(len(pieces))), Counter[int](), 0, 0.0
    deaths = Counter[int]()
    running: dict[Future[TaskResult], tuple[int, float]] = {}
    if not pieces:
        return
    pool = start_pool()
    try:
        while waiting or running:
            while waiting and len(running) < pool.window:
                number = waiting.popleft()
                running[pool.submit(pieces[number])] = number, time.monotonic()
            limit = max(_AT_LEAST, _SLOWEST_TIMES * slowest) if patience is None else patience
            answers, until = set[Future[TaskResult]](), time.monotonic() + limit
            while not answers and (left := until - time.monotonic()) > 0:
                answers = wait(running, min(left, _LOOK), return_when=FIRST_COMPLETED).done
                pool.require_alive()
            if not answers:
                lost = sorted(number for number, _ in running.values())
                _count(losses, lost, what, f"none came back in {limit:.0f} s")
                running.clear()
                waiting.extendleft(reversed(lost))
                pool.end()
                pool = start_pool()
            for answer in answers:
                number, began = running.pop(answer)
                try:
                    result, problem = pool.outcome(answer)
                except WorkerLost as why:
                    deaths[number] += 1
                    if give_up is None or deaths[number] < 2:
                        _count(losses, [number], what, str(why))
                        waiting.appendleft(number)
                        continue
                    result, problem = give_up(pieces[number], str(why)), None
                if problem is not None:
                    raise problem
                losses.clear()
                slowest = max(slowest, time.monotonic() - began)
                yield number, result
                done += 1
                tell(done, len(pieces), what)
    finally:
        pool.end()


def run_task(work: Callable[[Piece], object], piece: Piece) -> TaskResult:
    """What work gives for a piece, or raises: it goes home as it is, and no worker prints it."""
    try:
        return TaskResult(work(piece), None)
    except BaseException as problem:
        return TaskResult(None, _portable(problem))


def _portable(problem: BaseException) -> BaseException:
    """What was raised, with where; or that it was, if it does not survive the way home."""
    where = "".join(traceback.format_tb(problem.__traceback__)).rstrip()
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:
        problem = DPTransferError(f"Work on a piece raised {type(problem).__name__}, which cannot be sent.")
    problem.add_note(f"In a worker:\n{where}")
    return problem.with_traceback(None)


def _count(losses: Counter[int], numbers: Sequence[int], what: str, why: str) -> None:
    losses.update(numbers)
    if max(losses.values()) >= ATTEMPTS:
        raise DPTransferError(
            f"Workers must live to finish a {what}; {ATTEMPTS} times one was lost: {why}. "
            "Give each more memory or time: fewer workers, smaller pieces, or a larger machine."
        )


@dataclass(frozen=True)
class Processes:
    """Processes that are started for the work and end with it.

    What they work with, private rows among it, goes to each once, through a pipe, and is in its memory
    alone. They end with this process, however it ends.

    >>> Processes(2)
    Processes(workers=2, patience=None)

    Args:
        workers: how many; default one for every core that this process may use.
        patience: seconds after which workers that give nothing back are taken to hang, and are replaced;
            default twenty times what the slowest piece took, and at least ten minutes.
        give_up: as `map_with_retries` takes it.
    """

    workers: int | None = None
    patience: float | None = None
    give_up: Callable[[Any, str], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", or_none(whole)("workers", self.workers))
        object.__setattr__(self, "patience", or_none(positive)("patience", self.patience))

    @property
    def cores(self) -> int:
        """On how many cores they work."""
        return min(self.workers or len(cores_here()), len(cores_here()))

    def ready(self) -> None:
        """Start one, once, to see that it can be; those who work are started when there is work."""
        _require_start()

    def each(self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str) -> Numbered[Result]:
        """As they come back."""
        count = min(self.workers or len(cores_here()), max(1, len(pieces)))
        with require_packable(work):
            packed = pickle.dumps(work, protocol=5)
        start = partial(_ProcessPool, packed, count)
        return map_with_retries(start, pieces, what, patience=self.patience, give_up=self.give_up)


@cache
def _require_start() -> None:
    trial = _Worker(pickle.dumps(len), cores_here())
    try:
        trial.ask(())
    except WorkerLost as why:
        raise DPTransferError(f"A worker process must start and live; {why}. Do without --engine.") from None
    finally:
        trial.end()


class _ProcessPool:
    """One thread here for every process there, so that none waits for whoever uses the results."""

    def __init__(self, work: bytes, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.window = 2 * count
        self._threads = ThreadPoolExecutor(count, "dptransfer-worker")
        self._workers = [_Worker(work, share) for share in _shares(count)]
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)

    def submit(self, piece: object) -> Future[TaskResult]:
        return self._threads.submit(self._ask, piece)

    def outcome(self, answer: Future[TaskResult]) -> TaskResult:
        return answer.result()

    def require_alive(self) -> None:
        """This machine is; whoever died is replaced."""

    def end(self) -> None:
        for worker in self._workers:
            worker.end()
        self._threads.shutdown(cancel_futures=True)

    def _ask(self, piece: object) -> TaskResult:
        worker = self._free.get()
        try:
            return worker.ask(piece)
        finally:
            self._free.put(worker)


class _Worker:
    """An executor with one process: a crash loses one piece, and the next piece starts a new process."""

    def __init__(self, work: bytes, cores: Sequence[int]) -> None:
        self._work, self._cores = work, cores
        self._pool: ProcessPoolExecutor | None = None
        self._process: BaseProcess
        self._receipt: Future[TaskResult]
        self._ended, self._lock = False, threading.Lock()

    def ask(self, piece: object) -> TaskResult:
        from concurrent.futures.process import BrokenProcessPool

        try:
            pool = self._started()
            problem = self._receipt.result().problem
            return TaskResult(None, problem) if problem else pool.submit(_run_received, piece).result()
        except BrokenProcessPool:
            raise self._cleared_away() from None

    def end(self) -> None:
        with self._lock:
            self._ended, pool, self._pool = True, self._pool, None
        if pool is not None:
            self._process.kill()
            pool.shutdown(cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        with self._lock:
            if self._ended:
                raise WorkerLost("it was ended")
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, _begin_worker, (self._cores,))
                # A task, and no argument of the process, whose start could not be ended while it reads.
                self._receipt = self._pool.submit(_receive_work, self._work)
                [self._process] = self._pool._processes.values()
            return self._pool

    def _cleared_away(self) -> DPTransferError | WorkerLost:
        """What a broken executor means, once it is gone."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is None:
            return WorkerLost("it was ended")
        pool.shutdown()
        code = int(self._process.exitcode or 0)
        if self._receipt.exception() is not None and code > 0:  # below zero somebody killed it
            return DPTransferError(
                "A worker process must start; it ended before its first piece, and its own words are above. "
                'In a script, begin under `if __name__ == "__main__":`.'
            )
        return WorkerLost(f"its process ended with {_exit_words(code)}")


_received: Callable[[Any], object] = len
"""In a worker process: what it does with each piece."""


def _begin_worker(cores: Sequence[int]) -> None:
    """Prepare a worker process.

    Ctrl-C is for whoever started it. It ends at once when that process is gone, since it holds private rows.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    os.environ.update(thread_variables(len(cores)))  # for what is loaded from here on
    from threadpoolctl import threadpool_limits

    threadpool_limits(len(cores))  # for what the main module of a script has loaded already


def _end_with_starter() -> None:
    from multiprocessing import parent_process

    if (starter := parent_process()) is not None:
        starter.join()
        os._exit(1)


def _receive_work(packed: bytes) -> TaskResult:
    global _received
    try:
        _received = pickle.loads(packed)
    except (AttributeError, ImportError) as why:
        problem = ArgumentError(
            f"Work must come from a module that a worker process can import; there: {why}. "
            "Put it into a file, and import it from there."
        )
        return TaskResult(None, problem)
    except Exception as why:
        return TaskResult(None, _portable(why))
    return TaskResult(None, None)


def _run_received(piece: object) -> TaskResult:
    return run_task(_received, piece)


@contextmanager
def require_packable(work: Callable[..., object]) -> Iterator[None]:
    """Say in one error what Python says about work that cannot be packed, inside the block."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise ArgumentError(
            f"Work must be something that can be sent to another process; this {type(work).__name__} cannot "
            "be pickled. Define it in a module, without open files, locks or functions inside of functions."
        ) from problem


def _shares(count: int) -> list[list[int]]:
    """The cores of each worker: an equal share, or one that several share where there are too few."""
    cores = cores_here()
    if count > len(cores):
        return [[cores[place % len(cores)]] for place in range(count)]
    ends = [place * len(cores) // count for place in range(count + 1)]
    return [cores[begin:end] for begin, end in pairwise(ends)]  # neighbours share memory and caches


def _exit_words(code: int) -> str:
    """An exit code, which is below zero for a signal.

    >>> _exit_words(-9)
    'SIGKILL'
    """
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"
