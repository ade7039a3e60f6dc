"""Write files atomically, for their owner alone, under a lock on the output path; resume unfinished jobs.

Rows, labels and file names are as private as the pictures they came from. A mode that is set after a file was
made comes too late for whoever opened it in between, so it is given when the file is made.

.<out>.dptransfer.lock      empty; locked by the process that writes `out`, and removed by it
    .<out>.dptransfer.writing   a file or folder that is not whole yet, or is being deleted
    .<out>.dptransfer.old       what `out` replaces, for a moment, where two names cannot be exchanged at once

The operating system drops the lock when its process ends, however it ends. So whoever holds the claim knows
that no one is at work on the other two: they were left by a process that was killed. A disk that knows no
locks cannot keep a second process away.

A job that takes long works in `<out>.partial`, with a hash of the job beside it: the same job resumes there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from dptransfer.base.types import JsonObject
from dptransfer.errors import DataError

_OTHERS = 0o077  # what groups and strangers may do


def make_owner_folder(path: Path) -> None:
    """Make a folder that nobody else can look into; one that is there already raises."""
    path.mkdir(mode=0o700)


def owner_only(path: str | os.PathLike[str], flags: int) -> int:
    """For `open(..., opener=owner_only)`: a file that is made is the owner's alone."""
    return os.open(path, flags, 0o600)


def others_may_look(path: Path) -> bool:
    """Whether the folder's mode lets other users of the machine in; a mode is no private value."""
    return os.name == "posix" and bool(path.stat().st_mode & _OTHERS)


_TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # where others can write, they may have put one there
_claims: ContextVar[frozenset[Path]] = ContextVar("_claims", default=frozenset())
"""What this thread has claimed already, so that writing inside of a claim asks for no second one."""


def unfinished_name(out: Path) -> Path:
    """Where `out` is while it is written, or while it is deleted."""
    return _beside(out, "writing")


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
        rule = f"'{out}' must be a place that can be written; it is not ({problem.strerror or problem})."
        raise DataError(f"{rule} Free space, change permissions, or choose another place.") from problem
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
            rule = f"One process at a time writes to a place; another is writing '{out}'."
            raise DataError(f"{rule} Wait for it, or choose another place.")
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        os.close(handle)  # whoever had it was done, and removed it


def _remove_left_behind(place: Path) -> None:
    former = _beside(place, "old")
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
        with _finished(target) as fresh:
            write_synced(fresh, content, opener=opener)


def cache_folder() -> Path:
    """Where caches are kept between runs: `DPTRANSFER_CACHE`, or the user's cache folder."""
    given = os.environ.get("DPTRANSFER_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("dptransfer")


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
    with claim(target), _finished(target) as fresh:
        make_folder(fresh)
        yield fresh
        sync_folder(fresh)


@contextmanager
def _finished(target: Path) -> Iterator[Path]:
    """The name of something unfinished, which is put in place if the block ends well, and else removed."""
    fresh = unfinished_name(target)
    try:
        yield fresh
        put_in_place(fresh, target)
    finally:
        remove(fresh)


def put_in_place(fresh: Path, target: Path) -> None:
    """Give a finished file or folder its name, in one step; what had it before is removed.

    Where two names cannot be exchanged at once, a folder that stands there is moved aside first; who claims
    the name after a kill in between moves it back.
    """
    former = _beside(target, "old")
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


_MARKER, _WRITING = "job.json", ".writing"


def draft_folder(out: Path, request: JsonObject, *, restart: bool) -> tuple[Path, str]:
    """`<out>.partial`, new or as an interrupted run of the same request left it, and the request's digest.

    It is the owner's alone, as what is in it may be private. The claim on `out` must be held.

    Args:
        out: what the work will become.
        request: all that determines it, JSON-ready.
        restart: throw away what another request left instead of refusing.
    """
    folder, key = _partial(out), _key(request)
    with kept_on_disk(folder):
        if os.path.lexists(folder) and _recorded_key(folder) != key:
            _require_disposable(folder, restart)
            discard(folder, out)
        if not folder.exists():
            fresh = unfinished_name(out)
            make_owner_folder(fresh)  # with its marker, or it is none
            write_synced(fresh / _MARKER, json.dumps({"key": key}).encode(), opener=owner_only)
            sync_folder(fresh)
            fresh.rename(folder)
        for left in folder.glob(f".*{_WRITING}"):  # by a run that was killed
            left.unlink(missing_ok=True)
    return folder, key


def remove_draft(out: Path, request: JsonObject | None = None) -> None:
    """Remove `<out>.partial`, whose work is done; given a request, only if it is that of this request."""
    folder = _partial(out)
    if folder.is_dir() and (request is None or _recorded_key(folder) == _key(request)):
        discard(folder, out)


def place_draft(folder: Path, out: Path) -> None:
    """Make a finished draft what it was made for, by its name; it stays the owner's alone.

    Its marker goes last: `finish_placing` does what a kill keeps this from doing.
    """
    with kept_on_disk(folder):
        folder.rename(out)
        sync_folder(out.absolute().parent)
        finish_placing(out)


def finish_placing(out: Path) -> None:
    """For a draft that has been placed: remove the rows that its work was done on, and its marker."""
    rows = out.with_name(f"{out.name}.rows")
    if _recorded_key(out) is not None:
        with claim(rows):
            remove_draft(rows)
        (out / _MARKER).unlink(missing_ok=True)


@contextmanager
def written_whole(file: Path, opener: Opener | None = None) -> Iterator[IO[bytes]]:
    """A file to write into, which bears its name once it is on the disk, and not before."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(6)}{_WRITING}")
    try:
        with open(fresh, "xb", opener=opener) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextmanager
def kept_on_disk(folder: Path) -> Iterator[None]:
    """What goes wrong with the disk inside the block, in one sentence."""
    try:
        yield
    except OSError as error:
        rule = f"'{folder}': finished work must be kept on disk, and could not be: {error.strerror or error}."
        raise DataError(f"{rule} Free some space and run again; it goes on from there.") from error


def require_seen(folder: Path) -> None:
    """Raise in a worker that does not see a folder which the work needs: then it is on another machine."""
    if not folder.is_dir():
        raise DataError(f"A worker does not see '{folder}'. Put it on a disk that all machines share.")


def _partial(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


def _key(request: JsonObject) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _recorded_key(folder: Path) -> str | None:
    """The digest of the request that a draft is for; None where no whole marker says it."""
    try:
        return str(json.loads((folder / _MARKER).read_text(encoding="utf-8"))["key"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _require_disposable(folder: Path, restart: bool) -> None:
    """Raise for another unfinished job, and for what is none; without a whole marker a job has not begun."""
    if not (folder / _MARKER).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"'{folder}' is for unfinished work; it holds something else. Move that away.")
    if not restart and _recorded_key(folder) is not None:
        rule = f"'{folder}' holds another unfinished job (of other data or settings)."
        raise DataError(f"{rule} Finish that one, remove the folder, or overwrite it to start afresh.")
