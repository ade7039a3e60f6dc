"""A temporary folder that is its owner's alone, and is gone with whoever holds it.

It is removed when its holder is, or when the interpreter ends. A process that is killed leaves it behind; the
lock in it is free then, and the next process of the same user that needs such a folder removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

from dptransfer.data.claim import try_lock
from dptransfer.data.owner_only import owner_only

_PREFIX = "dptransfer-unpacked-"
_LOCK = ".lock"


class TemporaryFolder:
    """Holds a folder `path` in the place for temporary files (`TMPDIR`), with the mode 0700."""

    def __init__(self) -> None:
        _remove_left_behind()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = open(self.path / _LOCK, "x", opener=owner_only)  # held as long as the folder
            if os.name != "posix" or (try_lock(lock.fileno()) and (self.path / _LOCK).exists()):
                break
            lock.close()  # another process was quicker to take it for left behind, and is at it or done
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())


def _remove(path: Path, lock: IO[str], process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(path, ignore_errors=True)
    lock.close()


def _remove_left_behind() -> None:
    """Remove what processes of this user left that are no more."""
    if os.name != "posix":
        return
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_uid == os.getuid() and path.is_dir() and not path.is_symlink():
                with open(path / _LOCK) as lock:
                    if try_lock(lock.fileno()):
                        shutil.rmtree(path, ignore_errors=True)
