"""The .emb folder: embeddings on disk with their class list, encoder and checksums.

A folder and not one file, so that rows are memory-mapped and a manifest can be read by people:

    rows-00000.npy  (examples, dimension), float32 unless asked otherwise; with shards only the first rows,
    rows-00001.npy  then the next ones, and so on
    labels.npy      int64, positions in the declared class list; absent without labels
    people.npy      int64, the person of each row as a number from 0; absent if unknown. Ids are not kept
    sources.json    where each row came from; absent if unknown
    digests.npy     int64, of the file or text behind each row (`source_digests`); absent if unknown
    manifest.json   see `Manifest`

It belongs to the owner of the rows: labels, people, sources and digests are as private as they are. So
nobody else can read it, whatever the umask says, unless it is written as public. Its manifest says which it
is, and a folder that is not public, a copy of it, or a file in it is never taken for public data.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike

from dptransfer.base import checks
from dptransfer.base.progress import tell
from dptransfer.base.types import AnyArray, Integers
from dptransfer.base.worker_env import usable_cores
from dptransfer.data import atomic_files
from dptransfer.data.atomic_files import Opener, owner_only, replaced_whole, sync_folder, write_synced
from dptransfer.data.embeddings import rows_of
from dptransfer.data.examples import ContentDigest, IndexedArray, one_digest_each
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.labels import Classes, Labelled, declared_classes, person_positions
from dptransfer.data.numpy_files import load_array
from dptransfer.data.sharded_rows import NpyShard, ShardedRows
from dptransfer.data.tables import RawTable, parsing, require, unreadable
from dptransfer.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RowType = Literal["float16", "float32", "float64", "int8"]
MANIFEST, SOURCES = "manifest.json", "sources.json"
LABELS, PEOPLE, DIGESTS = "labels.npy", "people.npy", "digests.npy"
_COLUMNS = {LABELS: "label", PEOPLE: "person", DIGESTS: "digest"}
READERS = 8
"""Files that are read at a time for their checksums, where there are as many cores."""

_AGAIN = "Restore the folder from a copy, or encode the data again."
_CHUNK = 4096
_Classes: TypeAlias = tuple[str | int, ...] | None


VERSION = 1
"""The schema of this release."""


def shard_name(number: int) -> str:
    """The file of a shard, by its number from 0."""
    return f"rows-{number:05}.npy"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything about an `.emb` folder except the numbers.

    Attributes:
        format: always 'dptransfer-embeddings'.
        version: schema version.
        public: whether the rows are nobody's data; others, and copies of them, are never public.
        name: the data set's name, for the ledger.
        shards: the number of rows in each file of rows, in order.
        dimension: width of a row.
        dtype: element type of the rows.
        scale: what int8 values are multiplied with to be rows; None for floats.
        finite: whether all rows of a public folder were found to be finite.
        classes: the declared class list; labels are positions in it. None: labels are whole numbers as given.
        encoder: the encoder behind the rows, if on record.
        files: SHA-256 of each file in the folder.
        fingerprint: SHA-256 of rows and labels, as `PrivateEmbeddings.fingerprint` computes it.
        rows_fingerprint: SHA-256 of the rows, as `PublicEmbeddings.fingerprint` computes it.
        created: time of writing, UTC, ISO 8601.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    format: Literal["dptransfer-embeddings"] = "dptransfer-embeddings"
    version: Literal[1] = 1
    public: bool
    name: str | None
    shards: tuple[int, ...]
    dimension: int
    dtype: RowType
    scale: float | None
    finite: bool | None
    classes: tuple[str, ...] | tuple[int, ...] | None
    encoder: EncoderIdentity | None
    files: dict[str, str]
    fingerprint: str
    rows_fingerprint: str
    created: str

    @property
    def shard_files(self) -> list[str]:
        """The files of rows, in order."""
        return [shard_name(number) for number in range(len(self.shards))]

    def to_json(self) -> str:
        """What `read_manifest` reads."""
        fields = asdict(self) | {"encoder": None if self.encoder is None else self.encoder.to_dict()}
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of an `.emb` folder from its file, and check it."""
    from pydantic import ValidationError

    absent = f"an .emb folder must hold {path.name}, and this one does not."
    again = "Write it again with write_embeddings or 'dptransfer encode'."
    require(path.exists(), path.parent, absent, again)
    with parsing(path, "the manifest must be JSON; it is not.", "Restore or rewrite it."):
        content = path.read_text(encoding="utf-8")
        fields: object = json.loads(content)
    version = fields.get("version") if isinstance(fields, dict) else None
    newer = isinstance(version, int) and version > VERSION
    rule = f"the manifest must have schema version {VERSION}; it has {version}."
    require(not newer, path, rule, "Upgrade dptransfer to read it.")
    try:
        found = _schema().validate_json(content)
        odd = _odd_field(found)
    except ValidationError as error:
        odd = str(next(iter(error.errors()[0]["loc"]), "the whole file"))
    if odd is not None:
        rule = f"the manifest must follow schema version {VERSION}; the field '{odd}' does not."
        raise unreadable(path, rule, "Restore or rewrite it.")
    return found


