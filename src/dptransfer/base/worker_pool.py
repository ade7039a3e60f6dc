"""Run tasks on a pool of worker processes; retry those whose worker crashed or timed out."""

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
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dptransfer.base.checks import positive, whole
from dptransfer.base.progress import tell
from dptransfer.base.worker_env import cores_here, thread_variables
from dptransfer.base.workers import Piece, Result
from dptransfer.errors import ArgumentError, DPTransferError

if TYPE_CHECKING:
    from concurrent.futures import Future


ATTEMPTS = 3
"""A piece that is lost so often, while no other is finished, is given up with all the rest."""

_SLOWEST_TIMES, _AT_LEAST = 20.0, 600.0
_LOOK = 5.0  # seconds between two looks at whether anybody is there


class Lost(Exception):
    """A worker is gone before it could answer; its words say what is known of why."""


class Outcome(NamedTuple):
    """What became of a piece: a result, or what was raised."""

    result: Any
    problem: BaseException | None


class Crew(Protocol):
    """Those who work at present."""

    @property
    def window(self) -> int:
        """How many pieces they have at a time."""

    def submit(self, piece: Any) -> Future[Outcome]:
        """Hand a piece to whoever is free."""

    def outcome(self, answer: Future[Outcome]) -> Outcome:
        """What came back; raises `Lost` if nothing did."""

    def require_alive(self) -> None:
        """Raise if there is nobody left who could answer, or replace whoever died."""

    def end(self) -> None:
        """End them at once, in the middle of a piece if need be."""


def handed_out(
    gather: Callable[[], Crew], pieces: Sequence[Any], what: str, *, patience: float | None
) -> Iterator[tuple[int, Any]]:
    """(number, result) of every piece, each once, as they come back.

    A piece whose worker dies is handed out again. If none comes back for too long, somebody hangs: all are
    ended, and others begin with what they had. Each of that is one loss of a piece; three losses of one,
    without another finished in between, end everything, so that work which kills whoever does it does not
    go on forever, and a machine that dies with many pieces is one loss each. A crew that is gone as a whole
    ends everything at once.

    Args:
        gather: begins a crew.
        pieces: what is handed out.
        what: what a piece is called.
        patience: seconds in which one piece must come back; None for twenty times what the slowest has taken
            so far, and at least ten minutes.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    waiting, losses, done, slowest = deque(range(len(pieces))), Counter[int](), 0, 0.0
    running: dict[Future[Outcome], tuple[int, float]] = {}
    if not pieces:
        return
    crew = gather()
    try:
        while waiting or running:
            while waiting and len(running) < crew.window:
                number = waiting.popleft()
                running[crew.submit(pieces[number])] = number, time.monotonic()
            limit = max(_AT_LEAST, _SLOWEST_TIMES * slowest) if patience is None else patience
            answers, until = set[Future[Outcome]](), time.monotonic() + limit
            while not answers and (left := until - time.monotonic()) > 0:
                answers = wait(running, min(left, _LOOK), return_when=FIRST_COMPLETED).done
                crew.require_alive()
            if not answers:
                lost = sorted(number for number, _ in running.values())
                _count(losses, lost, what, f"none came back in {limit:.0f} s")
                running.clear()
                waiting.extendleft(reversed(lost))
                crew.end()
                crew = gather()
            for answer in answers:
                number, began = running.pop(answer)
                try:
                    result, problem = crew.outcome(answer)
                except Lost as why:
                    _count(losses, [number], what, str(why))
                    waiting.appendleft(number)
                    continue
                if problem is not None:
                    raise problem
                losses.clear()
                slowest = max(slowest, time.monotonic() - began)
                yield number, result
                done += 1
                tell(done, len(pieces), what)
    finally:
        crew.end()


def answered(work: Callable[[Piece], Any], piece: Piece) -> Outcome:
    """What work gives for a piece, or raises: it goes home as it is, and no worker prints it."""
    try:
        return Outcome(work(piece), None)
    except BaseException as problem:
        return Outcome(None, sendable(problem))


def sendable(problem: BaseException) -> BaseException:
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
            f"Workers must live to finish a {what}; {ATTEMPTS} times one was lost, and none finished in "
            f"between: {why}. "
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
    """

    workers: int | None = None
    patience: float | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            object.__setattr__(self, "workers", whole("workers", self.workers))
        if self.patience is not None:
            object.__setattr__(self, "patience", positive("patience", self.patience))

    @property
    def cores(self) -> int:
        """On how many cores they work."""
        return min(self.workers or len(cores_here()), len(cores_here()))

    def ready(self) -> None:
        """Start one, once, to see that it can be; those who work are started when there is work."""
        _require_start()

    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str
    ) -> Iterator[tuple[int, Result]]:
        """As they come back."""
        count = min(self.workers or len(cores_here()), max(1, len(pieces)))
        with require_packable(work):
            packed = pickle.dumps(work, protocol=5)
        return handed_out(lambda: _Crew(packed, count), pieces, what, patience=self.patience)


@cache
def _require_start() -> None:
    trial = _Worker(pickle.dumps(len), cores_here())
    try:
        trial.ask(())
    except Lost as why:
        raise DPTransferError(f"A worker process must start and live; {why}. Do without --engine.") from None
    finally:
        trial.end()


