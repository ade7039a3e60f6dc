"""The file of records: one JSON object per line, only ever appended, safe against a kill at any moment.

One process writes, and holds a lock while it does. A line is one `write` followed by `fsync`, so that a kill
leaves whole lines and at most one torn one at the end, which the next writer cuts off and every reader skips.
A cell that has a result is never written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dptransfer.errors import DataError

Record = dict[str, Any]
FILE = "results.jsonl"
_LOCK = ".lock"


class RecordFile:
    """The only writer of a results folder; use it as a context.

    Attributes:
        folder: the results folder.
        finished: the status of every cell that has a result, by content address.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.finished: dict[str, str] = {}

    def __enter__(self) -> RecordFile:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / FILE
        with ExitStack() as opened:
            opened.callback(os.close, _locked(self.folder / _LOCK))  # which gives the lock back
            self._handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            opened.callback(os.close, self._handle)
            os.ftruncate(self._handle, file.read_bytes().rfind(b"\n") + 1)  # the rest is the trace of a kill
            self.finished = {record["cell"]: record["status"] for record in lines_of(file)}
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def append(self, record: Record) -> None:
        """Add one record; a cell that is done already is refused, a failed one may be tried again."""
        cell = record["cell"]
        if self.finished.get(cell, "failed") != "failed":
            raise DataError(
                f"A cell has one result; {cell[:12]} has one already. This is a mistake of the sweep's."
            )
        line = (canonical(record) + "\n").encode()
        if os.write(self._handle, line) != len(line):
            raise DataError(
                f"A record must be written whole; '{self.folder / FILE}' has no room. Free some space and "
                "run again: nothing is lost."
            )
        os.fsync(self._handle)
        self.finished[cell] = record["status"]


def lines_of(file: Path) -> Iterator[Record]:
    """The records of a file, in order, without a torn last one."""
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
            record["cell"], record["status"]
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"Every line of '{file}' must be a record; line {number} is not. "
                "Somebody else changed the file: take that line out."
            ) from None
        yield record


def canonical(value: Any) -> str:
    """JSON in one form for one value: sorted, without spaces; numbers JSON does not have are refused."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _locked(file: Path) -> int:
    """An open handle that no other process has at the same time; the system frees it when we end."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise DataError(
            f"One sweep at a time writes to a folder; another is at work in '{file.parent}'. "
            "Wait for it, or pass another --out."
        ) from None
    return handle
