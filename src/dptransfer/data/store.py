"""The .emb folder: embeddings on disk with their class list, encoder and checksums.

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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dptransfer.base import checks
from dptransfer.base.arrays import AnyArray, Integers, People
from dptransfer.base.progress import tell
from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.labels import Classes, Labelled
from dptransfer.data.numpy_files import load_array
from dptransfer.data.people import person_positions
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.store_rows import (
    AGAIN,
    DIGESTS,
    LABELS,
    MANIFEST,
    PEOPLE,
    SOURCES,
    Beside,
    RowsToWrite,
    digest_shard,
    filled,
    place_beside,
    remove_drafts,
    require_digests,
    require_drafts,
    write_rows,
)
from dptransfer.data.tables import RawTable, parsing, require, unreadable

VERSION = 1
"""The schema of this release."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Shard:
    """One of the files that the rows are in.

    Attributes:
        file: its name.
        rows: how many it has.
        sha256: of the file.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    file: Annotated[str, Field(pattern=r"^rows-[0-9]{5,9}\.npy$")]
    rows: Annotated[int, Field(ge=1)]
    sha256: Digest


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything about an `.emb` folder except the numbers.

    Attributes:
        format: always 'dptransfer-embeddings'.
        version: schema version.
        public: whether the rows are nobody's data; others, and copies of them, are never public.
        name: the data set's name, for the ledger.
        rows: number of rows.
        dimension: width of a row.
        dtype: element type of the rows.
        classes: the declared class list; labels are positions in it. None: labels are whole numbers as given.
        encoder: the encoder behind the rows, if on record.
        files: SHA-256 of each file in the folder.
        fingerprint: SHA-256 of rows and labels, as `PrivateEmbeddings.fingerprint` computes it.
        rows_fingerprint: SHA-256 of the rows, as `PublicEmbeddings.fingerprint` computes it.
        created: time of writing, UTC, ISO 8601.
        shards: the files that the rows are in, in order; None: they are in rows.npy.
        scale: what int8 values are multiplied with to be rows; None for floats.
        finite: whether all rows of a public folder were found to be finite.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    format: Literal["dptransfer-embeddings"] = "dptransfer-embeddings"
    version: Literal[1] = 1
    public: bool
    name: str | None
    rows: Annotated[int, Field(ge=0)]
    dimension: Annotated[int, Field(ge=1)]
    dtype: Literal["float16", "float32", "float64", "int8"]
    classes: tuple[str, ...] | tuple[int, ...] | None
    encoder: EncoderIdentity | None
    files: dict[Literal["rows.npy", "labels.npy", "people.npy", "sources.json", "digests.npy"], str]
    fingerprint: Digest
    rows_fingerprint: Digest
    created: str
    shards: tuple[Shard, ...] | None = None
    scale: Annotated[float, Field(ge=1e-12, le=1e12)] | None = None
    finite: bool | None = None

    def to_json(self) -> str:
        """What `read_manifest` reads."""
        fields = asdict(self) | {"encoder": None if self.encoder is None else self.encoder.to_dict()}
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """The checked manifest of an `.emb` folder, from its file."""
    absent = f"an .emb folder must hold {path.name}, and this one does not."
    again = "Write it again with write_embeddings or 'dptransfer encode'."
    require(path.exists(), path.parent, absent, again)
    with parsing(path, "the manifest must be JSON; it is not.", "Restore or rewrite it."):
        content = path.read_text(encoding="utf-8")
        fields: Any = json.loads(content)
    version = fields.get("version") if isinstance(fields, dict) else None
    newer = isinstance(version, int) and version > VERSION
    rule = f"the manifest must have schema version {VERSION}; it has {version}."
    require(not newer, path, rule, "Upgrade dptransfer to read it.")
    try:
        found = _schema().validate_json(content)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole file"
        rule = f"the manifest must follow schema version {VERSION}; the field '{where}' does not."
        raise unreadable(path, rule, "Restore or rewrite it.") from None
    odd = next(_odd_fields(found), None)
    rule = f"the manifest must follow schema version {VERSION}; the field '{odd}' does not."
    require(odd is None, path, rule, "Restore or rewrite it.")
    return found


@cache
def _schema() -> TypeAdapter[Manifest]:
    """Takes longer to make than a manifest does to read."""
    return TypeAdapter(Manifest)


def _odd_fields(manifest: Manifest) -> Iterator[str]:
    """Fields that contradict another."""
    shards, small = manifest.shards, manifest.dtype == "int8"
    if small and shards is None:
        yield "shards"
    if small != (manifest.scale is not None):
        yield "scale"
    if (shards is None) != ("rows.npy" in manifest.files):
        yield "files"
    if shards is not None and len({shard.file for shard in shards}) < len(shards):
        yield "shards (one file twice)"
    if shards is not None and sum(shard.rows for shard in shards) != manifest.rows:
        yield "rows"


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
    size = None if shard_rows is None else checks.whole("shard_rows", shard_rows)
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
