"""The `.emb` folder: embeddings on disk with their class list, encoder and checksums.

A folder and not one file, so that rows are memory-mapped and a manifest can be read by people:

    rows.npy        (examples, dimension), float32 unless asked otherwise
    labels.npy      int64, positions in the declared class list; absent without labels
    people.npy      int64, the person of each row as a number from 0; absent if unknown. Ids are not kept
    sources.json    where each row came from; absent if unknown
    manifest.json   see `dptransfer.data.manifest`

It belongs to the owner of the rows: labels, people, sources and fingerprints are as private as they are.
So nobody else can read it, whatever the umask says, unless it is written as public.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers, Labels, People
from dptransfer.data.class_names import declared_classes
from dptransfer.data.embeddings import rows_of
from dptransfer.data.examples import content_digest
from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.labelled import Labelled
from dptransfer.data.numpy_files import load_array
from dptransfer.data.on_disk import Opener, replaced_whole, write_synced
from dptransfer.data.owner_only import make_owner_folder, owner_only
from dptransfer.data.parsing import parsing
from dptransfer.data.people import person_positions
from dptransfer.data.table import RawTable, require, unreadable
from dptransfer.errors import DataError

RowType = Literal["float16", "float32", "float64"]
ROWS, LABELS, PEOPLE, SOURCES = "rows.npy", "labels.npy", "people.npy", "sources.json"
MANIFEST = "manifest.json"
_CHUNK = 4096


def write_embeddings(
    path: str | Path,
    rows: ArrayLike,
    labels: ArrayLike | Labelled | None = None,
    *,
    classes: Sequence[str | int] | None = None,
    encoder: EncoderIdentity | None = None,
    sources: Sequence[str | Path] | None = None,
    people: ArrayLike | None = None,
    name: str | None = None,
    overwrite: bool = False,
    dtype: RowType = "float32",
    public: bool = False,
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
        rows: array of shape (examples, dimension); written in chunks, so it may be memory-mapped.
        labels: class of each row, as a declared class or (when classes are words) its position in the list;
            or a `Labelled`, which brings its list.
        classes: the declared class list. Without one, labels must be whole numbers and are kept as they are.
        encoder: identity of the encoder behind the rows.
        sources: where each row came from; kept beside the rows.
        people: whose each row is, as `PrivateEmbeddings` takes it; who is the same is kept, and no id.
        name: what the ledger files the data set under when it is private.
        overwrite: replace an `.emb` folder that is there already.
        dtype: element type on disk.
        public: nobody's data: files get the modes that the umask allows; otherwise they are the owner's
            alone.

    Returns:
        The folder written.
    """
    from dptransfer.data.manifest import Manifest  # pydantic: heavy, and not needed to start

    target = require_target(path, overwrite=overwrite)
    array = rows_of(rows, "rows")
    positions, listed = _labels_to_write(labels, classes)
    for what, given in (("labels", positions), ("sources", sources)):
        if given is not None and len(given) != len(array):
            raise DataError(f"rows and {what} must have one entry per example; their lengths differ.")
    whose = None if people is None else person_positions(people, len(array))
    if public and whose is not None:
        raise DataError("Public rows are nobody's data; people were given. Leave one of the two out.")
    _check.one_of("dtype", dtype, ("float16", "float32", "float64"))
    opener = None if public else owner_only
    try:
        with replaced_whole(target, Path.mkdir if public else make_owner_folder) as folder:
            files = {ROWS: _write_rows(folder / ROWS, array, dtype, opener)}
            if positions is not None:
                files[LABELS] = _write_rows(folder / LABELS, positions, "int64", opener)
            if whose is not None:
                files[PEOPLE] = _write_rows(folder / PEOPLE, whose, "int64", opener)
            if sources is not None:
                named = [Path(source).as_posix() for source in sources]
                text = json.dumps(named, ensure_ascii=False, indent=0)
                write_synced(folder / SOURCES, text.encode(), opener=opener)
                files[SOURCES] = _file_digest(folder / SOURCES)
            stored = _mapped(folder / ROWS)
            rows_digest = content_digest(stored)
            manifest = Manifest(
                version=1 if whose is None else 2,
                name=name,
                rows=len(array),
                dimension=array.shape[1],
                dtype=dtype,
                classes=cast(Any, listed),
                encoder=encoder,
                files=cast(Any, files),
                fingerprint=rows_digest if positions is None else content_digest(stored, positions),
                rows_fingerprint=rows_digest,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            del stored
            write_synced(folder / MANIFEST, manifest.to_json().encode(), opener=opener)
    except OSError as error:
        raise DataError(
            f"'{target}' must be written whole, and was not: {error.strerror or error}. "
            "Nothing was left behind; free some space or choose another place."
        ) from error
    return target


def read_store(path: str | Path, *, verify: bool = True) -> RawTable:
    """Read an `.emb` folder; rows are memory-mapped.

    Args:
        path: the folder.
        verify: compare every file with its checksum first (one streaming pass over the rows).
    """
    from dptransfer.data.manifest import read_manifest

    folder = Path(path)
    manifest = read_manifest(folder / MANIFEST)
    for name in (ROWS, LABELS, PEOPLE, SOURCES):
        file, expected = folder / name, manifest.files.get(cast(Any, name))
        found = "is there but not in the manifest" if file.exists() else "is missing"
        matched = file.exists() == (expected is not None) and (expected is not None or name != ROWS)
        require(matched, file, f"an .emb folder holds what its manifest lists; this {found}.", _AGAIN)
        if verify and expected is not None and _file_digest(file) != expected:
            raise unreadable(file, "the checksum in the manifest must hold; the file has changed.", _AGAIN)
    rows = _mapped(folder / ROWS)
    same = rows.shape == (manifest.rows, manifest.dimension) and rows.dtype == manifest.dtype
    require(same, folder / ROWS, "shape and type must be those in the manifest; they are not.", _AGAIN)
    labels = _one_each(folder / LABELS, "label", manifest.rows) if LABELS in manifest.files else None
    people: People | None = None
    if PEOPLE in manifest.files:
        people = person_positions(_one_each(folder / PEOPLE, "person", manifest.rows), manifest.rows)
    return RawTable(
        rows=rows,
        labels=labels,
        classes=manifest.classes,
        labels_are_positions=manifest.classes is not None,
        encoder=manifest.encoder,
        sources=_read_sources(folder / SOURCES, manifest.rows) if SOURCES in manifest.files else None,
        name=manifest.name,
        fingerprint=manifest.fingerprint if manifest.classes is not None else None,
        rows_fingerprint=manifest.rows_fingerprint,
        people=people,
    )


_AGAIN = "Restore the folder from a copy, or encode the data again."


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


def _labels_to_write(
    labels: ArrayLike | Labelled | None, classes: Sequence[str | int] | None
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


def _write_rows(file: Path, array: AnyArray, dtype: str, opener: Opener | None) -> str:
    # Plain writes, not a memory map: on a full disk a write raises, a store into a map kills the process.
    with open(file, "wb", opener=opener) as stream:
        kind = np.dtype(dtype).newbyteorder("<")
        header = {"descr": kind.str, "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for start in range(0, len(array), _CHUNK):
            with np.errstate(all="ignore"):
                chunk = np.ascontiguousarray(array[start : start + _CHUNK], dtype=kind)
            stream.write(chunk.data)
        stream.flush()
        os.fsync(stream.fileno())
    return _file_digest(file)


def _file_digest(file: Path) -> str:
    with parsing(file, "the file must be readable; it is not.", _AGAIN), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _mapped(file: Path) -> AnyArray:
    return load_array(file, "the file must be a complete .npy array; it is damaged or cut short.", _AGAIN)


def _one_each(file: Path, what: str, rows: int) -> Integers:
    stored = _mapped(file)
    one_each = stored.shape == (rows,) and stored.dtype == np.int64
    require(one_each, file, f"there must be one int64 {what} per row; there is not.", _AGAIN)
    return np.array(stored)  # not before: of elements without a size any number may be declared


def _read_sources(file: Path, rows: int) -> tuple[str, ...]:
    rule = "there must be one source per row; there is not."
    with parsing(file, rule, _AGAIN):
        listed = json.loads(file.read_text(encoding="utf-8"))
    require(isinstance(listed, list) and len(listed) == rows, file, rule, _AGAIN)
    return tuple(str(source) for source in listed)
