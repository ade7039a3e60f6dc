"""Turn what a model is asked about into rows of its encoder: paths, pictures, texts, tables and arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dptransfer.base.progress import progress_bar
from dptransfer.base.types import AnyArray, EncodedRows, Picture
from dptransfer.data.facts import EncoderIdentity, Facts, require_same_columns, require_same_encoder
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.tables import USUAL_COLUMNS, Columns, RawTable
from dptransfer.encoders import encoding, in_memory, shards
from dptransfer.encoders.encoder import Encoder, EncoderDelta
from dptransfer.encoders.registry import encoder_of, get_encoder
from dptransfer.errors import DataError, Incompatible
from dptransfer.exact.cuda import on_cuda
from dptransfer.sources.decode import open_image, picture_of, without_warnings
from dptransfer.sources.listings import ImageList, TextList, find_images
from dptransfer.sources.pictures import pixels_of
from dptransfer.sources.readers import contents_of, read_table

_BATCH = 8


class InputModel(Protocol):
    """What is asked of a classifier to make rows for it."""

    @property
    def facts(self) -> Facts:
        """What was declared of the examples that it was fitted on."""

    @property
    def dimension(self) -> int:
        """Width of the rows that it takes."""

    @property
    def encoder(self) -> EncoderIdentity | None:
        """The encoder whose rows it takes, if on record."""

    @property
    def encoder_delta(self) -> EncoderDelta | None:
        """What it changed in that encoder, if anything."""


def rows_for(model: InputModel, x: Any, device: str) -> Any:
    """The rows of what a model is to predict, as `PrivateClassifier.scores` describes it.

    Args:
        model: whose rows they are to be.
        x: what was given.
        device: where to encode.

    Raises:
        DataError: it cannot be read, or needs an encoder, and the model names none that can be found.
    """
    if isinstance(x, str | Path):
        return _at_path(model, Path(x), device)
    if _is_picture(x):
        x = [x]
    if items := in_memory.items_of(x):
        texts = [one for one in items if isinstance(one, str)]
        if len(texts) == len(items):
            encoder = encoder_behind(model, None, device)
            if encoder.kind != "text":
                rule = "A list of words is a list of texts; this model takes images."
                raise DataError(f"{rule} Pass files as paths: [Path(one) for one in files].")
            return in_memory.encode_texts_in_memory(texts, encoder, batch=_BATCH)
        if all(_is_picture(one) or isinstance(one, Path) for one in items):
            return _of_pictures(model, items, device)
    rows: Any = x if on_cuda(x) or isinstance(x, ShardedRows) else np.asarray(x)
    kind = np.asarray(x[:0].cpu()).dtype if on_cuda(x) else rows.dtype
    if not np.issubdtype(kind, np.number) or np.issubdtype(kind, np.complexfloating):
        rule = f"Rows must hold real numbers; got the type {kind}. Convert them, say to float32."
        raise DataError(f"{rule} Give pictures as paths, contents, PIL images or uint8, and texts as a list.")
    if rows.ndim == 4 or (rows.ndim == 3 and kind == np.uint8):
        encoder = encoder_behind(model, None, device)
        pixels = pixels_of(rows.cpu().numpy() if on_cuda(rows) else rows, None, private=False)
        return in_memory.encode_pixels(pixels, encoder)
    return rows


def table_for(model: InputModel, path: Path, columns: Columns = USUAL_COLUMNS) -> RawTable:
    """Rows of numbers at a path, if they are such as the model takes.

    Args:
        model: the model.
        path: a file or folder of rows.
        columns: those of a table; without features, those that the model was fitted on.
    """
    known = model.facts.columns
    table = read_table(path, replace(columns, features=columns.features or known))
    require_same_encoder(model.encoder, table.encoder, names=("The model", f"'{path}'"))
    require_same_columns(known, table.columns, names=("The model", f"'{path}'"))
    if table.rows.shape[1] != model.dimension:
        found = f"those in '{path}' have {table.rows.shape[1]}"
        remedy = "Encode them with the model's encoder"
        if model.encoder is None and path.suffix.lower() in (".csv", ".parquet"):
            remedy = "Name the columns that it was fitted on, such as --feature-columns 'f*'"
        raise Incompatible(f"Rows must have the model's dimension, {model.dimension}; {found}. {remedy}.")
    return table


def encoder_behind(model: InputModel, spec: str | None, device: str) -> Encoder:
    """The encoder whose rows the model takes; `spec` says where it is where the release does not."""
    recorded = model.facts.encoder if model.encoder_delta is None else model.encoder_delta.base
    if recorded is not None:
        return _load(recorded, model.encoder_delta, device, spec)
    if spec is None:
        rule = "Images and texts need the model's encoder; the release names none."
        raise DataError(f"{rule} Pass --encoder NAME, or rows encoded as those that it was fitted on.")
    encoder = get_encoder(spec, device=device)
    if encoder.dimension != model.dimension:
        gives = f"'{spec}' gives {encoder.dimension}. Name the one the model was fitted with"
        raise Incompatible(f"The encoder must give rows of dimension {model.dimension}; {gives}.")
    return encoder


def encoded_here(found: ImageList | TextList, encoder: Encoder, batch: int) -> EncodedRows:
    """Rows of images or texts that are nobody's secret; those that cannot be read are named in an error."""
    if isinstance(found, TextList):
        return in_memory.encode_texts_in_memory(found.texts, encoder, batch=batch)
    encoding.refuse_public(encoding.unrecognised_images(found, encoder.identity.grey_range))
    with progress_bar("Encoding") as step:
        rows, unreadable = in_memory.encode_images_in_memory(found, encoder, batch=batch, progress=step)
    encoding.refuse_public({found.names()[place]: shards.BREAKS_OFF for place in unreadable})
    return rows


