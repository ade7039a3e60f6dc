"""The `.emb` folder: embeddings on disk with their class list, encoder and checksums.

A folder and not one file, so that rows are memory-mapped and a manifest can be read by people:

    rows.npy        (examples, dimension), float32 unless asked otherwise; or, in shards and for int8,
    rows-00000.npy  the first of them, rows-00001.npy the second, and so on
    labels.npy      int64, positions in the declared class list; absent without labels
    people.npy      int64, the person of each row as a number from 0; absent if unknown. Ids are not kept
    sources.json    where each row came from; absent if unknown
    digests.npy     int64, of the file or text behind each row (`source_digests`); absent if unknown
    manifest.json   see `dptransfer.data.manifest`

It belongs to the owner of the rows: labels, people, sources and digests are as private as they are. So
nobody else can read it, whatever the umask says, unless it is written as public. Its manifest says which it
is, and a folder that is not public, a copy of it, or a file in it is never taken for public data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers, People
from dptransfer.data.class_names import Classes
from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.labelled import Labelled
from dptransfer.data.numpy_files import load_array
from dptransfer.data.parsing import parsing
from dptransfer.data.people import person_positions
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.store_beside import DIGESTS, LABELS, MANIFEST, PEOPLE, SOURCES, Beside, filled
from dptransfer.data.store_rows import (
    AGAIN,
    RowsToWrite,
    digest_shard,
    place_beside,
    remove_drafts,
    require_digests,
    require_drafts,
    write_rows,
)
from dptransfer.data.table import RawTable, require
from dptransfer.progress import tell

if TYPE_CHECKING:
    from dptransfer.data.manifest import Manifest, Shard

RowType = Literal["float16", "float32", "float64", "int8"]
ROWS = "rows.npy"


def write_embeddings(
    path: str | Path,
    rows: ArrayLike,
    labels: ArrayLike | Labelled | None = None,
    *,
    classes: Classes | None = None,
    encoder: EncoderIdentity | None = None,
    sources: Sequence[str | Path] | None = None,
    people: ArrayLike | None = None,
    name: str | None = None,
    overwrite: bool = False,
    dtype: RowType = "float32",
    public: bool = False,
    shard_rows: int | None = None,
    scale: float | None = None,
    source_digests: ArrayLike | None = None,
) -> Path:
    """Write an `.emb` folder, whole or not at all.

    Everything is written to a temporary folder beside `path`, flushed to the disk and renamed into place, so
    a full disk or a kill leaves nothing half-written. With `overwrite` the old folder is moved aside first
    and deleted last.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "tiny.emb"
    >>> write_embeddings(where, [[0.5, 1.0]], ["cat"], classes=["cat", "dog"]).name
    'tiny.emb'

    Args:
        path: the folder to make; its name must end in '.emb'.
        rows: array of shape (examples, dimension), or `ShardedRows`; written in chunks, so it may be on disk.
        labels: class of each row, as a declared class or (when classes are words) its position in the list;
            or a `Labelled`, which brings its list.
        classes: the declared class list. Without one, labels must be whole numbers and are kept as they are.
        encoder: identity of the encoder behind the rows.
        sources: where each row came from; kept beside the rows.
        people: whose each row is, as `PrivateEmbeddings` takes it; who is the same is kept, and no id.
        name: what the ledger files the data set under when it is private.
        overwrite: replace an `.emb` folder that is there already.
        dtype: element type on disk; int8 for rows that are int8 already.
        public: nobody's data, which `read_public` takes: files get the modes that the umask allows;
            otherwise they are the owner's alone.
        shard_rows: cut the rows into files of so many; by default they are one file.
        scale: what int8 values are multiplied with to be rows, in float32; 1 without it.
        source_digests: of the files or texts behind the rows, as uint64 (`data.source_digests`).

    Returns:
        The folder written.
    """
    target = require_target(path, overwrite=overwrite)
    array = RowsToWrite(rows, dtype, scale)
    beside = Beside.of(len(array), labels, classes, sources, people, source_digests, encoder, name, public)
    size = None if shard_rows is None else _check.whole("shard_rows", shard_rows)
    if size is None and array.scale is not None:
        size = max(1, len(array))
    with filled(target, public=public) as folder:
        if size is None or len(array) == 0:
            files = {ROWS: write_rows(folder / ROWS, array, 0, len(array), beside.opener)}
            beside.write(folder, array, files)
            return target
        shards: list[tuple[str, int, str]] = []
        for start in range(0, len(array), size):
            stop, file = min(len(array), start + size), _shard_name(len(shards))
            digest = write_rows(folder / file, array, start, stop, beside.opener)
            shards.append((file, stop - start, digest))
            tell(len(shards), -(-len(array) // size), "shard")
        beside.write(folder, array, {}, shards)
    return target


def finish_shards(
    path: str | Path,
    files: Sequence[str | Path],
    labels: ArrayLike | Labelled | None = None,
    *,
    classes: Classes | None = None,
    encoder: EncoderIdentity | None = None,
    sources: Sequence[str | Path] | None = None,
    people: ArrayLike | None = None,
    name: str | None = None,
    overwrite: bool = False,
    public: bool = False,
    scale: float | None = None,
    source_digests: ArrayLike | None = None,
) -> Path:
    """Make an `.emb` folder of complete `.npy` files, which are moved in; whole or not at all.

    The files are read once, for checksums and fingerprint, and never copied. They lose their old names when
    the folder is in place, so that whoever is stopped before has them still (on a disk without hard links
    they are lost if the very last step fails).

    Args:
        path: the folder to make, on the same disk as the files.
        files: float16, float32, float64 or int8 rows, in order; `.npy`, all of one width and type.
        labels: as for `write_embeddings`, like all that follow.
        classes: the declared class list.
        encoder: identity of the encoder behind the rows.
        sources: where each row came from.
        people: whose each row is.
        name: what the ledger files the data set under when it is private.
        overwrite: replace an `.emb` folder that is there already.
        public: nobody's data; the files keep their modes then, and are made the owner's alone otherwise.
        scale: of int8 rows.
        source_digests: of what is behind the rows.

    Returns:
        The folder written.
    """
    target, drafts = require_target(path, overwrite=overwrite), require_drafts(files, scale)
    rows = RowsToWrite(drafts, drafts.stored.name, None)
    beside = Beside.of(len(rows), labels, classes, sources, people, source_digests, encoder, name, public)
    with filled(target, public=public) as folder:
        shards = []
        for number, shard in enumerate(drafts.shards):
            shards.append((_shard_name(number), shard.count, digest_shard(shard, rows)))
            tell(number + 1, len(drafts.shards), "shard")
        for draft, (file, _, _) in zip(drafts.files, shards, strict=True):
            place_beside(draft, folder / file)
            if not public:
                (folder / file).chmod(0o600)
        beside.write(folder, rows, {}, shards)
    remove_drafts(drafts.files)
    return target


def _shard_name(number: int) -> str:
    return f"rows-{number:05}.npy"


def read_store(path: str | Path, *, verify: bool = True) -> RawTable:
    """Read an `.emb` folder; rows are memory-mapped.

    Args:
        path: the folder.
        verify: compare every file with its checksum first (one streaming pass over the rows).
    """
    from dptransfer.data.manifest import read_manifest

    folder = Path(path)
    manifest = read_manifest(folder / MANIFEST)
    listed = dict(manifest.files) | {shard.file: shard.sha256 for shard in manifest.shards or ()}
    there = {file.name for file in folder.iterdir()}
    ours = {ROWS, LABELS, PEOPLE, SOURCES, DIGESTS}
    if manifest.shards is not None:
        ours |= {name for name in there if name.endswith(".npy")}
    for name in sorted({*listed, *(ours & there)}):
        found = "is there but not in the manifest" if name in there else "is missing"
        holds = f"an .emb folder holds what its manifest lists; this {found}."
        require(name in listed and name in there, folder / name, holds, AGAIN)
    rows = _mapped(folder / ROWS) if manifest.shards is None else _sharded(folder, manifest.shards, manifest)
    if verify:
        require_digests([(folder / name, digest) for name, digest in listed.items()])
    kind = rows.stored if isinstance(rows, ShardedRows) else rows.dtype
    same = rows.shape == (manifest.rows, manifest.dimension) and kind == manifest.dtype
    where = folder / ROWS if manifest.shards is None else folder
    require(same, where, "shape and type must be those in the manifest; they are not.", AGAIN)
    labels = _one_each(folder / LABELS, "label", manifest.rows) if LABELS in manifest.files else None
    people: People | None = None
    if PEOPLE in manifest.files:
        people = person_positions(_one_each(folder / PEOPLE, "person", manifest.rows), manifest.rows)
    digests = _one_each(folder / DIGESTS, "digest", manifest.rows) if DIGESTS in manifest.files else None
    return RawTable(
        rows=cast(AnyArray, rows),
        labels=labels,
        classes=manifest.classes,
        labels_are_positions=manifest.classes is not None,
        encoder=manifest.encoder,
        sources=_read_sources(folder / SOURCES, manifest.rows) if SOURCES in manifest.files else None,
        name=manifest.name,
        fingerprint=manifest.fingerprint if manifest.classes is not None else None,
        rows_fingerprint=manifest.rows_fingerprint,
        people=people,
        public=manifest.public,
        source_digests=None if digests is None else digests.view(np.uint64),
    )


def in_private_folder(file: Path) -> bool:
    """Whether a file is part of an `.emb` folder that is not public, wherever a link to it lies."""
    try:
        fields = json.loads((file.resolve().parent / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none, or one of another kind of folder
        return False
    ours = isinstance(fields, dict) and fields.get("format") == "dptransfer-embeddings"
    return ours and fields.get("public") is not True


def require_target(path: str | Path, *, overwrite: bool) -> Path:
    """The folder to be written, or an error; worth asking before rows are made that would have no place."""
    target = Path(path)
    require(target.suffix == ".emb", target, "the folder's name must end in '.emb'.", "Rename it.")
    if not os.path.lexists(target):
        return target
    there = "there must be nothing yet; it exists already."
    require(overwrite, target, there, "Pass overwrite=True to replace it, or choose another name.")
    # Replacing a link would leave the rows that it points to where they are.
    itself = "only an .emb folder itself may be overwritten; this is a link."
    require(not target.is_symlink(), target, itself, "Name the folder behind it.")
    other = f"only an .emb folder may be overwritten; this has no {MANIFEST}."
    require((target / MANIFEST).is_file(), target, other, "Remove it yourself.")
    return target


def _sharded(folder: Path, shards: Sequence[Shard], manifest: Manifest) -> ShardedRows:
    files = [folder / shard.file for shard in shards]
    rows = ShardedRows(files, scale=manifest.scale, finite=bool(manifest.finite))
    for shard, own in zip(shards, rows.shards, strict=True):
        told = "a shard must have as many rows as the manifest says; it has not."
        require(shard.rows == own.count, own.file.path, told, AGAIN)
    return rows


def _mapped(file: Path) -> AnyArray:
    return load_array(file, "the file must be a complete .npy array; it is damaged or cut short.", AGAIN)


def _one_each(file: Path, what: str, rows: int) -> Integers:
    stored = _mapped(file)
    one_each = stored.shape == (rows,) and stored.dtype == np.int64
    require(one_each, file, f"there must be one int64 {what} per row; there is not.", AGAIN)
    return np.array(stored)  # not before: of elements without a size any number may be declared


def _read_sources(file: Path, rows: int) -> tuple[str, ...]:
    rule = "there must be one source per row; there is not."
    with parsing(file, rule, AGAIN):
        listed = json.loads(file.read_text(encoding="utf-8"))
    require(isinstance(listed, list) and len(listed) == rows, file, rule, AGAIN)
    return tuple(str(source) for source in listed)
