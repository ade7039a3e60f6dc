"""Open and preprocess images ahead of the model, in threads or processes.

Threads of one process wait for its interpreter: on 16 cores beside an H200 they opened and squeezed 2,000
small pictures a second, whatever their number, where the network took 8,000. Sixteen processes made 8,900.
They took a second to start, so they pay from some thousand pictures on.

What a process does not manage, a damaged picture or one that its Pillow cannot read but ours can, or all of
them after it has died, is left to whoever asked. The pool is made of plain processes and no executor's: those
would run the main module of the user's script again, which need not have a main guard to encode pictures.

A thread takes a few pictures at a time and puts each at its place in the model's input, whose memory is used
again: who waits for the next input has nothing left to do but to hand it on. The model works on the thread of
who asks: on an H200 a new thread for it added 2.3 s to every encoding, most likely since cuDNN works out for
each thread anew how it computes a network. Threads share one interpreter, and small pictures keep few of them
busy (see `open_image`): of Caltech's, 7 KB each, 4 threads opened and squeezed 2,084 a second, 8 1,817
and 16 1,709, on the 16 cores there. Processes go further.

Large JPEGs are decoded in full. Decoding 24 of 3 megapixels, made of real photographs, at twice the size that
is needed (224) took half the time, but moved pixels by up to 10 of 255 (by up to 25 at the size itself), and
rows with them: the cosine to the row of the whole picture went down to 0.9998 (0.998).
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import EncodedRows
from dptransfer.base.worker_env import environment_beside, usable_cores
from dptransfer.data.grey_levels import GreyRange
from dptransfer.encoders.encoder import Encoder, ImageEncoder, blank_picture, blanks_for
from dptransfer.errors import DataError
from dptransfer.sources.decode import open_image, without_warnings
from dptransfer.sources.sandboxed_decode import SECONDS, alarm

_COMMAND = f"from {__name__} import serve; serve(%d)"
_BUFFER = 2**20  # bytes on their way: some pictures of 224 × 224


class PreprocessPool:
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


Batch: TypeAlias = tuple[int, EncodedRows, tuple[int, ...]]
"""A batch's number, its rows, and which of its places were unreadable."""

_Begun: TypeAlias = tuple[int, Any, int, list[Future[list[int]]]]
"""A batch's number, the model's input, how many pictures it gets, and which of each few were unreadable."""

_AHEAD = 2  # batches, at least, in preparation while the model works on one
_FEWEST = 4  # threads that open pictures: they wait for the disk, too
_SAMPLE, _BYTES = 64, 4096  # a thread more for so many bytes of a file, on average over a few
_WORTH_PROCESSES = 5_000  # pictures: threads take 2.5 s for them, processes 0.6 s and 1.1 s to start
_TAKEN = 4  # pictures that a thread takes at a time