def _at_path(model: InputModel, path: Path, device: str) -> AnyArray | ShardedRows:
    there = False
    with suppress(OSError):  # a text may be too long for a name
        there = encoding.held_in(path).exists()
    if not there:
        shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}…"
        rule = f"'{shown}': the file or folder must exist; it does not. Check the path."
        raise DataError(f"{rule} Texts are given as a list, even one alone: [text].")
    if contents_of(path) == "rows":
        return table_for(model, path).rows
    encoder = encoder_behind(model, None, device)
    return encoded_here(encoding.examples_in(path, encoder, labelled=False), encoder, _BATCH)


def _of_pictures(model: InputModel, pictures: Sequence[object], device: str) -> EncodedRows:
    """Files as such where all are files, so that those that cannot be read are named; others by number."""
    encoder = encoder_behind(model, None, device)
    paths = [one for one in pictures if isinstance(one, Path)]
    if len(paths) == len(pictures):
        return encoded_here(find_images(paths), encoder, _BATCH)
    greys = encoder.identity.grey_range

    def opened(number: int) -> Picture:
        one = pictures[number]
        try:
            return open_image(one, greys) if isinstance(one, Path) else picture_of(one, greys)
        except DataError:
            raise
        except Exception as problem:  # readers raise many types on damaged files
            rule = f"Images must be readable; number {number} (from 0) is not ({type(problem).__name__})."
            raise DataError(f"{rule} Repair it, or leave it out.") from None

    with without_warnings():
        return in_memory.encode_pictures(opened, len(pictures), encoder, batch=_BATCH)


@lru_cache(maxsize=1)  # for a caller with a picture at a time; a second network would only take room
def _load(recorded: EncoderIdentity, delta: EncoderDelta | None, device: str, spec: str | None) -> Encoder:
    return encoder_of(recorded, device=device, delta=delta, spec=spec)


def _is_picture(x: object) -> bool:
    """Whether this is a picture by itself: the content of a file, a PIL image, or bytes in an array."""
    if isinstance(x, np.ndarray):
        return x.dtype == np.uint8 and x.ndim == 3 and x.shape[2] == 3 and x.size > 0
    pillow = sys.modules.get("PIL.Image")  # who has such an image has imported it
    is_open = pillow is not None and isinstance(x, pillow.Image)
    return is_open or isinstance(x, bytes | bytearray | memoryview)
