"""Encode in shards: one shard is one task for any process, and the request says which shards belong together.

<out>.partial/00003-<request>.npy     the rows of shard 3, whole
    <out>.partial/00003-<request>.json    written after them: which of its items could not be read
    <out>.partial/00003-<request>.begun   there while somebody works on it, or if somebody died of it

A task is a function of its items alone, and what it gives appears under its name whole or not at all. So it
may be done twice, by anybody, and what is there need not be done again. Whoever finds that an earlier attempt
died opens pictures in a process of their own: a picture that crashes or hangs its reader is then one that
cannot be read, and not the end of the run.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dptransfer.base import checks
from dptransfer.base.progress import reported_to, tell
from dptransfer.base.types import EncodedRows, Integers, JsonObject, Rows
from dptransfer.base.workers import ThisProcess, Workers
from dptransfer.data.atomic_files import draft_folder, kept_on_disk, owner_only, require_seen, written_whole
from dptransfer.data.emb_folder import RowType
from dptransfer.data.facts import EncoderIdentity, require_same_encoder
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.encoders.device import take_gpu
from dptransfer.encoders.encoder import MADE_BY, Encoder
from dptransfer.encoders.in_memory import (
    PreprocessPool,
    Progress,
    encode_images_in_memory,
    encode_texts_in_memory,
    preprocess_pool,
)
from dptransfer.errors import ArgumentError
from dptransfer.sources.decode import SandboxedDecoder
from dptransfer.sources.listings import ImageList, TextList

if TYPE_CHECKING:
    from PIL import Image

SHARD_ROWS = 10_000
"""Items of a shard where shards are asked for and no number is: 30 MB of 768 columns, minutes of a core."""

_FEWEST, _MOST, _PARTS = 512, 4096, 32
"""Items that a killed run repeats at most where nobody asked for shards, and in how many parts it works."""


@dataclass(frozen=True)
class EncodeOptions:
    """How images or texts are encoded into an `.emb` folder.

    Attributes:
        batch: items per call of the model, fixed for the whole run.
        name: the data set's name, for the ledger.
        overwrite: replace the folder if it exists, and throw away another job's unfinished work.
        drop_unreadable: leave unreadable files out, for public pools only; else their rows are zeros.
        public: nobody's data, so that others may read the folder; otherwise it is the owner's alone.
        keep_partial: leave `<out>.partial`, from which the same call is done at once; remove it afterwards.
            Shards that were asked for are not left: they are moved into the folder.
        dtype: element type of the rows on disk: float16, float32 or float64.
        shard_rows: cut the rows into files of so many. The rows are the same.
        workers: who encodes shards: this process, or `Processes` or a `RayCluster`, which take shards of
            `SHARD_ROWS` unless told; there an encoder is made anew, as `get_encoder` made this one.
    """

    batch: int = 32
    name: str | None = None
    overwrite: bool = False
    drop_unreadable: bool = False
    public: bool = False
    keep_partial: bool = False
    dtype: RowType = "float32"
    shard_rows: int | None = None
    workers: Workers | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.whole("batch", self.batch)
        checks.one_of("dtype", self.dtype, ("float16", "float32", "float64"))
        if self.shard_rows is not None:
            checks.whole("shard_rows", self.shard_rows)

    @property
    def in_shards(self) -> bool:
        """Whether the rows are to stay in several files."""
        return self.shard_rows is not None or self.workers is not None

    def rows_of_shards(self, found: ImageList | TextList, encoder: Encoder) -> int:
        """Items of a shard; where none were asked for, few for a run that is short or slow."""
        if self.in_shards:
            return self.shard_rows or SHARD_ROWS
        fast = getattr(encoder, "picklable_prepare", None) is not None
        rows = _MOST if fast else min(_MOST, max(_FEWEST, len(found) // _PARTS))
        return -(-rows // self.batch) * self.batch  # in whole batches, so that blanks fill up the last alone


def request_of(found: ImageList | TextList, encoder: Encoder, options: EncodeOptions) -> JsonObject:
    """What determines the rows and the files that they are in, JSON-ready."""
    if isinstance(found, TextList):
        items: JsonObject = {"texts": list(found.texts)}
    else:
        in_place = found.root is None
        known_as = [str(path.absolute()) for path in found.paths] if in_place else found.sources()
        items = {"files": [_file_state(*pair) for pair in zip(known_as, found.paths, strict=True)]}
    return {
        **items,
        "encoder": encoder.identity.to_dict(),
        "batch": options.batch,
        "shard_rows": options.rows_of_shards(found, encoder),
        "in_shards": options.in_shards,
        "dtype": options.dtype,
        "drop": options.drop_unreadable,
    }


def _file_state(source: str, path: Path) -> list[str | int | None]:
    """A file's name, size and time of change: an edited picture must not be taken from an earlier run."""
    try:
        found = path.stat()
    except OSError:
        return [source, None, None]
    return [source, found.st_size, found.st_mtime_ns]


Item = Path | str
_WITHIN = "item of a shard"
_QUIET = 600.0  # seconds for a batch; the slowest model on one slow core takes less


