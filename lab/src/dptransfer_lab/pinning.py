"""Threads and cores of a cell, so that cells side by side do not get into each other's way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def thread_variables(count: int) -> dict[str, str]:
    """Environment of a process whose arithmetic uses so many threads; it is read when numpy is loaded.

    >>> thread_variables(2)["OMP_NUM_THREADS"]
    '2'
    """
    return dict.fromkeys(_THREADS, str(max(1, count)))


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
