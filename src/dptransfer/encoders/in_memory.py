"""Encode a few images or texts, such as those to predict, without writing anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import EncodedRows
from dptransfer.encoders.encoder import Encoder, Kind, blank_picture, blanks_for
from dptransfer.encoders.preprocess import PreprocessPool, encoded_batches
from dptransfer.errors import ArgumentError
from dptransfer.sources.decode import without_warnings
from dptransfer.sources.images import ImageList

Progress = Callable[[int, int], None]


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
    opened: Callable[[Path], Any] | None = None,
    pool: PreprocessPool | None = None,
) -> EncodedImages:
    """Rows for a few images, such as those to predict; nothing is written.

    The batch is small because it is filled up with blanks, unless the encoder computes each picture alone: a
    single picture costs as much as `batch` of them. `opened` and `pool` are those of `encoded_batches`.
    """
    paths = [Path(path) for path in (images.paths if isinstance(images, ImageList) else images)]
    _require(encoder, "image", batch)
    rows = np.zeros((len(paths), encoder.dimension), dtype=np.float32)
    unreadable: list[int] = []
    pending = [(start, paths[start : start + batch]) for start in range(0, len(paths), batch)]
    with without_warnings(), closing(encoded_batches(pending, encoder, batch, opened, pool)) as batches:
        for start, part, missing in batches:
            rows[start : start + len(part)] = part
            unreadable += [start + place for place in missing]
            if progress is not None:
                progress(start + len(part), len(paths))
    return EncodedImages(rows, tuple(unreadable))


def encode_pixels(
    pixels: Any, encoder: Encoder, *, batch: int = 32, progress: Progress | None = None
) -> EncodedRows:
    """Rows for pictures that are there as bytes, (pictures, height, width, 3), or are indexed like that.

    Calls of the model have one shape, filled up with blanks, as everywhere; nothing is written.
    """
    from PIL import Image

    def opened(number: int) -> Any:
        return Image.fromarray(np.asarray(pixels[number]))

    return encode_pictures(opened, len(pixels), encoder, batch=batch, progress=progress)


def encode_pictures(
    opened: Callable[[int], Any],
    count: int,
    encoder: Encoder,
    *,
    batch: int = 8,
    progress: Progress | None = None,
) -> EncodedRows:
    """Rows for `count` pictures that `opened` gives by number, as PIL images; nothing is written."""
    _require(encoder, "image", batch)
    return _in_batches(opened, count, encoder, batch, progress)


def encode_texts_in_memory(
    texts: Sequence[str], encoder: Encoder, *, batch: int = 8, progress: Progress | None = None
) -> EncodedRows:
    """Rows for a few texts, such as those to predict; nothing is written."""
    _require(encoder, "text", batch)
    return _in_batches(texts.__getitem__, len(texts), encoder, batch, progress)


def _in_batches(
    item: Callable[[int], Any], count: int, encoder: Encoder, batch: int, progress: Progress | None
) -> EncodedRows:
    """Rows of items by number, from calls of exactly `batch`, unless each is computed alone."""
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


def rows_depend_on_neighbours(encoder: Encoder, items: Sequence[Any]) -> bool:
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
        alone: list[Any] = [blank] * len(items)
        alone[-1 - place] = items[place]
        if not np.array_equal(encoder.encode(alone)[-1 - place], straight[place], equal_nan=True):
            return True
    return False


def _require(encoder: Encoder, kind: Kind, batch: int) -> None:
    require_kind(encoder, kind)
    checks.whole("batch", batch)


def require_kind(encoder: Encoder, kind: Kind) -> None:
    """Raise unless the encoder is for images, or for texts, as asked."""
    if encoder.kind != kind:
        raise ArgumentError(
            f"The encoder must be one for {kind}s; '{encoder.identity.name}' is for {encoder.kind}s."
        )