class Shard(NamedTuple):
    """A finished shard.

    Attributes:
        file: its rows.
        rows: how many.
        unreadable: places, among its items, of those that could not be read.
        resumed: whether it was there already.
    """

    file: Path
    rows: int
    unreadable: tuple[int, ...]
    resumed: bool


@dataclass(frozen=True)
class EncodeShard:
    """Encodes the items of one shard into a file.

    Attributes:
        folder: where the file goes.
        request: digest of the whole request, in the names of its files.
        source: the folder that the items are in, if there is one: who does not see it must not take all of
            its pictures for unreadable.
        encoder: what encodes; or, for another process, the pickled function that makes it there.
        identity: of that encoder.
        options: batch, element type, whether unreadable items are left out, and whether others may read.
        pool: processes of this one that prepare pictures, where there are some.
    """

    folder: Path
    request: str
    source: Path | None
    encoder: Encoder | bytes
    identity: EncoderIdentity
    options: EncodeOptions
    pool: PreprocessPool | None = None

    def __call__(self, piece: tuple[int, Sequence[Item]]) -> Shard:
        """Encode shard (number, items), unless it is there."""
        number, items = piece
        require_seen(self.folder)
        file = self.folder / f"{number:05d}-{self.request[:16]}.npy"
        begun = file.with_suffix(".begun")
        with kept_on_disk(self.folder):
            finished = self._find_finished(file, len(items))
            if finished is not None:
                return finished
            died = begun.exists()
            begun.touch(mode=0o600)
        try:
            rows, unreadable = self._encode(items, carefully=died)
        except BaseException:  # whoever can say this is not dead
            begun.unlink(missing_ok=True)
            raise
        with np.errstate(all="ignore"):
            rows = np.delete(rows, unreadable, axis=0) if self.options.drop_unreadable else rows
            rows = np.ascontiguousarray(rows, dtype=np.dtype(self.options.dtype).newbyteorder("<"))
        with kept_on_disk(self.folder):
            with written_whole(file, None if self.options.public else owner_only) as stream:
                header = {"descr": rows.dtype.str, "fortran_order": False, "shape": rows.shape}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(rows.data)
            with written_whole(file.with_suffix(".json"), owner_only) as stream:
                stream.write(json.dumps({"unreadable": unreadable}).encode())
            begun.unlink(missing_ok=True)
        return Shard(file, len(rows), unreadable, resumed=False)

    def _find_finished(self, file: Path, items: int) -> Shard | None:
        """The shard as it is there; None if it is not, or is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            unreadable = tuple(json.loads(file.with_suffix(".json").read_bytes())["unreadable"])
            rows = items - len(unreadable) * self.options.drop_unreadable
            stored = np.load(file, mmap_mode="r" if rows else None, allow_pickle=False)
            if len(stored) == rows and stored.dtype == self.options.dtype:
                return Shard(file, rows, unreadable, resumed=True)
        return None

    def _encode(self, items: Sequence[Item], *, carefully: bool) -> tuple[EncodedRows, tuple[int, ...]]:
        encoder = self._load()
        with _watchdog(isinstance(self.encoder, bytes)) as alive:

            def report(done: int, total: int) -> None:
                alive()
                tell(done, total, _WITHIN)

            if encoder.kind == "text":
                texts = [str(text) for text in items]
                order, batch = _by_length(texts), self.options.batch
                texts = [texts[place] for place in order]
                rows = np.empty((len(items), encoder.dimension), dtype=np.float32)
                rows[order] = encode_texts_in_memory(texts, encoder, batch=batch, progress=report)
                return rows, ()
            if self.source is not None:
                require_seen(self.source)
            with closing(SandboxedDecoder(encoder.identity.grey_range)) as apart:

                def opened(path: Path) -> Image.Image:
                    alive()
                    return apart(path)

                found = encode_images_in_memory(
                    list(map(Path, items)),
                    encoder,
                    batch=self.options.batch,
                    progress=report,
                    opened=opened if carefully else None,
                    pool=None if carefully else self.pool,
                )
            return found.rows, found.unreadable

    def _load(self) -> Encoder:
        if not isinstance(self.encoder, bytes):
            return self.encoder
        loaded = _make_encoder(self.encoder)
        require_same_encoder(self.identity, loaded.identity, names=("All rows of a run", "those of a worker"))
        return loaded


@lru_cache(maxsize=1)
def _make_encoder(recipe: bytes) -> Encoder:
    """The encoder, once in each process, however many shards it does."""
    make = pickle.loads(recipe)
    if _on_gpu(make):
        take_gpu()
    made: Encoder = make()
    return made


@contextmanager
def _watchdog(in_worker: bool) -> Iterator[Callable[[], None]]:
    """Yields what is called after every batch; a worker process that does not come to it ends at once.

    Others do its shard then, opening pictures apart. The timer is one in C, which goes off though somebody
    hangs there; it says nothing.
    """
    if not in_worker:
        yield lambda: None
        return
    with open(os.devnull, "w") as nowhere:

        def alive() -> None:
            faulthandler.dump_traceback_later(_QUIET, exit=True, file=nowhere)

        alive()
        try:
            yield alive
        finally:
            faulthandler.cancel_dump_traceback_later()


class EncodedShards(NamedTuple):
    """Items that have been encoded, on their way into an `.emb` folder.

    Attributes:
        files: those of the shards that have any rows, in order.
        order: positions of the items that the rows stand for, where these are in another order.
        unreadable: positions of the items that could not be read.
        resumed: how many items were there already.
    """

    files: tuple[Path, ...]
    order: Integers | None
    unreadable: tuple[int, ...]
    resumed: int

    def rows(self) -> ShardedRows | Rows:
        """All rows, in the order of the items."""
        stored = ShardedRows(self.files)
        if self.order is None:
            return stored
        rows = np.empty(stored.shape, stored.dtype)
        rows[self.order] = stored[:]
        return rows


def encode_in_shards(
    out: Path, found: ImageList | TextList, encoder: Encoder, options: EncodeOptions, progress: Progress
) -> EncodedShards:
    """Encode items into files of some rows each, with whoever works; what is there is not done again.

    Args:
        out: what the files are for, such as an `.emb` folder, with its claim held; they are in
            `<out>.partial`.
        found: the pictures or texts.
        encoder: what encodes them.
        options: batch, shards, workers and the like.
        progress: called with (items done, items in all).
    """
    asked, workers = request_of(found, encoder, options), options.workers or ThisProcess()
    sent: Encoder | bytes = encoder
    items: Sequence[Item] = found.texts if isinstance(found, TextList) else found.paths
    source, size, order = getattr(found, "root", None), int(asked["shard_rows"]), None
    if isinstance(found, TextList) and not options.in_shards:  # alike ones together, which is faster
        order = _by_length(found.texts)
        items = [found.texts[place] for place in order]
    if not isinstance(workers, ThisProcess):  # they may be in another folder
        out, source = out.absolute(), None if source is None else source.absolute()
        items = [item if isinstance(item, str) else item.absolute() for item in items]
        sent, workers = _recipe(encoder), _for_encoding(workers, encoder, batches=-(-size // options.batch))
    folder, request = draft_folder(out, asked, restart=options.overwrite)
    starts = range(0, len(items), size)
    pieces = [(number, items[start : start + size]) for number, start in enumerate(starts)]
    shards: dict[int, Shard] = {}
    done, told, outside = 0, -1, copy_context()

    def report(finished: int) -> None:
        nonlocal told
        if finished != told:
            told = finished
            outside.run(progress, finished, len(items))  # where others than `within` listen

    def within(finished: int, _: int, what: str) -> None:
        if what == _WITHIN:  # of the shard that this process is at
            report(done + finished)

    report(0)
    ahead = preprocess_pool(encoder, len(items)) if sent is encoder else nullcontext()
    with reported_to(within), ahead as pool:
        alone = replace(options, workers=None)
        work = EncodeShard(folder, request, source, sent, encoder.identity, alone, pool)
        for number, shard in workers.each(work, pieces, "shard"):
            shards[number] = shard
            done += len(pieces[number][1])
            report(done)
    ordered = [shards[number] for number in range(len(pieces))]
    missing = (start + place for start, one in zip(starts, ordered, strict=True) for place in one.unreadable)
    counts = (len(pieces[number][1]) for number, one in shards.items() if one.resumed)
    files = tuple(one.file for one in ordered if one.rows)
    return EncodedShards(files, order, tuple(missing), sum(counts))


def _by_length(texts: Sequence[str]) -> Integers:
    return np.argsort([len(text) for text in texts], kind="stable")


def _for_encoding(workers: Workers, encoder: Encoder, *, batches: int) -> Workers:
    """The same who work, as far as they have such settings: as patient as a shard needs, and with a GPU each.

    A shard whose batches are all in time, so that no worker ends itself, takes as long as all their times.
    """
    settings: JsonObject = {}
    if getattr(workers, "patience", 0) is None:
        settings["patience"] = _QUIET * batches
    if getattr(workers, "gpus", None) == 0 and _on_gpu(getattr(encoder, MADE_BY)):
        settings["gpus"] = 1
    return replace(workers, **settings) if is_dataclass(workers) else workers


def _on_gpu(recipe: object) -> bool:
    """Whether an encoder is made for whatever GPU its process has."""
    return bool(getattr(recipe, "keywords", {}).get("device") == "cuda")


def _recipe(encoder: Encoder) -> bytes:
    """What makes the encoder in another process."""
    recipe = getattr(encoder, MADE_BY, None)
    try:
        if recipe is not None:
            return pickle.dumps(recipe)
    except Exception:  # functions that cannot be found by name raise many types
        pass
    raise ArgumentError(
        f"An encoder that works in other processes must be made again there; how '{encoder.identity.name}' "
        "is made is not known. Load it with get_encoder, or set its attribute 'made_by' to an importable "
        "function that makes it."
    )
