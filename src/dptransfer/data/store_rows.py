"""Write and digest the files of an .emb folder in one pass."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.arrays import AnyArray
from dptransfer.base.progress import tell
from dptransfer.base.worker_env import cores_here
from dptransfer.data.atomic_files import Opener
from dptransfer.data.embeddings import rows_of
from dptransfer.data.examples import finite_rows, form_to_digest
from dptransfer.data.shard_files import NpyShard
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.tables import parsing, require, unreadable
from dptransfer.errors import ArgumentError

AGAIN = "Restore the folder from a copy, or encode the data again."
READERS = 8
"""Files that are read at a time for their checksums, where there are as many cores."""

_CHUNK = 4096


class RowsToWrite:
    """Rows as they will be on disk, a chunk at a time, and what is found out about them on the way.

    Args:
        rows: an array, or `ShardedRows`.
        dtype: element type on disk. Rows that are stored as int8 must be int8: nobody scales them here.
        scale: of int8 rows that are an array; those of `ShardedRows` have theirs.
    """

    def __init__(self, rows: Any, dtype: str, scale: float | None) -> None:
        checks.one_of("dtype", dtype, ("float16", "float32", "float64", "int8"))
        sharded, self.scale = isinstance(rows, ShardedRows), None
        if dtype != "int8":
            self._rows: Any = rows_of(rows, "rows")
            if scale is not None:
                raise ArgumentError(f"scale is for rows of dtype 'int8'; these are {dtype}. Leave it out.")
        else:
            self._rows = rows if sharded else np.asarray(rows)
            own = self._rows.stored if sharded else self._rows.dtype
            if own != np.int8 or self._rows.ndim != 2 or (sharded and scale is not None):
                raise ArgumentError(
                    f"Rows of dtype 'int8' must be a table of int8, with one scale; got {own}. "
                    "Round them yourself, and pass scale=... where files have none of their own."
                )
            self.scale = rows.scale if sharded else checks.moderate("scale", 1.0 if scale is None else scale)
            if not len(self._rows):  # there is nothing to keep small, and a shard has rows
                self._rows, self.scale, dtype = self._rows.astype(np.float32), None, "float32"
        self.shape: tuple[int, int] = self._rows.shape
        self.kind = np.dtype(dtype).newbyteorder("<")
        given = self.kind if self.scale is None else np.dtype("<f4")
        self.content = hashlib.sha256(form_to_digest(given, self.shape))
        self.finite = True

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self, start: int, stop: int) -> Iterator[AnyArray]:
        """The rows between two positions; each must be asked for once, in order."""
        for begin in range(start, stop, _CHUNK):
            part = slice(begin, min(stop, begin + _CHUNK))
            stored = self.kind == np.int8 and isinstance(self._rows, ShardedRows)
            read = self._rows.read(part, as_stored=True) if stored else self._rows[part]
            with np.errstate(all="ignore"):
                yield np.ascontiguousarray(read, dtype=self.kind)

    def see(self, chunk: AnyArray) -> None:
        """Take note of the next chunk as it is stored: the fingerprint is that of the rows it stands for."""
        if self.scale is not None:
            chunk = chunk.astype("<f4")
            chunk *= np.float32(self.scale)
        self.content.update(chunk.data)
        self.finite = self.finite and bool(finite_rows(chunk).all())


def write_rows(file: Path, rows: RowsToWrite, start: int, stop: int, opener: Opener | None) -> str:
    """Write the rows between two positions as an `.npy` file, flushed to the disk; its SHA-256."""
    shape = (stop - start, rows.shape[1])
    return _write(file, shape, rows.kind, rows.chunks(start, stop), opener, rows)


def write_column(file: Path, column: AnyArray, opener: Opener | None) -> str:
    """Write a whole number per row as an `.npy` file, flushed to the disk; its SHA-256."""
    kind = np.dtype("<i8")
    chunks = (column[start : start + 2**16].astype(kind) for start in range(0, len(column), 2**16))
    return _write(file, column.shape, kind, chunks, opener)


def _write(
    file: Path,
    shape: tuple[int, ...],
    kind: np.dtype[Any],
    chunks: Iterable[AnyArray],
    opener: Opener | None,
    rows: RowsToWrite | None = None,
) -> str:
    # Plain writes, not a memory map: on a full disk a write raises, a store into a map kills the process.
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind.str, "fortran_order": False, "shape": shape})
    with open(file, "wb", opener=opener) as stream:
        stream.write(header.getvalue())
        digest = _digested(header.getvalue(), _written(chunks, stream), rows)
        stream.flush()
        os.fsync(stream.fileno())
    return digest


def _written(chunks: Iterable[AnyArray], stream: Any) -> Iterator[AnyArray]:
    for chunk in chunks:
        stream.write(chunk.data)
        yield chunk


def _digested(header: bytes, chunks: Iterable[AnyArray], rows: RowsToWrite | None) -> str:
    """SHA-256 of a file of this header and these chunks, which `rows` sees in a thread of its own."""
    digest = hashlib.sha256(header)
    with ThreadPoolExecutor(1) as beside:
        for chunk in chunks:
            seen = None if rows is None else beside.submit(rows.see, chunk)
            digest.update(chunk.data)
            if seen is not None:
                seen.result()
    return digest.hexdigest()


def require_drafts(files: Sequence[str | Path], scale: float | None) -> ShardedRows:
    """Complete files that can be moved into a folder as they are, or an error."""
    rows = ShardedRows(files, scale=scale)
    for shard in rows.shards:
        plain = isinstance(shard, NpyShard) and not shard.by_column
        require(plain, shard.file.path, "a shard must be an .npy file, row by row.", "Save it in C order.")
    once = len(rows.files) == len(files)
    require(once, rows.files[0], "a file can be one shard only; one is named twice.", "Name it once.")
    return rows


def digest_shard(shard: Any, rows: RowsToWrite) -> str:
    """SHA-256 of the file of a shard of `rows`, which see it in the same pass; it is on the disk then."""
    with shard.file.opened() as stream:
        header = stream.read(shard.start)
        if os.name == "posix":  # elsewhere only who writes a file can flush it
            os.fsync(stream.fileno())
    parts = (slice(start, min(shard.count, start + _CHUNK)) for start in range(0, shard.count, _CHUNK))
    return _digested(header, (shard.read(part) for part in parts), rows)


def link_or_rename(file: Path, place: Path) -> None:
    """Give a file a second name; on a disk that knows no hard links, a new one."""
    try:
        os.link(file, place)
    except OSError:
        file.rename(place)


def require_digests(expected: Sequence[tuple[Path, str]]) -> None:
    """Raise unless each file has its SHA-256; several are read at a time."""
    with ThreadPoolExecutor(min(READERS, len(cores_here()))) as threads:
        found = threads.map(file_digest, [file for file, _ in expected])
        try:
            for done, ((file, digest), own) in enumerate(zip(expected, found, strict=True), 1):
                changed = "the checksum in the manifest must hold; the file has changed."
                if own != digest:
                    raise unreadable(file, changed, AGAIN)
                tell(done, len(expected), "checksum")
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def file_digest(file: Path) -> str:
    """SHA-256 of a file."""
    with parsing(file, "the file must be readable; it is not.", AGAIN), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
