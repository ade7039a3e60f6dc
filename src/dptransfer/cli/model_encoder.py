"""Labelled and large sets of images and texts as rows of a model's encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.screen import progress_bar
from dptransfer.encoders.encoding import BREAKS_OFF, examples_in, labels_of, refuse_public, unrecognised

if TYPE_CHECKING:
    from dptransfer.base.workers import Workers
    from dptransfer.data import Labelled, PublicEmbeddings, ShardedRows
    from dptransfer.encoders import Encoder
    from dptransfer.sources import ImageList, TextList


def labelled_examples(
    path: Path,
    encoder: Encoder,
    classes: Sequence[str | int],
    *,
    batch: int = 32,
    text_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
) -> tuple[PublicEmbeddings, Labelled, str]:
    """Rows of labelled test images or texts, which are nobody's secret; their labels; and a name."""
    from dptransfer.data import PublicEmbeddings
    from dptransfer.encoders.model_inputs import encoded_here

    columns: dict[str, Any] = {"text_column": text_column, "path_column": path_column}
    columns["label_column"] = label_column
    found = examples_in(path, encoder, classes, **columns)
    labelled = labels_of(found, path, "test examples")
    rows, digests = encoded_here(found, encoder, batch), found.source_digests
    return PublicEmbeddings(rows, encoder=encoder.identity, source_digests=digests), labelled, path.name


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
    from dptransfer.data import ShardedRows
    from dptransfer.data.atomic_files import claim
    from dptransfer.data.resumable import remove_draft
    from dptransfer.encoders.shards import EncodeOptions, encode_in_shards
    from dptransfer.sources import ImageList

    if isinstance(found, ImageList):
        refuse_public(unrecognised(found, encoder.identity.grey_range))
    place = out.with_name(f"{out.name}.rows")
    with claim(place):
        with progress_bar("Encoding") as step:
            options = EncodeOptions(batch=batch, shard_rows=shard_rows, workers=workers)
            made = encode_in_shards(place, found, encoder, options, step)
        if made.unreadable and isinstance(found, ImageList):  # and rows of the others are of another request
            remove_draft(place)
            refuse_public({found.names()[number]: BREAKS_OFF for number in made.unreadable})
        yield ShardedRows(made.files)
        remove_draft(place)
