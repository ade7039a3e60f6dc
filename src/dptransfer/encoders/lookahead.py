"""Open and prepare pictures in threads, ahead of the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptransfer.arrays import EncodedRows
from dptransfer.data.decode import open_image
from dptransfer.encoders.base import Encoder, ImageEncoder, blank_picture

Batch: TypeAlias = tuple[int, EncodedRows, tuple[int, ...]]
"""A batch's number, its rows, and which of its places were unreadable."""

_AHEAD = 2  # batches in preparation while the model works on one
_WORKERS = 4


def encoded_batches(
    batches: Sequence[tuple[int, Sequence[Path]]], encoder: Encoder, size: int
) -> Generator[Batch, None, None]:
    """For each (index, paths): the index, a row per path, and which places in the batch were unreadable.

    The encoder always sees exactly `size` pictures; blanks fill the gaps, and an unreadable picture's row is
    set to zero. Whoever stops before the end closes it: left to the garbage collector, it might be closed by
    one of its own threads, which cannot wait for itself.
    """
    in_halves = encoder if isinstance(encoder, ImageEncoder) else None
    prepare: Callable[[Any], Any] = (lambda image: image) if in_halves is None else in_halves.prepare
    # Outside the guard below, so that a broken transform is an error and not a data set of zeros.
    blank = prepare(blank_picture())

    def prepared(path: Path) -> Any:
        try:
            return prepare(open_image(path, encoder.identity.grey_range))
        except Exception:  # the blank went through, so it is this file; Pillow's readers raise many types
            return None

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="pictures") as pool:
        submitted = ((index, [pool.submit(prepared, path) for path in paths]) for index, paths in batches)
        waiting = deque(islice(submitted, _AHEAD))
        try:
            while waiting:
                index, futures = waiting.popleft()
                found = [future.result() for future in futures]
                waiting.extend(islice(submitted, 1))
                filled = [blank if item is None else item for item in found] + [blank] * (size - len(found))
                rows = encoder.encode(filled) if in_halves is None else in_halves.forward(np.stack(filled))
                rows = np.array(rows[: len(found)], dtype=np.float32)
                missing = tuple(place for place, item in enumerate(found) if item is None)
                rows[list(missing)] = 0
                yield index, rows, missing
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