def encoded_batches(
    batches: Sequence[tuple[int, Sequence[Path]]],
    encoder: Encoder,
    size: int,
    opened: Callable[[Path], Any] | None = None,
    pool: PreprocessPool | None = None,
) -> Generator[Batch, None, None]:
    """For each (index, paths): the index, a row per path, and which places in the batch were unreadable.

    The encoder always sees exactly `size` pictures, unless it sees each alone; blanks fill the gaps, and an
    unreadable picture's row is set to zero. Whoever stops before the end closes it: left to the garbage
    collector, it might be closed by one of its own threads, which cannot wait for itself.

    Args:
        batches: paths of pictures, by number.
        encoder: what encodes them.
        size: pictures per call of the model.
        opened: opens pictures in place of `open_image`.
        pool: processes that prepare pictures, which the caller closes; by default some of its own, where they
            are worth their start.
    """
    in_halves = encoder if isinstance(encoder, ImageEncoder) else None

    def prepare(image: Any) -> Any:
        return image if in_halves is None else np.asarray(in_halves.prepare(image))

    # Outside the guard below, so that a broken transform is an error and not a data set of zeros.
    blank = prepare(blank_picture())
    counts = [len(paths) for _, paths in batches]
    own = None if pool or opened else preprocess_pool(encoder, sum(counts))
    apart = pool or own
    threads = _threads_for(batches) if apart is None else usable_cores()
    taken = max(1, min(_TAKEN, sum(counts) // threads))
    ahead = max(_AHEAD, -(-2 * threads * taken // size))  # of small batches more, so that no thread is idle
    room = max((count + blanks_for(encoder, count, size) for count in counts), default=0)
    spare = deque[Any]()  # inputs that the model has done with

    def filled(items: Any, start: int, paths: Sequence[Path]) -> list[int]:
        """Put pictures at their places; which of them could not be read."""
        missing = []
        left = range(len(paths)) if apart is None else apart.fill(items[start : start + len(paths)], paths)
        for place, path in ((start + each, paths[each]) for each in left):
            try:
                found = open_image(path, encoder.identity.grey_range) if opened is None else opened(path)
                found = prepare(found)
            except Exception:  # the blank went through, so it is this file; Pillow's readers raise many types
                found = blank
                missing.append(place)
            if in_halves is not None and (found.shape, found.dtype) != (blank.shape, blank.dtype):
                raise DataError(
                    "An encoder must prepare every picture to an array of one shape and type; "
                    f"'{encoder.identity.name}' does not. Squeeze or cut pictures to one size."
                )
            items[place] = found
        return missing

    def begun(index: int, paths: Sequence[Path]) -> _Begun:
        """Let threads fill an input for the model."""
        count = len(paths)
        blanks = [blank] * room
        items = spare.popleft() if spare else blanks if in_halves is None else np.stack(blanks)
        for place in range(count, room):
            items[place] = blank
        starts = range(0, count, taken)
        parts = [openers.submit(filled, items, start, paths[start : start + taken]) for start in starts]
        return index, items, count, parts

    def encoded(index: int, items: Any, count: int, parts: list[Future[list[int]]]) -> Batch:
        missing = tuple(place for part in parts for place in part.result())
        seen = items[: count + blanks_for(encoder, count, size)]
        rows = encoder.encode(seen) if in_halves is None else in_halves.forward(seen)
        rows = np.array(rows[:count], dtype=np.float32)
        rows[list(missing)] = 0
        spare.append(items)
        return index, rows, missing

    with (
        ThreadPoolExecutor(threads, thread_name_prefix="pictures") as openers,
        nullcontext() if own is None else closing(own),
    ):
        waiting = deque[_Begun]()
        try:
            for index, paths in batches:
                waiting.append(begun(index, paths))
                if len(waiting) > ahead:
                    yield encoded(*waiting.popleft())
            while waiting:
                yield encoded(*waiting.popleft())
        finally:
            openers.shutdown(wait=True, cancel_futures=True)


def preprocess_pool(encoder: Encoder, pictures: int) -> PreprocessPool | None:
    """Processes that prepare so many pictures for the encoder, where they are worth their start."""
    prepare = getattr(encoder, "picklable_prepare", None)
    many = pictures >= _WORTH_PROCESSES and usable_cores() > _FEWEST and os.name == "posix"
    if prepare is None or not many:
        return None
    blank = np.asarray(prepare(blank_picture()))
    if not np.stack([blank]).flags.c_contiguous:
        return None
    return PreprocessPool(prepare, blank, encoder.identity.grey_range)


def _threads_for(batches: Sequence[tuple[int, Sequence[Path]]]) -> int:
    """As many as pictures of these sizes keep busy, and at most one for each core."""
    sizes: list[int] = []
    for _, paths in batches[:: max(1, len(batches) // _SAMPLE)]:
        with suppress(OSError):  # it is not there, or not for us, and will be a row of zeros
            sizes.append(paths[0].stat().st_size)
    return max(_FEWEST, min(usable_cores(), sum(sizes) // (_BYTES * max(1, len(sizes)))))
