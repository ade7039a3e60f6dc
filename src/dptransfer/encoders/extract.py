"""Encode images and texts in batches, resumably; each row depends on its own item alone.

<out>.partial/job.json        what is being encoded: a digest of the items, the encoder and the batch size
    <out>.partial/rows.bin        finished batches, each at its own place
    <out>.partial/journal.jsonl   one line per finished batch, with a checksum of its rows

A batch's rows reach the disk before its line is written, so a line never promises rows that are not there.
The folder is the owner's alone, as the rows may be private.

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

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base import checks
from dptransfer.base.arrays import EncodedRows, Floats32
from dptransfer.base.progress import tell
from dptransfer.base.workers import Workers
from dptransfer.data.atomic_files import claim, owner_only, write_synced
from dptransfer.data.labels import Labelled
from dptransfer.data.resumable import draft_folder, kept_on_disk, remove_draft
from dptransfer.data.store import RowType, finish_shards, require_target, write_embeddings
from dptransfer.data.store_rows import MANIFEST
from dptransfer.encoders.base import Encoder, Kind
from dptransfer.encoders.in_memory import Progress, encode_filled, require_kind
from dptransfer.encoders.preprocess import Batch, encoded_batches
from dptransfer.encoders.shards import Encoded, encode_in_shards, request_of, request_of_shards
from dptransfer.errors import DataError
from dptransfer.sources.decode import without_warnings
from dptransfer.sources.images import ImageList
from dptransfer.sources.texts import TextList


class PartialRows:
    """Rows of a run in progress.

    Args:
        out: the `.emb` folder the run will write.
        job: what determines the rows, JSON-ready; a rerun continues only the same job.
        count: number of rows in all.
        dimension: width of a row.
        batch: rows per batch.
        restart: throw away another job's leftovers instead of refusing.
    """

    def __init__(
        self, out: Path, job: dict[str, Any], *, count: int, dimension: int, batch: int, restart: bool
    ) -> None:
        self.count, self._dimension, self.batch = count, dimension, batch
        self.finished: dict[int, tuple[int, ...]] = {}
        self.folder, _ = draft_folder(out, job, restart=restart)
        with kept_on_disk(self.folder):
            (self.folder / "rows.bin").touch(mode=0o600)
            (self.folder / "journal.jsonl").touch(mode=0o600)
            self._recover()

    def add(self, index: int, rows: EncodedRows, unreadable: tuple[int, ...]) -> None:
        """Put a finished batch on the disk; `unreadable` are positions within the whole list."""
        data = np.ascontiguousarray(rows, dtype="<f4").tobytes()
        entry = {"batch": index, "rows": hashlib.sha256(data).hexdigest(), "unreadable": list(unreadable)}
        with kept_on_disk(self.folder):
            # Plain writes, not a memory map: on a full disk a write raises, a store into a map kills.
            with (self.folder / "rows.bin").open("r+b") as stream:
                stream.seek(index * self.batch * self._dimension * 4)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            line = (json.dumps(entry) + "\n").encode()
            write_synced(self.folder / "journal.jsonl", line, mode="ab", opener=owner_only)
        self.finished[index] = unreadable

    @property
    def todo(self) -> list[int]:
        """Numbers of the batches that are not finished."""
        return [index for index in range(-(-self.count // self.batch)) if index not in self.finished]

    @property
    def done(self) -> int:
        """How many rows are finished."""
        return sum(min(self.batch, self.count - index * self.batch) for index in self.finished)

    def rows(self) -> Floats32:
        """All rows, memory-mapped, once every batch is finished."""
        shape = (self.count, self._dimension)
        return np.memmap(self.folder / "rows.bin", dtype="<f4", mode="r", shape=shape)

    def unreadable(self) -> tuple[int, ...]:
        """Positions of all items that could not be read, in order."""
        return tuple(sorted(position for found in self.finished.values() for position in found))

    def _recover(self) -> None:
        """Believe each journal line whose rows are there and match; forget the rest."""
        kept: list[bytes] = []
        with (self.folder / "rows.bin").open("rb") as stream:
            for line in (self.folder / "journal.jsonl").read_bytes().splitlines(keepends=True):
                try:
                    entry = json.loads(line)
                    index, expected, unreadable = entry["batch"], entry["rows"], tuple(entry["unreadable"])
                except (ValueError, KeyError, TypeError):
                    continue
                start = index * self.batch
                stream.seek(start * self._dimension * 4)
                data = stream.read(min(self.batch, self.count - start) * self._dimension * 4)
                if line.endswith(b"\n") and hashlib.sha256(data).hexdigest() == expected:
                    self.finished[index] = unreadable
                    kept.append(line)
        write_synced(self.folder / "journal.jsonl", b"".join(kept), mode="wb", opener=owner_only)


@dataclass(frozen=True)
class EncodeReport:
    """What an encoding did; for the owner of the data, for it names files and counts examples.

    Attributes:
        path: the `.emb` folder written.
        examples: rows written.
        resumed: items that an earlier, interrupted run had finished.
        unreadable: files that could not be read; their rows are zeros, or were dropped if so asked.
        seconds: time this run took.
    """

    path: Path
    examples: int
    resumed: int
    unreadable: tuple[str, ...]
    seconds: float


def encode_images(
    images: ImageList,
    encoder: Encoder,
    out: str | Path,
    *,
    batch: int = 32,
    progress: Progress | None = None,
    name: str | None = None,
    overwrite: bool = False,
    drop_unreadable: bool = False,
    public: bool = False,
    keep_partial: bool = False,
    dtype: RowType = "float32",
    shard_rows: int | None = None,
    workers: Workers | None = None,
) -> EncodeReport:
    """Encode images into an `.emb` folder; run it again after a kill and it goes on where it stopped.

    The result is the same, bit for bit, whether or not it was interrupted. A file that cannot be read
    becomes a row of zeros and is named in the report: refusing a private data set over one file, or leaving
    the file out, would let a release depend on it in a way no mechanism covers.

    Args:
        images: what `find_images` found; labels and people go into `out` with the rows.
        encoder: an image encoder.
        out: the `.emb` folder to write; unfinished work is kept in `<out>.partial` beside it.
        batch: pictures per call of the model, fixed for the whole run.
        progress: called with (done, total) after each batch; default whoever listens, see
            `dptransfer.base.progress.shown`.
        name: the data set's name, for the ledger.
        overwrite: replace `out` if it exists, and restart if another job's unfinished work is in the way.
        drop_unreadable: leave unreadable files out instead. For public pools only.
        public: nobody's data, so that others may read `out`; otherwise it is the owner's alone.
        keep_partial: leave `<out>.partial`, from which the same call is done at once; remove it afterwards.
            Shards are not left: they are moved into `out`.
        dtype: element type of the rows on disk: float16, float32 or float64.
        shard_rows: cut the images into shards of so many, each a task that is done whole and gives a file of
            its own in `out`; whoever does one holds its rows in memory. The rows are the same.
        workers: who does the tasks: this process, or `Processes` or a `RayCluster`, which take shards of
            `SHARD_ROWS` unless told; there an encoder is made anew, as `get_encoder` made this one.
    """
    started = time.monotonic()
    in_shards = shard_rows is not None or workers is not None
    how: dict[str, Any] = {"batch": batch, "dtype": dtype, "overwrite": overwrite, "shard_rows": shard_rows}
    how |= {"in_shards": in_shards, "drop": drop_unreadable, "keep_partial": keep_partial}
    with _place(encoder, "image", images, out, **how) as target:
        sources, report = images.sources(), progress or _tell
        if not in_shards:
            partial = _partial(target, images, encoder, batch, overwrite)
            resumed = partial.done
            todo = [(i, images.paths[i * batch : (i + 1) * batch]) for i in partial.todo]
            with without_warnings(), closing(encoded_batches(todo, encoder, batch)) as batches:
                _finish(partial, batches, report)
            made = Encoded(partial.folder, partial.rows(), partial.unreadable(), resumed)
        else:
            made = encode_in_shards(
                target,
                images,
                encoder,
                batch=batch,
                dtype=dtype,
                drop=drop_unreadable,
                public=public,
                restart=overwrite,
                shard_rows=shard_rows,
                workers=workers,
                progress=report,
            )
        kept = np.ones(len(images), dtype=bool)
        if drop_unreadable:
            kept[list(made.unreadable)] = False
            if not kept.any():
                raise DataError(
                    "At least one image must be readable; none is. Check the files; those of more than eight "
                    "bits may need a declared grey range."
                )
        _write(
            target,
            made,
            kept,
            None if images.labelled is None else images.labelled.of_rows(kept),
            encoder=encoder.identity,
            sources=[source for source, keep in zip(sources, kept, strict=True) if keep],
            people=None if images.people is None else images.people[kept],
            source_digests=images.source_digests[kept],
            name=name,
            overwrite=overwrite,
            public=public,
            dtype=dtype,
        )
        named = tuple(sources[position] for position in made.unreadable)
    return EncodeReport(target, int(kept.sum()), made.resumed, named, time.monotonic() - started)


def encode_texts(
    texts: TextList | Sequence[str],
    encoder: Encoder,
    out: str | Path,
    *,
    batch: int = 32,
    progress: Progress | None = None,
    name: str | None = None,
    overwrite: bool = False,
    public: bool = False,
    keep_partial: bool = False,
    dtype: RowType = "float32",
    shard_rows: int | None = None,
    workers: Workers | None = None,
) -> EncodeReport:
    """Encode texts into an `.emb` folder; resumable, as `encode_images` is.

    Texts of like length are encoded together, which is faster; the rows keep the order of the texts. The
    arguments are those of `encode_images`.
    """
    started = time.monotonic()
    listed = texts if isinstance(texts, TextList) else TextList(tuple(texts))
    in_shards = shard_rows is not None or workers is not None
    how: dict[str, Any] = {"batch": batch, "dtype": dtype, "overwrite": overwrite, "shard_rows": shard_rows}
    how |= {"in_shards": in_shards, "drop": False, "keep_partial": keep_partial}
    with _place(encoder, "text", listed, out, **how) as target:
        report = progress or _tell
        if not in_shards:
            order = np.argsort([len(text) for text in listed.texts], kind="stable")
            partial = _partial(target, listed, encoder, batch, overwrite)
            resumed = partial.done
            todo = [
                (i, [listed.texts[at] for at in order[i * batch : (i + 1) * batch]]) for i in partial.todo
            ]
            _finish(partial, ((i, encode_filled(chosen, encoder, batch), ()) for i, chosen in todo), report)
            rows = np.empty((len(listed), encoder.dimension), dtype=np.float32)
            rows[order] = partial.rows()
            made = Encoded(partial.folder, rows, (), resumed)
        else:
            made = encode_in_shards(
                target,
                listed,
                encoder,
                batch=batch,
                dtype=dtype,
                drop=False,
                public=public,
                restart=overwrite,
                shard_rows=shard_rows,
                workers=workers,
                progress=report,
            )
        _write(
            target,
            made,
            np.ones(len(listed), dtype=bool),
            listed.labelled,
            people=listed.people,
            source_digests=listed.source_digests,
            encoder=encoder.identity,
            name=name,
            overwrite=overwrite,
            public=public,
            dtype=dtype,
        )
    return EncodeReport(target, len(listed), made.resumed, (), time.monotonic() - started)


def _write(
    target: Path, made: Encoded, kept: NDArray[np.bool_], labels: Labelled | None, **about: Any
) -> None:
    """The `.emb` folder; shards have left out what is not kept, and bear their element type."""
    if isinstance(made.rows, tuple):
        del about["dtype"]
        finish_shards(target, made.rows, labels, **about)
    else:
        write_embeddings(target, made.rows if kept.all() else made.rows[kept], labels, **about)


def _partial(
    target: Path, found: ImageList | TextList, encoder: Encoder, batch: int, restart: bool
) -> PartialRows:
    request, size = request_of(found, encoder, batch), {"count": len(found), "dimension": encoder.dimension}
    return PartialRows(target, request, **size, batch=batch, restart=restart)


def _finish(partial: PartialRows, batches: Iterable[Batch], report: Progress) -> None:
    """Put the batches that are missing on the disk, one by one, each while the model works on the next."""
    report(partial.done, partial.count)
    with ThreadPoolExecutor(1, thread_name_prefix="rows") as writer:
        writing: Future[None] | None = None
        for batch in chain(batches, [None]):
            if writing is not None:
                writing.result()
                report(partial.done, partial.count)
            if batch is not None:
                index, rows, missing = batch
                places = tuple(index * partial.batch + place for place in missing)
                writing = writer.submit(partial.add, index, rows, places)


def _tell(done: int, total: int) -> None:
    tell(done, total, "")


@contextmanager
def _place(
    encoder: Encoder,
    kind: Kind,
    found: ImageList | TextList,
    out: str | Path,
    *,
    batch: int,
    dtype: str,
    overwrite: bool,
    shard_rows: int | None,
    in_shards: bool,
    drop: bool,
    keep_partial: bool,
) -> Iterator[Path]:
    """The target, checked and claimed; once the block has filled it, the draft goes unless it is to stay."""
    require_kind(encoder, kind)
    checks.whole("batch", batch)
    checks.one_of("dtype", dtype, ("float16", "float32", "float64"))
    target = Path(out)
    with claim(target):
        try:
            require_target(target, overwrite=overwrite)
        except DataError:
            if not overwrite and (target / MANIFEST).is_file():  # a run may have been killed just then
                how: dict[str, Any] = {"shard_rows": shard_rows, "dtype": dtype, "drop": drop}
                asked = request_of_shards(found, encoder, batch, **how) if in_shards else None
                remove_draft(target, asked or request_of(found, encoder, batch))
            raise
        if len(found) == 0:
            raise DataError(f"There must be at least one {kind} to encode; there is none. Check the source.")
        yield target
        if not keep_partial:
            remove_draft(target)