@cache
def _schema() -> TypeAdapter[Manifest]:
    """Takes longer to make than a manifest does to read; pydantic takes long to load, too."""
    from pydantic import TypeAdapter

    return TypeAdapter(Manifest)


def _odd_field(manifest: Manifest) -> str | None:
    """A field that `write_embeddings` cannot have written, or that contradicts another."""
    scale, rows = manifest.scale, manifest.files.keys() - _COLUMNS.keys() - {SOURCES}
    digests = (*manifest.files.values(), manifest.fingerprint, manifest.rows_fingerprint)
    holds = {
        "files": all(re.fullmatch(r"rows-[0-9]{5,9}\.npy", name) for name in rows),
        "shards": all(count >= 1 for count in manifest.shards) and rows == {*manifest.shard_files},
        "dimension": manifest.dimension >= 1,
        "scale": scale is None if manifest.dtype != "int8" else scale is not None and 1e-12 <= scale <= 1e12,
        "files or fingerprints": all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests),
    }
    return next((name for name, held in holds.items() if not held), None)


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
        source_digests: of the files or texts behind the rows, as uint64.
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
    target, array, scale = require_target(path, overwrite=overwrite), *_rows_to_write(rows, dtype, scale)
    count, opener = len(array), None if metadata.public else owner_only
    # Without rows there is nothing to keep small.
    kind = np.dtype("<f4") if scale is not None and not count else np.dtype(dtype).newbyteorder("<")
    size = max(1, count) if shard_rows is None else checks.whole("shard_rows", shard_rows)
    columns, classes = _columns_to_write(metadata, count)
    with _filled(target, public=metadata.public) as folder:
        files = [folder / shard_name(number) for number in range(-(-count // size))]
        for file, start in zip(files, range(0, count, size), strict=True):
            _write_array(file, array, slice(start, min(count, start + size)), kind, opener)
        written = ShardedRows(files, scale=scale) if files else np.empty(array.shape, kind)
        _complete(folder, written, metadata, columns, classes)
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

    The files are read for checksums and fingerprint, and never copied. They lose their old names when the
    folder is in place, so that whoever is stopped before has them still (on a disk without hard links they
    are lost if the very last step fails).

    Args:
        path: the folder to make, on the same disk as the files.
        files: float16, float32, float64 or int8 rows, in order; `.npy`, all of one width and type.
        metadata: what is stored beside the rows. Public files keep their modes; others are made the owner's.
        overwrite: replace an `.emb` folder that is there already.
        scale: of int8 rows.

    Returns:
        The folder written.
    """
    target, drafts = require_target(path, overwrite=overwrite), ShardedRows(files, scale=scale)
    for shard in drafts.shards:
        plain = isinstance(shard, NpyShard) and not shard.by_column
        require(plain, shard.file.path, "a shard must be an .npy file, row by row.", "Save it in C order.")
    once = len(drafts.files) == len(files)
    require(once, drafts.files[0], "a file can be one shard only; one is named twice.", "Name it once.")
    columns, classes = _columns_to_write(metadata, len(drafts))
    with _filled(target, public=metadata.public) as folder:
        moved = [folder / shard_name(number) for number in range(len(files))]
        for draft, file in zip(drafts.files, moved, strict=True):
            link_or_rename(draft, file)
            if not metadata.public:
                file.chmod(0o600)
            sync_folder(file)
        _complete(folder, ShardedRows(moved, scale=scale), metadata, columns, classes)
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
    folder = Path(path)
    manifest = read_manifest(folder / MANIFEST)
    there = {file.name for file in folder.iterdir() if file.name.endswith(".npy") or file.name == SOURCES}
    for name in sorted(there ^ manifest.files.keys()):
        found = "is there but not in the manifest" if name in there else "is missing"
        rule = f"an .emb folder holds what its manifest lists; this {found}."
        raise unreadable(folder / name, rule, _AGAIN)
    rows = _rows(folder, manifest)
    if verify:
        digests_now = _file_digests([folder / name for name in manifest.files])
        for done, (name, digest) in enumerate(digests_now, 1):
            changed = "the checksum in the manifest must hold; the file has changed."
            require(digest == manifest.files[name], folder / name, changed, _AGAIN)
            tell(done, len(manifest.files), "checksum")
    count = sum(manifest.shards)
    stored = {name: _one_each(folder / name, count) for name in _COLUMNS if name in manifest.files}
    people, digests, labels = stored.get(PEOPLE), stored.get(DIGESTS), stored.get(LABELS)
    if labels is not None and manifest.classes is not None and not isinstance(manifest.classes[0], str):
        labels = np.asarray(manifest.classes)[labels]  # whole numbers are positions among words alone
    return RawTable(
        rows=rows,
        labels=labels,
        classes=manifest.classes,
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


def link_or_rename(file: Path, place: Path) -> None:
    """Give a file a second name; on a disk that knows no hard links, a new one."""
    try:
        os.link(file, place)
    except OSError:
        file.rename(place)


@contextmanager
def _filled(target: Path, *, public: bool) -> Iterator[Path]:
    """A folder to fill, which is then in its place; an error says what kept it from getting there."""
    try:
        with replaced_whole(target, Path.mkdir if public else atomic_files.make_owner_folder) as folder:
            yield folder
    except OSError as error:
        rule = f"'{target}' must be written whole, and was not: {error.strerror or error}."
        raise DataError(f"{rule} Nothing was left behind; free space or choose another place.") from error


def _rows_to_write(rows: ArrayLike, dtype: RowType, scale: float | None) -> tuple[IndexedArray, float | None]:
    """The rows, checked, and what int8 values are multiplied with; None for floats."""
    checks.one_of("dtype", dtype, get_args(RowType))
    if dtype != "int8":
        if scale is not None:
            raise ArgumentError(f"scale is for rows of dtype 'int8'; these are {dtype}. Leave it out.")
        return rows_of(rows, "rows"), None
    array = rows if isinstance(rows, ShardedRows) else np.asarray(rows)
    stored, own = (array.stored, array.scale) if isinstance(array, ShardedRows) else (array.dtype, None)
    if stored != np.int8 or array.ndim != 2 or (own is not None and scale is not None):
        rule = f"Rows of dtype 'int8' must be a table of int8, with one scale; got {stored}."
        raise ArgumentError(f"{rule} Round them yourself, and pass scale=... where files have none.")
    return array, own or checks.moderate("scale", 1.0 if scale is None else scale)


def _columns_to_write(metadata: RowMetadata, count: int) -> tuple[Mapping[str, Integers], _Classes]:
    """A whole number for each row, by the name of its file, and the class list."""
    labels, classes = metadata.labels, metadata.classes
    own: Integers | None = None
    listed = None if classes is None else declared_classes(classes)
    if isinstance(labels, Labelled) or (labels is not None and classes is not None):
        labelled = Labelled.of(labels, classes)
        own, listed = labelled.positions, labelled.classes
    elif labels is not None:
        given = np.asarray(labels)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise DataError("Labels that are not whole numbers need the class list. Pass classes=[...].")
        own = given.astype(np.int64)
    for what, one_each in (("labels", own), ("sources", metadata.sources)):
        if one_each is not None and len(one_each) != count:
            rule = f"rows and {what} must have one entry per example; their lengths differ."
            raise DataError(f"{rule} Give one per row.")
    people = None if metadata.people is None else person_positions(metadata.people, count)
    if metadata.public and people is not None:
        raise DataError("Public rows are nobody's data; people were given. Leave one of the two out.")
    digests = one_digest_each(metadata.source_digests, count)
    columns = (own, people, None if digests is None else digests.view(np.int64))
    return {name: one for name, one in zip(_COLUMNS, columns, strict=True) if one is not None}, listed


def _write_array(
    file: Path, array: IndexedArray, where: slice, kind: np.dtype[np.generic], opener: Opener | None
) -> None:
    """Write a part of an array as an `.npy` file, flushed to the disk."""
    read: Callable[[slice], AnyArray] = array.__getitem__
    if isinstance(array, ShardedRows) and kind == np.int8:
        read = partial(array.read, as_stored=True)
    shape = (where.stop - where.start, *array.shape[1:])
    # Plain writes, not a memory map: on a full disk a write raises, a store into a map kills the process.
    with open(file, "xb", opener=opener) as stream, np.errstate(all="ignore"):
        npy.write_array_header_1_0(stream, {"descr": kind.str, "fortran_order": False, "shape": shape})
        for start in range(where.start, where.stop, _CHUNK):
            chunk = read(slice(start, min(where.stop, start + _CHUNK)))
            stream.write(np.ascontiguousarray(chunk, dtype=kind).data)
        stream.flush()
        os.fsync(stream.fileno())


def _complete(
    folder: Path,
    rows: ShardedRows | AnyArray,
    metadata: RowMetadata,
    columns: Mapping[str, Integers],
    classes: _Classes,
) -> None:
    """Write all but the rows, which are in the folder, or an empty array."""
    opener = None if metadata.public else owner_only
    for name, column in columns.items():
        _write_array(folder / name, column, slice(0, len(column)), np.dtype("<i8"), opener)
    if metadata.sources is not None:
        named = [Path(source).as_posix() for source in metadata.sources]
        text = json.dumps(named, ensure_ascii=False, indent=0)
        write_synced(folder / SOURCES, text.encode(), opener=opener)
    shards = rows.shards if isinstance(rows, ShardedRows) else ()
    content = ContentDigest.of(rows, *(columns[name] for name in columns if name == LABELS))
    manifest = Manifest(
        public=metadata.public,
        name=metadata.name,
        shards=tuple(shard.count for shard in shards),
        dimension=rows.shape[1],
        dtype=cast(RowType, (rows.stored if isinstance(rows, ShardedRows) else rows.dtype).name),
        scale=rows.scale if isinstance(rows, ShardedRows) else None,
        finite=True if metadata.public and content.first_bad is None else None,
        classes=cast("tuple[str, ...] | tuple[int, ...] | None", classes),
        encoder=metadata.encoder,
        files=dict(_file_digests(sorted(folder.iterdir()))),
        fingerprint=content.of_all,
        rows_fingerprint=content.of_first,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_synced(folder / MANIFEST, manifest.to_json().encode(), opener=opener)


def _file_digests(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Each file's name and SHA-256; several are read at a time."""

    def digest(file: Path) -> str:
        with parsing(file, "the file must be readable; it is not.", _AGAIN), file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    with ThreadPoolExecutor(min(READERS, usable_cores())) as threads:
        yield from zip([file.name for file in files], threads.map(digest, files), strict=True)


def _rows(folder: Path, manifest: Manifest) -> AnyArray:
    """The rows in the files that a manifest lists; floats in one file are that file, mapped."""
    if not manifest.shards:
        return np.empty((0, manifest.dimension), manifest.dtype)
    files = [folder / file for file in manifest.shard_files]
    rows = ShardedRows(files, scale=manifest.scale, finite=bool(manifest.finite))
    same = rows.shape[1] == manifest.dimension and rows.stored == manifest.dtype
    require(same, folder, "shape and type must be those in the manifest; they are not.", _AGAIN)
    for count, shard in zip(manifest.shards, rows.shards, strict=True):
        require(count == shard.count, shard.file.path, "it does not have as many rows as listed.", _AGAIN)
    return load_array(files[0]) if len(files) == 1 and rows.scale is None else cast(AnyArray, rows)


def _one_each(file: Path, rows: int) -> Integers:
    whole = "the file must be a complete .npy array; it is damaged or cut short."
    stored = load_array(file, whole, _AGAIN)
    one_each = f"there must be one int64 {_COLUMNS[file.name]} per row; there is not."
    require(stored.shape == (rows,) and stored.dtype == np.int64, file, one_each, _AGAIN)
    return np.array(stored)  # not before: of elements without a size any number may be declared


def _read_sources(file: Path, rows: int) -> tuple[str, ...]:
    rule = "there must be one source per row; there is not."
    with parsing(file, rule, _AGAIN):
        listed = json.loads(file.read_text(encoding="utf-8"))
    require(isinstance(listed, list) and len(listed) == rows, file, rule, _AGAIN)
    return tuple(str(source) for source in listed)
