"""A file that is read piece by piece, and must stay what it was when it was first opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dptransfer.data.table import require, unreadable


@dataclass(frozen=True)
class Unchanged:
    """A file by name, with the size and the time of writing that it had at first.

    Whoever opens it again is told if it is another one by now: rows of two versions would be mixed. The
    object holds nothing open, so it travels to other processes.

    Attributes:
        path: where it is.
        size: bytes.
        written: when it was last written, in nanoseconds.
    """

    path: Path
    size: int
    written: int

    @classmethod
    @contextmanager
    def first(cls, path: Path) -> Iterator[tuple[Unchanged, BinaryIO]]:
        """The file as it is now, and open for reading."""
        with _open(path) as stream:
            found = os.fstat(stream.fileno())
            yield cls(path, found.st_size, found.st_mtime_ns), stream

    def __reduce__(self) -> tuple[type[Unchanged], tuple[Path, int, int]]:
        """On its way to another process, which may work in another folder."""
        return Unchanged, (self.path.absolute(), self.size, self.written)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file open for reading, or an error if it is another one by now."""
        with _open(self.path) as stream:
            found = os.fstat(stream.fileno())
            same = (found.st_size, found.st_mtime_ns) == (self.size, self.written)
            rule = "a file must stay as it is; this changed while it was read."
            require(same, self.path, rule, "Start again when nobody writes to it.")
            yield stream


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as problem:
        closed = f"the file must be readable; it is not ({problem.strerror})."
        raise unreadable(path, closed, "Check the path and its permissions.") from None
