"""Encode images and texts into an `.emb` folder, shard by shard; a killed run resumes.

Each row depends on its own item alone.

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

**Shards.** One shard is one task for any process, and the request says which shards belong together:

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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache, partial
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dptransfer.base import checks
from dptransfer.base.progress import reported_to, tell
from dptransfer.base.types import EncodedRows, JsonObject, Picture
from dptransfer.base.worker_env import take_gpu
from dptransfer.base.workers import ThisProcess, Workers
from dptransfer.data import atomic_files, emb_folder
from dptransfer.data.atomic_files import claim, owner_only
from dptransfer.data.facts import EncoderIdentity, require_same_encoder
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.encoders import in_memory
from dptransfer.encoders.encoder import MADE_BY, Encoder, Kind
from dptransfer.encoders.in_memory import Progress
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources.decode import SandboxedDecoder, problem_of
from dptransfer.sources.listings import ImageList, TextList

BREAKS_OFF = "It breaks off in the middle."
"""Why a picture cannot be read whose first bytes can."""

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
    dtype: emb_folder.RowType = "float32"
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
        parts = _PARTS // 4 if isinstance(found, TextList) else _PARTS  # texts are sorted inside of each
        rows = _MOST if fast else min(_MOST, max(_FEWEST, len(found) // parts))
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
        items: how many pictures or texts it is of.
        rows: how many rows; fewer where unreadable pictures are left out.
        unreadable: places, among its items or among all, of those that could not be read.
        resumed: whether it was there already.
    """

    file: Path
    items: int
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
    pool: in_memory.PreprocessPool | None = None

    def __call__(self, piece: tuple[int, Sequence[Item]]) -> Shard:
        """Encode shard (number, items), unless it is there."""
        number, items = piece
        atomic_files.require_seen(self.folder)
        file = self.folder / f"{number:05d}-{self.request[:16]}.npy"
        begun = file.with_suffix(".begun")
        with atomic_files.kept_on_disk(self.folder):
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
        with atomic_files.kept_on_disk(self.folder):
            with atomic_files.written_whole(file, None if self.options.public else owner_only) as stream:
                header = {"descr": rows.dtype.str, "fortran_order": False, "shape": rows.shape}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(rows.data)
            with atomic_files.written_whole(file.with_suffix(".json"), owner_only) as stream:
                stream.write(json.dumps({"unreadable": unreadable}).encode())
            begun.unlink(missing_ok=True)
        return Shard(file, len(items), len(rows), unreadable, resumed=False)

    def _find_finished(self, file: Path, items: int) -> Shard | None:
        """The shard as it is there; None if it is not, or is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            unreadable = tuple(json.loads(file.with_suffix(".json").read_bytes())["unreadable"])
            rows = items - len(unreadable) * self.options.drop_unreadable
            stored = np.load(file, mmap_mode="r" if rows else None, allow_pickle=False)
            if len(stored) == rows and stored.dtype == self.options.dtype:
                return Shard(file, items, rows, unreadable, resumed=True)
        return None

    def _encode(self, items: Sequence[Item], *, carefully: bool) -> tuple[EncodedRows, tuple[int, ...]]:
        encoder = self._load()
        with _watchdog(isinstance(self.encoder, bytes)) as alive:

            def report(done: int, total: int) -> None:
                alive()
                tell(done, total, _WITHIN)

            if encoder.kind == "text":  # alike ones together, which is faster
                texts, batch = list(map(str, items)), self.options.batch
                order = np.argsort([len(text) for text in texts], kind="stable")
                texts = [texts[place] for place in order]
                found = in_memory.encode_texts_in_memory(texts, encoder, batch=batch, progress=report)
                return found[np.argsort(order)], ()
            if self.source is not None:
                atomic_files.require_seen(self.source)
            with closing(SandboxedDecoder(encoder.identity.grey_range)) as apart:

                def opened(path: Path) -> Picture:
                    alive()
                    return apart(path)

                how = {"opened": opened} if carefully else {"pool": self.pool}
                paths, batch = list(map(Path, items)), self.options.batch
                return in_memory.encode_images_in_memory(paths, encoder, batch=batch, progress=report, **how)

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


def encode_in_shards(
    out: Path, found: ImageList | TextList, encoder: Encoder, options: EncodeOptions, progress: Progress
) -> list[Shard]:
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
    source, size = getattr(found, "root", None), int(asked["shard_rows"])
    if not isinstance(workers, ThisProcess):  # they may be in another folder
        out, source = out.absolute(), None if source is None else source.absolute()
        items = [item if isinstance(item, str) else item.absolute() for item in items]
        sent, workers = _recipe(encoder), _for_encoding(workers, encoder, batches=-(-size // options.batch))
    folder, request = atomic_files.draft_folder(out, asked, restart=options.overwrite)
    pieces = [(start // size, items[start : start + size]) for start in range(0, len(items), size)]
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
    ahead = in_memory.preprocess_pool(encoder, len(items)) if sent is encoder else nullcontext()
    with reported_to(within), ahead as pool:
        alone = replace(options, workers=None)
        work = EncodeShard(folder, request, source, sent, encoder.identity, alone, pool)
        for number, shard in workers.each(work, pieces, "shard"):
            places = tuple(number * size + place for place in shard.unreadable)
            shards[number] = shard._replace(unreadable=places)
            done += shard.items
            report(done)
    return [shards[number] for number in range(len(pieces))]


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
    rule = f"Other processes make an encoder again; how '{encoder.identity.name}' is made is not known."
    raise ArgumentError(f"{rule} Load it with get_encoder, or set its 'made_by' to an importable function.")


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


def encode_examples(
    found: ImageList | TextList | Sequence[str],
    encoder: Encoder,
    out: str | Path,
    options: EncodeOptions = _DEFAULTS,
    *,
    progress: Progress | None = None,
) -> EncodeReport:
    """Encode images or texts into an `.emb` folder; run it again after a kill and it resumes.

    The result is the same, bit for bit, whether or not it was interrupted. A file that cannot be read
    becomes a row of zeros and is named in the report: refusing a private data set over one file, or leaving
    the file out, would let a release depend on it in a way no mechanism covers. Texts of like length are
    encoded together, which is faster; the rows keep the order of the texts.

    Args:
        found: what `find_images` or `find_texts` found, or a list of texts; labels and people go into `out`
            with the rows.
        encoder: an encoder of that kind.
        out: the `.emb` folder to write; unfinished work is kept in `<out>.partial` beside it.
        options: batch, shards, workers, element type and the like.
        progress: called with (done, total) after each batch; default whoever listens, see
            `dptransfer.base.progress.show_progress`.
    """
    if not isinstance(found, ImageList | TextList):
        found = TextList(tuple(found))
    target, progress = Path(out), progress or partial(tell, what="")
    started = time.monotonic()
    kind: Kind = "image" if isinstance(found, ImageList) else "text"
    in_memory.require_kind(encoder, kind)
    with claim(target):
        try:
            emb_folder.require_target(target, overwrite=options.overwrite)
        except DataError:
            # Where the folder is whole, a run was killed just before it removed its draft.
            if not options.overwrite and (target / emb_folder.MANIFEST).is_file():
                atomic_files.remove_draft(target, request_of(found, encoder, options))
            raise
        if len(found) == 0:
            raise DataError(f"There must be at least one {kind} to encode; there is none. Check the source.")
        shards = encode_in_shards(target, found, encoder, options, progress)
        missing = [place for shard in shards for place in shard.unreadable]
        kept = np.ones(len(found), dtype=bool)
        if options.drop_unreadable:
            kept[missing] = False
            if not kept.any():
                rule = "At least one image must be readable; none is."
                raise DataError(f"{rule} Check the files; those of more than 8 bits may need a grey range.")
        sources = found.sources() if isinstance(found, ImageList) else None
        metadata = emb_folder.RowMetadata(
            labels=None if found.labelled is None else found.labelled.of_rows(kept),
            encoder=encoder.identity,
            sources=None if sources is None else list(compress(sources, kept)),
            people=None if found.people is None else found.people[kept],
            name=options.name,
            public=options.public,
            source_digests=found.source_digests[kept],
        )
        files, overwrite = [shard.file for shard in shards if shard.rows], options.overwrite
        if options.in_shards:
            emb_folder.finish_shards(target, files, metadata, overwrite=overwrite)
        else:
            rows, dtype = ShardedRows(files), options.dtype
            emb_folder.write_embeddings(target, rows, metadata, overwrite=overwrite, dtype=dtype)
        if not options.keep_partial:
            atomic_files.remove_draft(target)
    unreadable, reason = tuple(sources[place] for place in missing) if sources else (), None
    if unreadable and options.public and isinstance(found, ImageList):
        reason = problem_of(found.paths[missing[0]], encoder.identity.grey_range) or BREAKS_OFF
    return EncodeReport(
        target,
        int(kept.sum()),
        sum(shard.items for shard in shards if shard.resumed),
        unreadable,
        time.monotonic() - started,
        encoder.identity,
        encoder.dimension,
        found.classes,
        found.people is not None,
        reason,
    )