class _Crew:
    """One thread here for every process there, so that none waits for whoever uses the results."""

    def __init__(self, work: bytes, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.window = 2 * count
        self._threads = ThreadPoolExecutor(count, "dptransfer-worker")
        self._all = [_Worker(work, share) for share in _shares(count)]
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._all:
            self._free.put(worker)

    def submit(self, piece: Any) -> Future[Outcome]:
        return self._threads.submit(self._ask, piece)

    def outcome(self, answer: Future[Outcome]) -> Outcome:
        return answer.result()

    def require_alive(self) -> None:
        """This machine is; whoever died is replaced."""

    def end(self) -> None:
        for worker in self._all:
            worker.end()
        self._threads.shutdown(cancel_futures=True)

    def _ask(self, piece: Any) -> Outcome:
        worker = self._free.get()
        try:
            return worker.ask(piece)
        finally:
            self._free.put(worker)


class _Worker:
    """One place: a process that is started when there is something to do, and again when it has died."""

    def __init__(self, work: bytes, cores: Sequence[int]) -> None:
        self._work, self._cores = work, cores
        self._process: Any = None
        self._line: Any = None
        self._ended, self._starting = False, threading.Lock()

    def ask(self, piece: Any) -> Outcome:
        try:
            if self._process is None:
                self._start()
            self._line.send(piece)
            return Outcome(*self._line.recv())
        except (EOFError, OSError):
            raise Lost(_in_words(self._found_dead())) from None

    def end(self) -> None:
        with self._starting:
            self._ended = True
            process = self._process
        if process is not None:
            process.kill()
            process.join()

    def _start(self) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        with self._starting:
            if self._ended:
                raise EOFError
            self._line, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._cores), daemon=True)
            process.start()
            self._process = process
            theirs.close()
        try:
            self._line.recv_bytes()  # it is up
        except EOFError:
            code = self._found_dead()
            if code is None or code <= 0:  # somebody ended it
                raise
            raise DPTransferError(
                "A worker process must start; it ended before its first piece, and its own words are above. "
                'In a script, begin under `if __name__ == "__main__":`.'
            ) from None
        self._line.send_bytes(self._work)

    def _found_dead(self) -> int | None:
        """The exit code of a process that is gone, once it is buried; None for one that never was."""
        if self._process is None:
            return None
        self._process.kill()  # one that closed its line and lives on would keep what it knows
        self._process.join()
        code, self._process = self._process.exitcode, None
        self._line.close()
        return code  # type: ignore[no-any-return]  # of a module that is imported late


def _serve(line: Any, cores: Sequence[int]) -> None:
    """What a worker process does: it gets the work once, then answers one piece after the other.

    Ctrl-C is for whoever started it. It ends at once when that process is gone, since it holds private rows.
    """
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    os.environ.update(thread_variables(len(cores)))  # for what is loaded from here on
    from threadpoolctl import threadpool_limits

    threadpool_limits(len(cores))  # for what the main module of a script has loaded already
    with suppress(EOFError, OSError):  # whoever asks is gone, or wants no more
        line.send_bytes(b"")
        work = _unpacked(line.recv_bytes())
        while True:
            _send(line, answered(work, line.recv()))


def _end_with(starter: Any) -> None:
    starter.join()
    os._exit(1)


@contextmanager
def require_packable(work: Callable[..., Any]) -> Iterator[None]:
    """Say in one error what Python says about work that cannot be packed, inside the block."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise ArgumentError(
            f"Work must be something that can be sent to another process; this {type(work).__name__} cannot "
            "be pickled. Define it in a module, without open files, locks or functions inside of functions."
        ) from problem


def _unpacked(work: bytes) -> Callable[..., Any]:
    """The work; or, if it cannot be opened here, something that says so when it is asked."""
    try:
        opened: Callable[..., Any] = pickle.loads(work)
        return opened
    except Exception as problem:
        why = problem

        def refuse(piece: Any) -> None:
            if not isinstance(why, AttributeError | ImportError):
                raise why
            raise ArgumentError(
                f"Work must come from a module that a worker process can import; there: {why}. "
                "Put it into a file, and import it from there."
            )

        return refuse


def _send(line: Any, outcome: Outcome) -> None:
    try:
        packed = pickle.dumps(tuple(outcome), protocol=5)
    except Exception as problem:
        packed = pickle.dumps((None, sendable(problem)), protocol=5)
    line.send_bytes(packed)


def _shares(count: int) -> list[list[int]]:
    """The cores of each worker: an equal share, or one that several share where there are too few."""
    cores = cores_here()
    if count > len(cores):
        return [[cores[place % len(cores)]] for place in range(count)]
    ends = [place * len(cores) // count for place in range(count + 1)]
    return [cores[begin:end] for begin, end in pairwise(ends)]  # neighbours share memory and caches


def _in_words(code: int | None) -> str:
    """What became of a process, by its exit code, which is below zero for a signal.

    >>> _in_words(-9)
    'its process ended with SIGKILL'
    """
    if code is None:
        return "its process could not be started"
    with suppress(ValueError):
        return f"its process ended with {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"
