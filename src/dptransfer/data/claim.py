"""Claim an output path: one process at a time writes to it, and removes what a killed one left there.

    .<out>.dptransfer.lock      empty; locked by the process that writes `out`, and removed by it
    .<out>.dptransfer.writing   a file or folder that is not whole yet, or is being deleted
    .<out>.dptransfer.old       what `out` replaces, for a moment, where two names cannot be exchanged at once

The operating system drops the lock when its process ends, however it ends. So whoever holds the claim knows
that no one is at work on the other two: they were left by a process that was killed. A disk that knows no
locks cannot keep a second process away.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from dptransfer.data.owner_only import owner_only
from dptransfer.errors import DataError

_TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # where others can write, they may have put one there
_claims: ContextVar[frozenset[Path]] = ContextVar("_claims", default=frozenset())
"""What this thread has claimed already, so that writing inside of a claim asks for no second one."""


def unfinished_name(out: Path) -> Path:
    """Where `out` is while it is written, or while it is deleted."""
    return _beside(out, "writing")


def replaced_name(out: Path) -> Path:
    """Where the former `out` is between two renames."""
    return _beside(out, "old")


@contextmanager
def claim(out: Path) -> Iterator[None]:
    """Hold the claim on `out` inside the block; folders above it are made, and removed if they stay empty.

    Args:
        out: the file or folder to be written.

    Raises:
        DataError: another process has it, or nothing can be written there.
    """
    if out.name in ("", ".."):  # the name of what is above, or of here, is not said
        raise DataError(f"What is written must be called by its own name; '{out}' has none. Name it.")
    place = Path(os.path.realpath(out.absolute().parent)) / out.name
    if place in _claims.get():
        yield
        return
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        handle = _lock_file(place, out)
    except OSError as problem:
        _remove_empty(missing)
        raise DataError(
            f"'{out}' must be a place that can be written; it is not ({problem.strerror or problem}). "
            "Free some space, change its permissions, or choose another place."
        ) from problem
    _claims.set(_claims.get() | {place})
    try:
        _remove_left_behind(place)
        yield
    finally:
        _claims.set(_claims.get() - {place})
        with suppress(OSError):
            _beside(place, "lock").unlink()  # while it is locked: nobody else can have come to hold it
        os.close(handle)
        _remove_empty(missing)


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def try_lock(handle: int) -> bool:
    """Whether the open file could be locked; closing it ends the lock, and so does the end of the process."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in _TAKEN  # else the disk knows no locks
    return True


def _lock_file(place: Path, out: Path) -> int:
    """The lock file, open and locked."""
    file = _beside(place, "lock")
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = owner_only(file, os.O_CREAT | os.O_RDWR | _NO_LINK)
        except FileNotFoundError:
            if not file.parent.is_dir():  # it was removed by whoever had made it
                continue
            raise  # a folder in which nothing can be made, such as /proc
        if not try_lock(handle):
            os.close(handle)
            raise DataError(
                f"One process at a time writes to a place; another is writing '{out}'. "
                "Wait for it, or choose another place."
            )
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        os.close(handle)  # whoever had it was done, and removed it


def _remove_left_behind(place: Path) -> None:
    former = replaced_name(place)
    if os.path.lexists(former) and not os.path.lexists(place):
        former.rename(place)  # killed between two renames
    for left in (unfinished_name(place), former):
        remove(left)


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:  # innermost first
        with suppress(OSError):
            folder.rmdir()


def _beside(out: Path, ending: str) -> Path:
    return out.with_name(f".{out.name}.dptransfer.{ending}")
