"""Prepare pictures in processes beside this one, each with an interpreter of its own, for a model on a GPU.

Threads of one process wait for its interpreter: on 16 cores beside an H200 they opened and squeezed 2,000
small pictures a second, whatever their number, where the network took 8,000. Sixteen processes made 8,900.
They took a second to start, so they pay from some thousand pictures on.

What a process does not manage, a damaged picture or one that its Pillow cannot read but ours can, or all of
them after it has died, is left to whoever asked.
"""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.compute.cores import usable_cores
from dptransfer.data.decode import open_image, without_warnings
from dptransfer.data.grey_levels import GreyRange
from dptransfer.data.opened_apart import SECONDS, alarm
from dptransfer.workers.surroundings import environment_beside

_COMMAND = f"from {__name__} import serve; serve(%d)"
_BUFFER = 2**20  # bytes on their way: some pictures of 224 × 224


class PreparedApart:
    """Processes that open and prepare pictures; close it at the end.

    Args:
        prepare: from a picture to an array; it is pickled, and where it cannot be, nothing is prepared.
        like: an array as all of them are.
        grey_range: as `open_image` takes it.
        processes: how many; by default one for each core.
    """

    def __init__(
        self,
        prepare: Callable[[Any], NDArray[Any]],
        like: NDArray[Any],
        grey_range: GreyRange | None = None,
        *,
        processes: int | None = None,
    ) -> None:
        self._free = deque[socket.socket]()
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            told = pickle.dumps((prepare, like.shape, like.dtype, grey_range))
        except Exception:  # what cannot be pickled says so by many types
            return
        with suppress(OSError):  # the machine lets us have no more
            for _ in range(processes or usable_cores()):
                self._start(told)

    def fill(self, places: NDArray[Any], paths: Sequence[Path]) -> list[int]:
        """Put pictures at their places, a contiguous array; which of them are left. From whatever threads."""
        every = list(range(len(paths)))
        try:
            ours = self._free.popleft()
        except IndexError:
            return every
        done = bytearray(len(paths))
        try:
            ours.sendall(pickle.dumps(list(paths)))
            for target in (memoryview(done), places.data.cast("B")):
                while target:
                    got = ours.recv_into(target, 0, socket.MSG_WAITALL)
                    if not got:
                        raise EOFError
                    target = target[got:]
        except (EOFError, OSError):  # it died
            ours.close()
            return every
        self._free.append(ours)
        return [place for place in every if not done[place]]

    def close(self) -> None:
        """End the processes."""
        for child in self._children:
            child.kill()
            child.wait()
        while self._free:
            self._free.popleft().close()

    def _start(self, told: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            for one, which in ((ours, socket.SO_RCVBUF), (theirs, socket.SO_SNDBUF)):
                one.setsockopt(socket.SOL_SOCKET, which, _BUFFER)
            self._children.append(
                subprocess.Popen(
                    # -P: nothing is imported from the folder that we are in
                    [sys.executable, "-P", "-c", _COMMAND % theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # readers written in C say there what they think of a file
                    pass_fds=[theirs.fileno()],
                    env=environment_beside(),
                )
            )
        ours.sendall(told)
        self._free.append(ours)


def serve(descriptor: int) -> None:
    """Answer lists of paths with a byte for each that says whether it went well, and their arrays."""
    with (
        socket.socket(fileno=descriptor) as theirs,
        theirs.makefile("rb") as questions,
        without_warnings(),
    ):
        prepare, shape, dtype, grey_range = pickle.load(questions)
        while True:
            try:
                paths = pickle.load(questions)
            except EOFError:  # nobody asks any more
                return
            done, arrays = bytearray(len(paths)), np.zeros((len(paths), *shape), dtype)
            for place, path in enumerate(paths):
                alarm(2 * SECONDS)  # one that hangs must not keep a picture here when whoever asked is gone
                try:
                    found = prepare(open_image(path, grey_range))
                except Exception:  # it is tried again by whoever asked
                    continue
                if (found.shape, found.dtype) == (shape, dtype):
                    arrays[place], done[place] = found, 1
            alarm(0)
            theirs.sendall(done)
            theirs.sendall(arrays.data)
