"""Threads and cores of a cell, so that cells side by side do not get into each other's way.

Nothing here loads numpy: what a worker does first must come before that.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def thread_variables(count: int) -> dict[str, str]:
    """Environment of a process whose arithmetic uses so many threads; it is read when numpy is loaded.

    >>> thread_variables(2)["OMP_NUM_THREADS"]
    '2'
    """
    return dict.fromkeys(_THREADS, str(max(1, count)))


def share_of_cores(place: int, workers: int) -> list[int]:
    """The cores of one worker: an equal share, or one core that several share where there are too few."""
    cores = (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )
    each = len(cores) // workers
    return cores[place * each : (place + 1) * each] if each else [cores[place % len(cores)]]


def begin_worker(cores: Sequence[int], lifeline: Any) -> None:
    """What a worker process does first.

    It keeps to its cores, with as many threads of arithmetic, and does not hear Ctrl-C, which is for the
    sweep. It ends at once, in the middle of a cell if need be, when the sweep lets go of the lifeline or is
    gone: nobody would write the result down.

    Args:
        cores: those it may use.
        lifeline: the receiving end of a pipe on which nothing is ever sent.
    """
    from threadpoolctl import threadpool_limits

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    os.environ.update(thread_variables(len(cores)))  # for what is loaded from here on
    threadpool_limits(len(cores))  # for what the main module of a script has loaded already
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def own_core() -> Iterator[None]:
    """Keep this thread, and those it starts, on one core that no other cell of this user's has.

    For cells that somebody else places on machines, who does not say on which cores. A claim is a lock on a
    file in the machine's temporary folder, which the system gives back whatever becomes of the process. Where
    all cores are taken one is shared; where cores cannot be chosen, nothing is done.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    known = os.sched_getaffinity(0)
    core, claim = _claimed(sorted(known))
    try:
        os.sched_setaffinity(0, {core})
        yield
    finally:
        os.sched_setaffinity(0, known)
        if claim is not None:
            os.close(claim)


def _claimed(cores: Sequence[int]) -> tuple[int, int | None]:
    """A core, and the open file that holds it."""
    import fcntl

    folder = Path(tempfile.gettempdir()) / f"dptransfer-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for core in cores:
        claim = os.open(folder / str(core), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(claim)
        else:
            return core, claim
    return cores[os.getpid() % len(cores)], None
