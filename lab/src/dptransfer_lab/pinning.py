"""Threads and cores of a cell, so that cells side by side do not get into each other's way.

Nothing here loads numpy: what a worker does first must come before that.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dptransfer.base.worker_env import cores_here, thread_variables

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def share_of_cores(place: int, workers: int) -> list[int]:
    """The cores of one worker: an equal share, or one core that several share where there are too few."""
    cores = cores_here()
    each = len(cores) // workers
    return cores[place * each : (place + 1) * each] if each else [cores[place % len(cores)]]


def begin_worker(cores: Sequence[int], lifeline: Connection) -> None:
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
