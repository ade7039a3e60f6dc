"""Encode images and texts into an `.emb` folder, resumably; each row depends on its own item alone.

Encoding happens before privacy, and the guarantees assume that adding, removing or replacing one example
adds, removes or replaces one row. A frozen model in evaluation mode gives that in real arithmetic. In
floating point a matrix product may be split differently for another batch size, and the last bits of a row
then depend on how many pictures shared its batch: a neighbouring data set would differ in a handful of
rows. In ONNX Runtime on a CPU, the default, every call of the model has one item, and there is no batch (see
`onnx_session`). Elsewhere every call has one fixed shape; the last batch is filled up with blanks, and an
unreadable picture's place is held by a blank.

The second way, measured on an Intel CPU with torch 2.13, batch 32: rows of efficientnet-lite0 (96, 128 and
224 pixels) and of minilm are bit-identical whatever their position in the batch and whatever their
companions; one thread or two made no difference (96 pixels). A batch of one picture differs from a larger one
in the last bits, by up to 1.3e-5, and the fixed shape guards against that. On an H200 a ResNet-50 and a
ViT-B/16 with random weights did as well (a lone picture through the ResNet differs by 1.6e-5). What remains
is an assumption: that the kernels of the machine and library at hand treat the rows of one shape alike.
`rows_depend_on_neighbours` checks it for any encoder on any machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np

from dptransfer.base.progress import tell
from dptransfer.data import EncoderIdentity
from dptransfer.data.atomic_files import claim, remove_draft
from dptransfer.data.emb_folder import MANIFEST, RowMetadata, finish_shards, require_target, write_embeddings
from dptransfer.encoders.encoder import Encoder, Kind
from dptransfer.encoders.in_memory import Progress, require_kind
from dptransfer.encoders.shards import EncodeOptions, encode_in_shards, request_of
from dptransfer.errors import DataError
from dptransfer.sources.decode import problem_of
from dptransfer.sources.listings import ImageList, TextList


@dataclass(frozen=True)
class EncodeReport:
    """What an encoding did; for the owner of the data, for it names files and counts examples.

    Attributes:
        path: the `.emb` folder written.
        examples: rows written.
        resumed: items that an earlier, interrupted run had finished.
        unreadable: files that could not be read; their rows are zeros, or were dropped if so asked.
        seconds: time this run took.
        encoder: what made the rows.
        dimension: numbers in a row.
        classes: the list that labels refer to; None without labels.
        has_people: whether the folder tells whose each row is.
        reason: why the first unreadable file cannot be read, of public images.
    """

    path: Path
    examples: int
    resumed: int
    unreadable: tuple[str, ...]
    seconds: float
    encoder: EncoderIdentity
    dimension: int
    classes: tuple[str | int, ...] | None = None
    has_people: bool = False
    reason: str | None = None


_DEFAULTS = EncodeOptions()


def encode_images(
    images: ImageList,
    encoder: Encoder,
    out: str | Path,
    options: EncodeOptions = _DEFAULTS,
    *,
    progress: Progress | None = None,
) -> EncodeReport:
    """Encode images into an `.emb` folder; run it again after a kill and it goes on where it stopped.

    The result is the same, bit for bit, whether or not it was interrupted. A file that cannot be read
    becomes a row of zeros and is named in the report: refusing a private data set over one file, or leaving
    the file out, would let a release depend on it in a way no mechanism covers.

    Args:
        images: what `find_images` found; labels and people go into `out` with the rows.
        encoder: an image encoder.
        out: the `.emb` folder to write; unfinished work is kept in `<out>.partial` beside it.
        options: batch, shards, workers, element type and the like.
        progress: called with (done, total) after each batch; default whoever listens, see
            `dptransfer.base.progress.show_progress`.
    """
    return _encode(images, encoder, Path(out), options, progress or partial(tell, what=""))


def encode_texts(
    texts: TextList | Sequence[str],
    encoder: Encoder,
    out: str | Path,
    options: EncodeOptions = _DEFAULTS,
    *,
    progress: Progress | None = None,
) -> EncodeReport:
    """Encode texts into an `.emb` folder; resumable, as `encode_images` is, with the same arguments.

    Texts of like length are encoded together, which is faster; the rows keep the order of the texts.
    """
    listed = texts if isinstance(texts, TextList) else TextList(tuple(texts))
    return _encode(listed, encoder, Path(out), options, progress or partial(tell, what=""))


def _encode(
    found: ImageList | TextList, encoder: Encoder, target: Path, options: EncodeOptions, progress: Progress
) -> EncodeReport:
    started = time.monotonic()
    kind: Kind = "image" if isinstance(found, ImageList) else "text"
    require_kind(encoder, kind)
    with claim(target):
        try:
            require_target(target, overwrite=options.overwrite)
        except DataError:
            if not options.overwrite and (target / MANIFEST).is_file():  # a run was killed just then
                remove_draft(target, request_of(found, encoder, options))
            raise
        if len(found) == 0:
            raise DataError(f"There must be at least one {kind} to encode; there is none. Check the source.")
        made = encode_in_shards(target, found, encoder, options, progress)
        kept = np.ones(len(found), dtype=bool)
        if options.drop_unreadable:
            kept[list(made.unreadable)] = False
            if not kept.any():
                raise DataError(
                    "At least one image must be readable; none is. Check the files; those of more than eight "
                    "bits may need a declared grey range."
                )
        sources = found.sources() if isinstance(found, ImageList) else None
        metadata = RowMetadata(
            labels=None if found.labelled is None else found.labelled.of_rows(kept),
            encoder=encoder.identity,
            sources=None if sources is None else list(compress(sources, kept)),
            people=None if found.people is None else found.people[kept],
            name=options.name,
            public=options.public,
            source_digests=found.source_digests[kept],
        )
        overwrite = options.overwrite
        if options.in_shards:
            finish_shards(target, made.files, metadata, overwrite=overwrite)
        else:
            write_embeddings(target, made.rows(), metadata, overwrite=overwrite, dtype=options.dtype)
        if not options.keep_partial:
            remove_draft(target)
    unreadable, reason = tuple(sources[place] for place in made.unreadable) if sources else (), None
    if unreadable and options.public and isinstance(found, ImageList):
        first = found.paths[made.unreadable[0]]
        reason = problem_of(first, encoder.identity.grey_range) or "It breaks off in the middle."
    return EncodeReport(
        target,
        int(kept.sum()),
        made.resumed,
        unreadable,
        time.monotonic() - started,
        encoder.identity,
        encoder.dimension,
        found.classes,
        found.people is not None,
        reason,
    )
