"""Encode images and texts in memory; pictures are opened and prepared ahead of the model.

Threads of one process wait for its interpreter: on 16 cores beside an H200 they opened and resized 2,000
small pictures a second, whatever their number, where the network took 8,000. Sixteen processes made 8,900.
They took a second to start, so they pay from some thousand pictures on.

What a process does not manage, a damaged picture or one that its Pillow cannot read but ours can, or all of
them after it has died, is left to whoever asked. The pool is made of plain processes and no executor's: those
would run the main module of the user's script again, which need not have a main guard to encode pictures.

A thread takes a few pictures at a time and puts each at its place in the model's input, whose memory is used
again: who waits for the next input has nothing left to do but to hand it on. The model works on the thread of
who asks: on an H200 a new thread for it added 2.3 s to every encoding, most likely since cuDNN works out for
each thread anew how it computes a network. Threads share one interpreter, and small pictures keep few of them
busy (see `open_image`): of Caltech's, 7 KB each, 4 threads opened and resized 2,084 a second, 8 1,817
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
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, EncodedRows, Picture, PixelArray
from dptransfer.base.worker_env import start_process, usable_cores
from dptransfer.data.grey_levels import GreyRange
from dptransfer.encoders.encoder import Encoder, ImageEncoder, Kind, blank_picture, blanks_for
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.chunks import SelectedRows
from dptransfer.sources.decode import SECONDS, alarm, open_image, without_warnings
from dptransfer.sources.listings import ImageList
from dptransfer.sources.pictures import DecodedFiles

OpenPicture: TypeAlias = Callable[[Path], Picture]
Progress = Callable[[int, int], None]


def items_of(x: object) -> list[object]:
    """The entries of a list, a tuple, a column of pandas or an array of words; nothing for all else."""
    if isinstance(x, np.ndarray):
        return x.tolist() if x.dtype.kind in "UO" and x.ndim == 1 else []
    if isinstance(x, Sequence):
        return list(x)
    return list(x.to_list()) if hasattr(x, "to_list") else []


class EncodedImages(NamedTuple):
    """Rows, and the positions of the images that could not be read (their rows are zeros)."""

    rows: EncodedRows
    unreadable: tuple[int, ...]


def encode_images_in_memory(
    images: ImageList | Sequence[str | Path],
    encoder: Encoder,
    *,
    batch: int = 8,
    progress: Progress | None = None,
    opened: OpenPicture | None = None,
    pool: PreprocessPool | None = None,
) -> EncodedImages:
    """Rows for a few images, such as those to predict; nothing is written.

    The batch is small because it is filled up with blanks, unless the encoder computes each picture alone: a
    single picture costs as much as `batch` of them. `opened` and `pool` are those of `encoded_batches`.
    """
    paths = [Path(path) for path in (images.paths if isinstance(images, ImageList) else images)]
    require_kind(encoder, "image")
    checks.whole("batch", batch)
    rows = np.zeros((len(paths), encoder.dimension), dtype=np.float32)
    unreadable: list[int] = []
    with without_warnings(), closing(encoded_batches(paths, encoder, batch, opened, pool)) as batches:
        for start, part, missing in batches:
            rows[start : start + len(part)] = part
            unreadable += [start + place for place in missing]
            if progress is not None:
                progress(start + len(part), len(paths))
    return EncodedImages(rows, tuple(unreadable))


def encode_pixels(
    pixels: PixelArray | DecodedFiles | SelectedRows,
    encoder: Encoder,
    *,
    batch: int = 32,
    progress: Progress | None = None,
) -> EncodedRows:
    """Rows for pictures that are there as bytes, (pictures, height, width, 3), or are indexed like that.

    Calls of the model have one shape, filled up with blanks, as everywhere; nothing is written.
    """
    from PIL import Image

    def opened(number: int) -> Picture:
        return Image.fromarray(np.asarray(pixels[number]))

    return encode_pictures(opened, len(pixels), encoder, batch=batch, progress=progress)


def encode_pictures(
    opened: Callable[[int], Picture],
    count: int,
    encoder: Encoder,
    *,
    batch: int = 8,
    progress: Progress | None = None,
) -> EncodedRows:
    """Rows for `count` pictures that `opened` gives by number, as PIL images; nothing is written."""
    require_kind(encoder, "image")
    return _in_batches(opened, count, encoder, batch, progress)


def encode_texts_in_memory(
    texts: Sequence[str], encoder: Encoder, *, batch: int = 8, progress: Progress | None = None
) -> EncodedRows:
    """Rows for a few texts, such as those to predict; nothing is written."""
    require_kind(encoder, "text")
    return _in_batches(texts.__getitem__, len(texts), encoder, batch, progress)


def _in_batches(
    item: Callable[[int], object], count: int, encoder: Encoder, batch: int, progress: Progress | None
) -> EncodedRows:
    """Rows of items by number, from calls of exactly `batch`, unless each is computed alone."""
    checks.whole("batch", batch)
    blank = blank_picture() if encoder.kind == "image" else ""
    rows = np.zeros((count, encoder.dimension), dtype=np.float32)
    for start in range(0, count, batch):
        stop = min(start + batch, count)
        items = [item(number) for number in range(start, stop)]
        blanks = [blank] * blanks_for(encoder, stop - start, batch)
        rows[start:stop] = encoder.encode([*items, *blanks])[: stop - start]
        if progress is not None:
            progress(stop, count)
    return rows


def rows_depend_on_neighbours(encoder: Encoder, items: Sequence[object]) -> bool:
    """Whether some item's row changes, in any bit, with its place or its companions in a batch of this size.

    Each item is encoded at several places among the other items, and alone among blanks. False is what the
    guarantees need; True means that the encoder, on this machine, mixes examples.
    """
    blank = blank_picture() if encoder.kind == "image" else ""
    straight = encoder.encode(items)
    for turn in {1, len(items) // 2, len(items) - 1} - {0}:
        turned = encoder.encode([*items[turn:], *items[:turn]])
        if not np.array_equal(np.roll(turned, turn, axis=0), straight, equal_nan=True):
            return True
    for place in {0, len(items) - 1}:
        alone: list[object] = [blank] * len(items)
        alone[-1 - place] = items[place]
        if not np.array_equal(encoder.encode(alone)[-1 - place], straight[place], equal_nan=True):
            return True
    return False


def require_kind(encoder: Encoder, kind: Kind) -> None:
    """Raise unless the encoder is for images, or for texts, as asked."""
    if encoder.kind != kind:
        name, other = encoder.identity.name, encoder.kind
        raise ArgumentError(f"The encoder must be one for {kind}s; '{name}' is for {other}s.")


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
        prepare: Callable[[Picture], AnyArray],
        like: AnyArray,
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

    def fill(self, places: AnyArray, paths: Sequence[Path]) -> list[int]:
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
            self._children.append(start_process(__name__, theirs.fileno()))
        ours.sendall(told)
        self._free.append(ours)


def serve(descriptor: int) -> None:
    """Answer lists of paths with a byte for each that says whether it went well, and their arrays."""
    with socket.socket(fileno=descriptor) as theirs, theirs.makefile("rb") as questions, without_warnings():
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
"""The number of a batch's first picture, its rows, and which of its places were unreadable."""

