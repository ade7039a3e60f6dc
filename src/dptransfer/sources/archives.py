"""Unpack zip and tar archives of images into a private temporary folder.

It is removed when its holder is, or when the interpreter ends. A process that is killed leaves it behind; the
lock in it is free then, and the next process of the same user that needs such a folder removes it.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias

from dptransfer.data.atomic_files import owner_only, try_lock
from dptransfer.data.tables import parsing, require, unreadable

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


ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_LARGEST = 2**30  # bytes of one picture; one that is larger is there, and cannot be read
_MOST = 10**7  # names in one archive
_BLOCK = tarfile.BLOCKSIZE  # one of zeros ends a tar
_RESERVE = 2**28  # bytes that stay free in the place for temporary files
_DAMAGED = ("the archive must be complete and without a password; it is not.", "Pack it again.")


_Member: TypeAlias = tuple[str, bool, int, Callable[[], IO[bytes] | None]]
"""Its name, whether it is a folder, its size, and what opens it."""


def archive_in(path: Path) -> tuple[Path, PurePosixPath] | None:
    """The archive that a path is, or leads into, and where to in it; None for any other path.

    'photos.zip/train' is the folder 'train' of 'photos.zip'.
    """
    for one in (path, *path.parents):
        if one.name.lower().endswith(ENDINGS) and one.is_file():
            return one, PurePosixPath(path.relative_to(one).as_posix())
    return None


def unpack(archive: Path, inside: PurePosixPath, endings: frozenset[str]) -> tuple[Path, TemporaryFolder]:
    """Unpack files of these endings, and folders, even empty ones; nothing leads out of the place.

    The folder of the pictures goes when nobody holds the temporary one.

    Links, devices, hidden names and names with '..' or a drive are passed over; two files of one name are an
    error. An archive that holds one
    folder of its own name, as many tools pack it, stands for that folder. Files bear the archive's time, so
    that an interrupted encoding knows them again.

    Args:
        archive: the file.
        inside: the folder that is wanted; '.' for all of it.
        endings: of the files that are wanted, in small letters.
    """
    held = TemporaryFolder()
    root = held.path / "all"
    root.mkdir()
    folders = (inside, _own_name(archive) / inside)
    stamp = archive.stat().st_mtime_ns
    room = shutil.disk_usage(root).free - _RESERVE
    with parsing(archive, *_DAMAGED):
        for number, (name, is_folder, size, opened) in enumerate(_members(archive)):
            place = _place(name)
            wanted = place is not None and any(place.is_relative_to(folder) for folder in folders)
            if place is None or not wanted or not (is_folder or place.suffix.lower() in endings):
                continue
            room -= max(0, size)
            fits = "an archive must fit, unpacked, in the place for temporary files; it does not."
            require(room >= 0 and number < _MOST, archive, fits, "Unpack it yourself, or set TMPDIR.")
            target = root / place
            if is_folder:
                target.mkdir(parents=True, exist_ok=True)
                continue
            # Of two some tools unpack the first and some the last; what is read must not depend on that.
            require(not os.path.lexists(target), archive, "two files in it have one name.", "Pack it again.")
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as written:
                source = opened() if size <= _LARGEST else None
                if source is not None:
                    with source:
                        _copy(source, written, size)
            os.utime(target, ns=(stamp, stamp))
    return _folder(archive, root, inside), held


def _members(archive: Path) -> Iterator[_Member]:
    """Files and folders in their order; of a tar each must be read before the next is asked for."""
    if archive.suffix.lower() == ".zip":
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                link = (info.external_attr >> 16) & 0o170000 == 0o120000
                if not link:
                    yield info.filename, info.is_dir(), info.file_size, partial(opened.open, info)
        return
    with tarfile.open(archive, "r:*") as tar:
        after = -1
        for one in tar:
            # A size below zero leads back, and some versions of Python go round and round.
            require(tar.offset > after, archive, *_DAMAGED)
            after = tar.offset
            if one.isfile() or one.isdir():
                yield one.name, one.isdir(), one.size, partial(tar.extractfile, one)
        assert tar.fileobj is not None
        tar.fileobj.seek(tar.offset)
        # Python takes a tar that breaks off between two files for a whole one.
        require(tar.fileobj.read(_BLOCK) == bytes(_BLOCK), archive, *_DAMAGED)


def _copy(source: IO[bytes], written: IO[bytes], size: int) -> None:
    """No more than the size that was counted, whatever the packed bytes turn out to be."""
    left = size
    while left > 0 and (part := source.read(min(left, 2**20))):
        written.write(part)
        left -= len(part)


def _place(name: str) -> PurePosixPath | None:
    """Where a name leads below the root; None where it leads elsewhere, or is not shown."""
    path = PurePosixPath(name.replace("\\", "/"))
    odd = any(part[0] == "." or part == "__MACOSX" or {":", "\0"} & {*part} for part in path.parts)
    return None if odd or path.is_absolute() or not path.parts else path


def _own_name(archive: Path) -> PurePosixPath:
    """What many tools call the one folder that they pack: the archive's name without its ending."""
    ending = next(one for one in ENDINGS if archive.name.lower().endswith(one))
    return PurePosixPath(archive.name[: -len(ending)])


def _folder(archive: Path, root: Path, inside: PurePosixPath) -> Path:
    """The folder that is wanted, in the archive or in the one folder of its name."""
    own = root / _own_name(archive)
    alone = own if own.is_dir() and [*root.iterdir()] == [own] else root
    known = ".." not in inside.parts and not inside.is_absolute()
    for one in (alone, root):
        if known and (one / inside).is_dir():
            return one / inside
    raise unreadable(archive, f"it has no folder '{inside}'.", "Look at what it holds.")
