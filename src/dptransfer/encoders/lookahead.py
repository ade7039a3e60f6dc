"""Open and prepare pictures in threads, ahead of the model.

A thread takes a few pictures at a time and puts each at its place in the model's input, whose memory is used
again: who waits for the next input has nothing left to do but to hand it on. The model works on the thread of
who asks: on an H200 a new thread for it added 2.3 s to every encoding, most likely since cuDNN works out for
each thread anew how it computes a network. Threads share one interpreter, and small pictures keep few of them
busy (see `open_image`): of Caltech's, 7 KB each, 4 threads opened and squeezed 2,084 a second, 8 1,817
and 16 1,709, on the 16 cores there. Processes go further; see `prepared_apart`.

Large JPEGs are decoded in full. Decoding 24 of 3 megapixels, made of real photographs, at twice the size that
is needed (224) took half the time, but moved pixels by up to 10 of 255 (by up to 25 at the size itself), and
rows with them: the cosine to the row of the whole picture went down to 0.9998 (0.998).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptransfer.arrays import EncodedRows
from dptransfer.compute.cores import usable_cores
from dptransfer.data.decode import open_image
from dptransfer.encoders.base import Encoder, ImageEncoder, blank_picture, blanks_for
from dptransfer.encoders.prepared_apart import PreparedApart
from dptransfer.errors import DataError

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
) -> Generator[Batch, None, None]:
    """For each (index, paths): the index, a row per path, and which places in the batch were unreadable.

    The encoder always sees exactly `size` pictures, unless it sees each alone; blanks fill the gaps, and an
    unreadable picture's row is set to zero. Whoever stops before the end closes it: left to the garbage
    collector, it might be closed by one of its own threads, which cannot wait for itself. `opened` opens
    pictures in place of `open_image`.
    """
    in_halves = encoder if isinstance(encoder, ImageEncoder) else None

    def prepare(image: Any) -> Any:
        return image if in_halves is None else np.asarray(in_halves.prepare(image))

    # Outside the guard below, so that a broken transform is an error and not a data set of zeros.
    blank = prepare(blank_picture())
    counts = [len(paths) for _, paths in batches]
    apart = None if opened is not None else _processes_for(encoder, blank, sum(counts))
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
        parts = [pool.submit(filled, items, start, paths[start : start + taken]) for start in starts]
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
        ThreadPoolExecutor(threads, thread_name_prefix="pictures") as pool,
        nullcontext() if apart is None else closing(apart),
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
            pool.shutdown(wait=True, cancel_futures=True)


def _processes_for(encoder: Encoder, blank: Any, pictures: int) -> PreparedApart | None:
    """Processes that prepare pictures, where they are worth their start."""
    prepare = getattr(encoder, "prepared_apart", None)
    many = pictures >= _WORTH_PROCESSES and usable_cores() > _FEWEST and os.name == "posix"
    if prepare is None or not many or not np.stack([blank]).flags.c_contiguous:
        return None
    return PreparedApart(prepare, blank, encoder.identity.grey_range)


def _threads_for(batches: Sequence[tuple[int, Sequence[Path]]]) -> int:
    """As many as pictures of these sizes keep busy, and at most one for each core."""
    sizes: list[int] = []
    for _, paths in batches[:: max(1, len(batches) // _SAMPLE)]:
        with suppress(OSError):  # it is not there, or not for us, and will be a row of zeros
            sizes.append(paths[0].stat().st_size)
    return max(_FEWEST, min(usable_cores(), sum(sizes) // (_BYTES * max(1, len(sizes)))))
