"""Environment, thread limits, CPU affinity and GPU of worker processes.

Nothing here loads numpy, which reads the number of its threads when it is loaded.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def usable_cores() -> int:
    """Cores this process may use.

    >>> usable_cores() >= 1
    True
    """
    return len(cores_here())


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def thread_variables(count: int) -> dict[str, str]:
    """The variables of a process whose arithmetic uses so many threads, and at least one.

    >>> thread_variables(2)["OMP_NUM_THREADS"]
    '2'
    """
    return dict.fromkeys(_THREADS, str(max(1, count)))


def start_process(module: str, descriptor: int) -> subprocess.Popen[bytes]:
    """Run `serve(descriptor)` of a module in a process that imports what this one can, on one thread.

    It says nothing but through the descriptor: readers written in C print what they think of a file.
    """
    # -P: nothing is imported from the folder that we are in
    line = [sys.executable, "-P", "-c", f"from {module} import serve; serve({descriptor})"]
    silent: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    env = {**os.environ, "PYTHONPATH": _joined(*sys.path), **thread_variables(1)}
    return subprocess.Popen(line, pass_fds=[descriptor], env=env, **silent)


def environment_of_task(*also: Path) -> dict[str, str]:
    """What is added for a task on whatever machine: paths to this package and others, and one thread."""
    own = Path(__file__).parents[2]
    paths = _joined(str(own), *map(str, also), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": paths, **thread_variables(1)}


def cores_here() -> list[int]:
    """Those that this process may use; not every system can tell, and then it is all there are."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def take_gpu() -> None:
    """In a worker process on a machine with several GPUs, let it see one of them alone: 'cuda' is that one.

    Workers are numbered in the order they start, so each gets another GPU as long as there are enough. It
    must be called before anything else in the process asks for a GPU. On a cluster Ray does the same.
    """
    import multiprocessing

    number = multiprocessing.current_process().name.rpartition("-")[2]
    if multiprocessing.parent_process() is None or not number.isdecimal():
        return
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = list(map(str, range(gpu_count()))) if seen is None else seen.split(",")
    if len(there) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = there[int(number) % len(there)]


def gpu_count() -> int:
    """How many NVIDIA GPUs this process may open; asked of the system, as torch takes seconds to load."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


@contextmanager
def own_core() -> Iterator[None]:
    """Keep to one core that no other task of this user has: a cluster counts cores and does not say which.

    A claim is a name among the machine's sockets, which is free again whatever becomes of the process. Where
    all are taken one is shared; where cores cannot be chosen, nothing is done.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = cores_here()
    with socket.socket(socket.AF_UNIX) as claim:
        os.sched_setaffinity(0, {_claimed(claim, allowed)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, allowed)


def _claimed(claim: socket.socket, cores: list[int]) -> int:
    for core in cores:
        try:
            claim.bind(f"\0dptransfer-core-{os.getuid()}-{core}")
        except OSError:
            continue
        return core
    return cores[os.getpid() % len(cores)]


def _joined(*paths: str) -> str:
    return os.pathsep.join(filter(None, paths))
