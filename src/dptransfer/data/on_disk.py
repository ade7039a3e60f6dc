"""Files and folders that reach the disk whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dptransfer.data.claim import claim, remove, replaced_name, unfinished_name
from dptransfer.errors import DataError

Opener = Callable[[str, int], int]

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def write_synced(path: Path, content: bytes, *, mode: str = "xb", opener: Opener | None = None) -> None:
    """Write, and return when it is on the disk."""
    with open(path, mode, opener=opener) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def write_whole(
    target: Path, content: bytes, *, overwrite: bool = False, opener: Opener | None = None
) -> None:
    """Write a file that bears its name once it is on the disk, and not before.

    Args:
        target: the file; its claim is held meanwhile.
        content: what goes into it.
        overwrite: replace a file that is there; otherwise that is a `FileExistsError`.
        opener: how it is opened, such as `owner_only`.
    """
    with claim(target):
        if not overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        fresh = unfinished_name(target)
        try:
            write_synced(fresh, content, opener=opener)
            put_in_place(fresh, target)
        finally:
            remove(fresh)


def write_if_possible(target: Path, content: bytes) -> None:
    """Write a file of a cache, which others may read and not write; where that fails, it costs time alone."""
    with suppress(OSError, DataError):  # a full disk, say, or another process that writes it just now
        write_whole(target, content, overwrite=True, opener=lambda path, how: os.open(path, how, 0o644))


@contextmanager
def replaced_whole(target: Path, make_folder: Callable[[Path], None] = Path.mkdir) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `target` when the block has ended well.

    It is flushed to the disk, and put in place in one step. If anything fails, what stands there stays, and
    nothing is left behind, nor any folder above; what a kill leaves is removed by the next claim.
    """
    with claim(target):
        fresh = unfinished_name(target)
        try:
            make_folder(fresh)
            yield fresh
            sync_folder(fresh)
            put_in_place(fresh, target)
        finally:
            remove(fresh)


def put_in_place(fresh: Path, target: Path) -> None:
    """Give a finished file or folder its name, in one step; what had it before is removed.

    Where two names cannot be exchanged at once, a folder that stands there is moved aside first; who claims
    the name after a kill in between moves it back.
    """
    former = replaced_name(target)
    if not (fresh.is_dir() and target.exists()):
        fresh.replace(target)
    elif not _exchanged(fresh, target):
        target.rename(former)
        try:
            fresh.rename(target)
        except BaseException:
            former.rename(target)
            raise
    with suppress(OSError):  # it is in place; only a power cut right now could still undo the rename
        sync_folder(target.absolute().parent)
    for left in (fresh, former):
        remove(left)


def discard(folder: Path, out: Path) -> None:
    """Remove a folder that belongs to the claimed `out`; if killed in between, the next claim goes on."""
    remove(unfinished_name(out))
    with suppress(OSError):
        folder.rename(unfinished_name(out))
    remove(unfinished_name(out))


def sync_folder(folder: Path) -> None:
    """Flush what a folder lists to the disk."""
    if os.name == "posix":  # Windows cannot open a folder, and needs no such call
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchanged(one: Path, other: Path) -> bool:
    """Whether two names could be exchanged at once, which Linux can on most disks."""
    if sys.platform != "linux":
        return False
    import ctypes

    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None:
        return False
    if exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(other))