_Input: TypeAlias = Any
"""The model's input: an array of prepared pictures, or a list of pictures for encoders that prepare them."""

_AHEAD = 2  # batches, at least, in preparation while the model works on one
_FEWEST = 4  # threads that open pictures: they wait for the disk, too
_SAMPLE, _BYTES = 64, 4096  # a thread more for so many bytes of a file, on average over a few
_WORTH_PROCESSES = 5_000  # pictures: threads take 2.5 s for them, processes 0.6 s and 1.1 s to start
_TAKEN = 4  # pictures that a thread takes at a time


def encoded_batches(
    paths: Sequence[Path],
    encoder: Encoder,
    size: int,
    opened: OpenPicture | None = None,
    pool: PreprocessPool | None = None,
) -> Generator[Batch, None, None]:
    """For each `size` pictures, in order: a row for each of them, and which of them were unreadable.

    The encoder always sees exactly `size` pictures, unless it sees each alone; blanks fill the gaps, and an
    unreadable picture's row is set to zero. Whoever stops before the end closes it: left to the garbage
    collector, it might be closed by one of its own threads, which cannot wait for itself.

    Args:
        paths: the pictures.
        encoder: what encodes them.
        size: pictures per call of the model.
        opened: opens pictures in place of `open_image`.
        pool: processes that prepare pictures, which the caller closes; by default some of its own, where they
            are worth their start.
    """
    in_halves = encoder if isinstance(encoder, ImageEncoder) else None

    def prepare(image: Picture) -> _Input:
        return image if in_halves is None else np.asarray(in_halves.prepare(image))

    # Outside the guard below, so that a broken transform is an error and not a data set of zeros.
    blank = prepare(blank_picture())
    first = min(size, len(paths))
    room = first + blanks_for(encoder, first, size)
    spare = deque[_Input]()  # inputs that the model has done with

    def fill(items: _Input, start: int, some: Sequence[Path]) -> list[int]:
        """Put pictures at their places; which of these could not be read."""
        missing = []
        left = range(len(some)) if apart is None else apart.fill(items[start : start + len(some)], some)
        for place, path in ((start + each, some[each]) for each in left):
            try:
                image = open_image(path, encoder.identity.grey_range) if opened is None else opened(path)
                found = prepare(image)
            except Exception:  # the blank went through, so it is this file; Pillow's readers raise many types
                found = blank
                missing.append(place)
            if in_halves is not None and (found.shape, found.dtype) != (blank.shape, blank.dtype):
                name = encoder.identity.name
                rule = f"An encoder must prepare every picture to one shape and type; '{name}' does not."
                raise DataError(f"{rule} Resize or crop pictures to one size.")
            items[place] = found
        return missing

    def begin(start: int) -> tuple[int, int, _Input, list[Future[list[int]]]]:
        """Let threads fill an input for the model."""
        some, blanks = paths[start : start + size], [blank] * room
        items = spare.popleft() if spare else blanks if in_halves is None else np.stack(blanks)
        for place in range(len(some), room):
            items[place] = blank
        places = range(0, len(some), taken)
        parts = [openers.submit(fill, items, place, some[place : place + taken]) for place in places]
        return start, len(some), items, parts

    def encode(start: int, count: int, items: _Input, parts: list[Future[list[int]]]) -> Batch:
        missing = tuple(place for part in parts for place in part.result())
        seen = items[: count + blanks_for(encoder, count, size)]
        rows = encoder.encode(seen) if in_halves is None else in_halves.forward(seen)
        rows = np.array(rows[:count], dtype=np.float32)
        rows[list(missing)] = 0
        spare.append(items)
        return start, rows, missing

    own = preprocess_pool(encoder, len(paths)) if pool is None and opened is None else nullcontext(pool)
    with own as apart:
        threads = _threads_for(paths) if apart is None else usable_cores()
        taken = max(1, min(_TAKEN, len(paths) // threads))
        ahead = max(_AHEAD, -(-2 * threads * taken // size))  # of small batches more: no thread is idle
        with ThreadPoolExecutor(threads, thread_name_prefix="pictures") as openers:
            waiting = deque[tuple[int, int, _Input, list[Future[list[int]]]]]()
            try:
                for start in range(0, len(paths), size):
                    waiting.append(begin(start))
                    if len(waiting) > ahead:
                        yield encode(*waiting.popleft())
                while waiting:
                    yield encode(*waiting.popleft())
            finally:
                openers.shutdown(wait=True, cancel_futures=True)


@contextmanager
def preprocess_pool(encoder: Encoder, pictures: int) -> Iterator[PreprocessPool | None]:
    """Processes that prepare so many pictures for the encoder, where they are worth their start."""
    prepare = getattr(encoder, "picklable_prepare", None)
    many = pictures >= _WORTH_PROCESSES and usable_cores() > _FEWEST and os.name == "posix"
    if prepare is None or not many:
        yield None
        return
    blank = np.asarray(prepare(blank_picture()))
    if not np.stack([blank]).flags.c_contiguous:
        yield None
        return
    with closing(PreprocessPool(prepare, blank, encoder.identity.grey_range)) as pool:
        yield pool


def _threads_for(paths: Sequence[Path]) -> int:
    """As many as pictures of these sizes keep busy, and at most one for each core."""
    sizes: list[int] = []
    for path in paths[:: max(1, len(paths) // _SAMPLE)]:
        with suppress(OSError):  # it is not there, or not for us, and will be a row of zeros
            sizes.append(path.stat().st_size)
    return max(_FEWEST, min(usable_cores(), sum(sizes) // (_BYTES * max(1, len(sizes)))))
