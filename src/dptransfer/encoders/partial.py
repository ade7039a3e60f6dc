"""The unfinished part of an encoding, on disk, so that a killed run goes on where it stopped.

    <out>.partial/job.json        what is being encoded: a digest of the items, the encoder and the batch size
    <out>.partial/rows.bin        finished batches, each at its own place
    <out>.partial/journal.jsonl   one line per finished batch, with a checksum of its rows

A batch's rows reach the disk before its line is written, so a line never promises rows that are not there.
The folder is the owner's alone, as the rows may be private.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.arrays import EncodedRows, Floats32
from dptransfer.data.drafts import draft_folder, kept_on_disk
from dptransfer.data.on_disk import write_synced
from dptransfer.data.owner_only import owner_only


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
