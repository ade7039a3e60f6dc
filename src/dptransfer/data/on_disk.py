"""Files and folders that reach the disk whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Opener = Callable[[str, int], int]


def write_synced(path: Path, content: bytes, *, mode: str = "xb", opener: Opener | None = None) -> None:
    """Write, and return when it is on the disk."""
    with open(path, mode, opener=opener) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def replaced_whole(target: Path, make_folder: Callable[[Path], None] = Path.mkdir) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `target` when the block has ended well.

    It is flushed to the disk and renamed into place; a folder that stands there is moved aside first and
    deleted last. If anything fails, that one stays and nothing is left behind, nor any folder above.
    """
    missing = [parent for parent in (target.parent, *target.parent.parents) if not parent.exists()]
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}.writing")
    aside = fresh.with_suffix(".old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        make_folder(fresh)
        yield fresh
        sync_folder(fresh)
        standing = target.exists()
        if standing:
            target.rename(aside)
        try:
            fresh.rename(target)
        except BaseException:
            if standing:
                aside.rename(target)
            raise
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        for parent in missing:  # innermost first
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        raise
    with suppress(OSError):  # it is in place; only a power cut right now could still undo the rename
        sync_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Flush what a folder lists to the disk."""
    if os.name == "posix":  # Windows cannot open a folder, and needs no such call
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
