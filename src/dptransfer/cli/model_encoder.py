"""Images and texts as rows of a released model's own encoder, with what the release changed in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.cli.screen import progress_bar
from dptransfer.encoding import BREAKS_OFF, examples_in, labels_of, refuse_public, unrecognised
from dptransfer.errors import ArgumentError, Incompatible

if TYPE_CHECKING:
    from dptransfer.arrays import EncodedRows
    from dptransfer.data import ImageList, Labelled, ShardedRows, TextList
    from dptransfer.encoders import Encoder
    from dptransfer.release import PrivateClassifier
    from dptransfer.workers import Workers


def encoder_behind(released: PrivateClassifier, spec: str | None, device: str) -> Encoder:
    """The encoder whose rows the model takes; `spec` says where it is where the release does not."""
    from dptransfer.encoders import encoder_of, get_encoder

    delta = released.encoder_delta
    recorded = released.facts.encoder if delta is None else delta.base
    if recorded is not None:
        return encoder_of(recorded, device=device, spec=spec, delta=delta)
    if spec is None:
        raise ArgumentError(
            "Images and texts need the model's encoder; the release names none. Pass --encoder NAME."
        )
    encoder = get_encoder(spec, device=device)
    if encoder.dimension != released.dimension:
        gives = f"'{spec}' gives {encoder.dimension}. Name the one the model was fitted with"
        raise Incompatible(f"The encoder must give rows of dimension {released.dimension}; {gives}.")
    return encoder


def labelled_examples(
    path: Path,
    encoder: Encoder,
    classes: Sequence[str | int],
    *,
    batch: int = 32,
    text_column: str | None = None,
    label_column: str | None = None,
) -> tuple[EncodedRows, Labelled, str]:
    """Rows of labelled test images or texts, which are nobody's secret; their labels; and a name."""
    found = examples_in(path, encoder, classes, text_column=text_column, label_column=label_column)
    labelled = labels_of(found, path, "test examples")
    return encoded_here(found, encoder, batch), labelled, path.name


def encoded_here(found: ImageList | TextList, encoder: Encoder, batch: int) -> EncodedRows:
    """Rows of images or texts that are nobody's secret; those that cannot be read are named in an error."""
    from dptransfer.data import TextList
    from dptransfer.encoders import encode_images_in_memory, encode_texts_in_memory

    if isinstance(found, TextList):
        return encode_texts_in_memory(found.texts, encoder, batch=batch)
    refuse_public(unrecognised(found, encoder.identity.grey_range))
    with progress_bar("Encoding") as step:
        rows, unreadable = encode_images_in_memory(found, encoder, batch=batch, progress=step)
    refuse_public({found.names()[place]: BREAKS_OFF for place in unreadable})
    return rows


@contextmanager
def encoded_in_files(
    found: ImageList | TextList,
    encoder: Encoder,
    out: Path,
    batch: int,
    shard_rows: int | None,
    workers: Workers,
) -> Iterator[ShardedRows]:
    """The same for more of them than memory holds: rows in files of `shard_rows`, until the block is done.

    They are the owner's alone, in `<out>.rows.partial`. After a kill, or an error in the block, they stay,
    and the same call goes on with them.
    """
    from dptransfer.data import ImageList, ShardedRows
    from dptransfer.encoders.shards import encode_in_shards

    if isinstance(found, ImageList):
        refuse_public(unrecognised(found, encoder.identity.grey_range))
    with progress_bar("Encoding") as step:
        made = encode_in_shards(
            out.with_name(f"{out.name}.rows"),
            found,
            encoder,
            batch=batch,
            dtype="float32",
            drop=False,
            public=False,
            restart=False,
            shard_rows=shard_rows,
            workers=workers,
            progress=step,
        )
    if made.unreadable and isinstance(found, ImageList):  # and rows of all but these are of another request
        shutil.rmtree(made.folder, ignore_errors=True)
        refuse_public({found.names()[place]: BREAKS_OFF for place in made.unreadable})
    assert isinstance(made.rows, tuple)
    yield ShardedRows(made.rows)
    shutil.rmtree(made.folder, ignore_errors=True)
