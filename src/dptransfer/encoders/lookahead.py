"""Open and prepare pictures in threads, ahead of the model, and run the model ahead of who takes its rows.

Large JPEGs are decoded in full. Decoding 24 of 3 megapixels, made of real photographs, at twice the size that
is needed (224) took half the time, but moved pixels by up to 10 of 255 (by up to 25 at the size itself), and
rows with them: the cosine to the row of the whole picture went down to 0.9998 (0.998).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptransfer.arrays import EncodedRows
from dptransfer.compute.cores import usable_cores
from dptransfer.data.decode import open_image
from dptransfer.encoders.base import Encoder, ImageEncoder, blank_picture, blanks_for

Batch: TypeAlias = tuple[int, EncodedRows, tuple[int, ...]]
"""A batch's number, its rows, and which of its places were unreadable."""

_AHEAD = 2  # batches in preparation while the model works on one
_FEWEST = 4  # threads that open pictures: they wait for the disk, too


def encoded_batches(
    batches: Sequence[tuple[int, Sequence[Path]]],
    encoder: Encoder,
    size: int,
    opened: Callable[[Path], Any] | None = None,
) -> Generator[Batch, None, None]:
    """For each (index, paths): the index, a row per path, and which places in the batch were unreadable.

    The encoder always sees exactly `size` pictures, unless it sees each alone; blanks fill the gaps, and an
    unreadable picture's row is set to zero. It works on a thread of its own, a batch ahead of whoever takes
    the rows and writes them. Whoever stops before the end closes it: left to the garbage collector, it might
    be closed by one of its own threads, which cannot wait for itself. `opened` opens pictures in place of
    `open_image`.
    """
    in_halves = encoder if isinstance(encoder, ImageEncoder) else None
    prepare: Callable[[Any], Any] = (lambda image: image) if in_halves is None else in_halves.prepare
    # Outside the guard below, so that a broken transform is an error and not a data set of zeros.
    blank = prepare(blank_picture())

    def prepared(path: Path) -> Any:
        try:
            found = open_image(path, encoder.identity.grey_range) if opened is None else opened(path)
            return prepare(found)
        except Exception:  # the blank went through, so it is this file; Pillow's readers raise many types
            return None

    def encoded(index: int, found: list[Any]) -> Batch:
        filled = [blank if item is None else item for item in found]
        filled += [blank] * blanks_for(encoder, len(found), size)
        rows = encoder.encode(filled) if in_halves is None else in_halves.forward(np.stack(filled))
        rows = np.array(rows[: len(found)], dtype=np.float32)
        missing = tuple(place for place, item in enumerate(found) if item is None)
        rows[list(missing)] = 0
        return index, rows, missing

    with (
        ThreadPoolExecutor(max(_FEWEST, usable_cores()), thread_name_prefix="pictures") as pool,
        ThreadPoolExecutor(1, thread_name_prefix="encoder") as model,
    ):
        submitted = ((index, [pool.submit(prepared, path) for path in paths]) for index, paths in batches)
        waiting, running = deque(islice(submitted, _AHEAD)), deque[Future[Batch]]()
        try:
            while waiting or running:
                if waiting:
                    index, futures = waiting.popleft()
                    found = [future.result() for future in futures]
                    running.append(model.submit(encoded, index, found))
                    waiting.extend(islice(submitted, 1))
                if len(running) > 1 or not waiting:
                    yield running.popleft().result()
        finally:
            for threads in (pool, model):
                threads.shutdown(wait=True, cancel_futures=True)
