"""The .emb folder: embeddings on disk with their class list, encoder and checksums.

A folder and not one file, so that rows are memory-mapped and a manifest can be read by people:

    rows-00000.npy  (examples, dimension), float32 unless asked otherwise; with shards only the first rows,
    rows-00001.npy  then the next ones, and so on
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.arrays import AnyArray, Integers, Labels
from dptransfer.base.progress import tell
from dptransfer.data.atomic_files import make_owner_folder, owner_only, replaced_whole, write_synced
from dptransfer.data.examples import form_to_digest, one_digest_each
from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.labels import Classes, Labelled, declared_classes
from dptransfer.data.numpy_files import load_array
from dptransfer.data.people import person_positions
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.store_rows import (
    AGAIN,
    RowsToWrite,
    digest_shard,
    file_digest,
    link_or_rename,
    require_digests,
    require_drafts,
    write_column,
    write_rows,
)
from dptransfer.data.tables import RawTable, parsing, require
from dptransfer.errors import DataError

if TYPE_CHECKING:
    from dptransfer.data.manifest import Manifest

RowType = Literal["float16", "float32", "float64", "int8"]
MANIFEST, SOURCES = "manifest.json", "sources.json"
LABELS, PEOPLE, DIGESTS = "labels.npy", "people.npy", "digests.npy"
_COLUMNS = {LABELS: "label", PEOPLE: "person", DIGESTS: "digest"}


@dataclass(frozen=True, eq=False, repr=False)
class RowMetadata:
    """What an `.emb` folder stores beside its rows; printing it shows none of it.

    Attributes:
        labels: class of each row, as a declared class or (when classes are words) its position in the list;
            or a `Labelled`, which brings its list.
        classes: the declared class list. Without one, labels must be whole numbers and are kept as they are.
        encoder: identity of the encoder behind the rows.
        sources: where each row came from.
        people: whose each row is, as `PrivateEmbeddings` takes it; who is the same is kept, and no id.
        name: what the ledger files the data set under when it is private.
        public: nobody's data, which `read_public` takes: files get the modes that the umask allows;
            otherwise they are the owner's alone.
        source_digests: of the files or texts behind the rows, as uint64 (`data.source_digests`).
    """

    labels: ArrayLike | Labelled | None = None
    classes: Classes | None = None
    encoder: EncoderIdentity | None = None
    sources: Sequence[str | Path] | None = None
    people: ArrayLike | None = None
    name: str | None = None
    public: bool = False
    source_digests: ArrayLike | None = None


_NONE = RowMetadata()


class _Folder:
    """A folder that is being filled, with its metadata checked against the number of rows."""

    def __init__(self, rows: RowsToWrite, metadata: RowMetadata) -> None:
        self.rows, self.metadata, count = rows, metadata, len(rows)
        self.labels, self.classes = _labels_to_write(metadata.labels, metadata.classes)
        for what, given in (("labels", self.labels), ("sources", metadata.sources)):
            if given is not None and len(given) != count:
                raise DataError(f"rows and {what} must have one entry per example; their lengths differ.")
        people = None if metadata.people is None else person_positions(metadata.people, count)
        digests = one_digest_each(metadata.source_digests, count)
        if metadata.public and people is not None:
            raise DataError("Public rows are nobody's data; people were given. Leave one of the two out.")
        columns = (self.labels, people, None if digests is None else digests.view(np.int64))
        self.columns = {
            name: column for name, column in zip(_COLUMNS, columns, strict=True) if column is not None
        }
        self.opener = None if metadata.public else owner_only
        self.shards: list[tuple[int, str]] = []

    def add_shard(self, count: int, digest: str, total: int) -> None:
        """Count a file of rows that is in the folder."""
        self.shards.append((count, digest))
        if total > 1:
            tell(len(self.shards), total, "shard")

    def complete(self, folder: Path) -> None:
        """Write all but the rows."""
        from dptransfer.data.manifest import Manifest, shard_name  # pydantic: heavy, and not needed to start

        files = {shard_name(number): digest for number, (_, digest) in enumerate(self.shards)}
        for name, column in self.columns.items():
            files[name] = write_column(folder / name, column, self.opener)
        if self.metadata.sources is not None:
            named = [Path(source).as_posix() for source in self.metadata.sources]
            text = json.dumps(named, ensure_ascii=False, indent=0)
            write_synced(folder / SOURCES, text.encode(), opener=self.opener)
            files[SOURCES] = file_digest(folder / SOURCES)
        whole = self.rows.content.copy()
        if self.labels is not None:
            whole.update(form_to_digest(self.labels.dtype, self.labels.shape))
            whole.update(np.ascontiguousarray(self.labels).data)
        manifest = Manifest(
            public=self.metadata.public,
            name=self.metadata.name,
            shards=tuple(count for count, _ in self.shards),
            dimension=self.rows.shape[1],
            dtype=cast(RowType, self.rows.kind.name),
            scale=self.rows.scale,
            finite=True if self.metadata.public and self.rows.finite else None,
            classes=cast(Any, self.classes),
            encoder=self.metadata.encoder,
            files=files,
            fingerprint=whole.hexdigest(),
            rows_fingerprint=self.rows.content.hexdigest(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_synced(folder / MANIFEST, manifest.to_json().encode(), opener=self.opener)


def write_embeddings(
    path: str | Path,
    rows: ArrayLike,
    metadata: RowMetadata = _NONE,
    *,
    overwrite: bool = False,
    dtype: RowType = "float32",
    shard_rows: int | None = None,
    scale: float | None = None,
) -> Path:
    """Write an `.emb` folder, whole or not at all.

    Everything is written to a temporary folder beside `path`, flushed to the disk and renamed into place, so
    a full disk or a kill leaves nothing half-written. With `overwrite` the old folder is moved aside first
    and deleted last.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "tiny.emb"
    >>> write_embeddings(where, [[0.5, 1.0]], RowMetadata(["cat"], classes=["cat", "dog"])).name
    'tiny.emb'

    Args:
        path: the folder to make; its name must end in '.emb'.
        rows: array of shape (examples, dimension), or `ShardedRows`; written in chunks, so it may be on disk.
        metadata: what is stored beside the rows.
        overwrite: replace an `.emb` folder that is there already.
        dtype: element type on disk; int8 for rows that are int8 already.
        shard_rows: the number of rows in each file; by default all are in one.
        scale: what int8 values are multiplied with to be rows, in float32; 1 without it.

    Returns:
        The folder written.
    """
    from dptransfer.data.manifest import shard_name

    target = require_target(path, overwrite=overwrite)
    array = RowsToWrite(rows, dtype, scale)
    size = max(1, len(array)) if shard_rows is None else checks.whole("shard_rows", shard_rows)
    made = _Folder(array, metadata)
    with _filled(target, public=metadata.public) as folder:
        for start in range(0, len(array), size):
            stop, file = min(len(array), start + size), folder / shard_name(start // size)
            digest = write_rows(file, array, start, stop, made.opener)
            made.add_shard(stop - start, digest, -(-len(array) // size))
        made.complete(folder)
    return target


def finish_shards(
    path: str | Path,
    files: Sequence[str | Path],
    metadata: RowMetadata = _NONE,
    *,
    overwrite: bool = False,
    scale: float | None = None,
) -> Path:
    """Make an `.emb` folder of complete `.npy` files, which are moved in; whole or not at all.

    The files are read once, for checksums and fingerprint, and never copied. They lose their old names when
    the folder is in place, so that whoever is stopped before has them still (on a disk without hard links
    they are lost if the very last step fails).

    Args:
        path: the folder to make, on the same disk as the files.
        files: float16, float32, float64 or int8 rows, in order; `.npy`, all of one width and type.
        metadata: what is stored beside the rows. Public files keep their modes; others are made the owner's.
        overwrite: replace an `.emb` folder that is there already.
        scale: of int8 rows.

    Returns:
        The folder written.
    """
    from dptransfer.data.manifest import shard_name

    target, drafts = require_target(path, overwrite=overwrite), require_drafts(files, scale)
    rows = RowsToWrite(drafts, drafts.stored.name, None)
    made = _Folder(rows, metadata)
    with _filled(target, public=metadata.public) as folder:
        for shard in drafts.shards:
            made.add_shard(shard.count, digest_shard(shard, rows), len(drafts.shards))
        for number, draft in enumerate(drafts.files):
            link_or_rename(draft, folder / shard_name(number))
            if not metadata.public:
                (folder / shard_name(number)).chmod(0o600)
        made.complete(folder)
    for draft in drafts.files:
        with suppress(OSError):
            draft.unlink()
    return target


def read_store(path: str | Path, *, verify: bool = True) -> RawTable:
    """Read an `.emb` folder; rows are memory-mapped.

    Floats in one file are an array. Other rows are `ShardedRows`.

    Args:
        path: the folder.
        verify: compare every file with its checksum first (one streaming pass over the rows).
    """
    from dptransfer.data.manifest import read_manifest

    folder = Path(path)
    manifest = read_manifest(folder / MANIFEST)
    there = {file.name for file in folder.iterdir() if file.name.endswith(".npy") or file.name == SOURCES}
    for name in sorted(there ^ manifest.files.keys()):
        found = "is there but not in the manifest" if name in there else "is missing"
        holds = f"an .emb folder holds what its manifest lists; this {found}."
        require(False, folder / name, holds, AGAIN)
    rows = _rows(folder, manifest)
    if verify:
        require_digests([(folder / name, digest) for name, digest in manifest.files.items()])
    count = sum(manifest.shards)
    stored = {name: _one_each(folder / name, count) for name in _COLUMNS if name in manifest.files}
    people, digests = stored.get(PEOPLE), stored.get(DIGESTS)
    return RawTable(
        rows=rows,
        labels=stored.get(LABELS),
        classes=manifest.classes,
        labels_are_positions=manifest.classes is not None,
        encoder=manifest.encoder,
        sources=_read_sources(folder / SOURCES, count) if SOURCES in manifest.files else None,
        name=manifest.name,
        fingerprint=manifest.fingerprint if manifest.classes is not None else None,
        rows_fingerprint=manifest.rows_fingerprint,
        people=None if people is None else person_positions(people, count),
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


@contextmanager
def _filled(target: Path, *, public: bool) -> Iterator[Path]:
    """A folder to fill, which is then in its place; an error says what kept it from getting there."""
    try:
        with replaced_whole(target, Path.mkdir if public else make_owner_folder) as folder:
            yield folder
    except OSError as error:
        raise DataError(
            f"'{target}' must be written whole, and was not: {error.strerror or error}. "
            "Nothing was left behind; free some space or choose another place."
        ) from error


def _labels_to_write(
    labels: ArrayLike | Labelled | None, classes: Classes | None
) -> tuple[Labels | None, tuple[str | int, ...] | None]:
    if labels is None:
        return None, None if classes is None else declared_classes(classes)
    if isinstance(labels, Labelled) or classes is not None:
        labelled = Labelled.of(labels, classes)
        return labelled.positions, labelled.classes
    given = np.asarray(labels)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise DataError("Labels that are not whole numbers need the declared class list. Pass classes=[...].")
    return given.astype(np.int64), None


def _rows(folder: Path, manifest: Manifest) -> AnyArray:
    """The rows in the files that a manifest lists; floats in one file are that file, mapped."""
    if not manifest.shards:
        return np.empty((0, manifest.dimension), manifest.dtype)
    files = [folder / file for file in manifest.shard_files]
    rows = ShardedRows(files, scale=manifest.scale, finite=bool(manifest.finite))
    same = rows.shape[1] == manifest.dimension and rows.stored == manifest.dtype
    require(same, folder, "shape and type must be those in the manifest; they are not.", AGAIN)
    for count, shard in zip(manifest.shards, rows.shards, strict=True):
        as_many = "a shard must have as many rows as the manifest says; it has not."
        require(count == shard.count, shard.file.path, as_many, AGAIN)
    return load_array(files[0]) if len(files) == 1 and rows.scale is None else cast(AnyArray, rows)


def _one_each(file: Path, rows: int) -> Integers:
    whole = "the file must be a complete .npy array; it is damaged or cut short."
    stored = load_array(file, whole, AGAIN)
    one_each = f"there must be one int64 {_COLUMNS[file.name]} per row; there is not."
    require(stored.shape == (rows,) and stored.dtype == np.int64, file, one_each, AGAIN)
    return np.array(stored)  # not before: of elements without a size any number may be declared


def _read_sources(file: Path, rows: int) -> tuple[str, ...]:
    rule = "there must be one source per row; there is not."
    with parsing(file, rule, AGAIN):
        listed = json.loads(file.read_text(encoding="utf-8"))
    require(isinstance(listed, list) and len(listed) == rows, file, rule, AGAIN)
    return tuple(str(source) for source in listed)
