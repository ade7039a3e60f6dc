"""Resumable jobs: partial output in `<out>.partial`, keyed by a hash of the job."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dptransfer.base.types import JsonObject
from dptransfer.data.atomic_files import (
    Opener,
    claim,
    discard,
    make_owner_folder,
    owner_only,
    sync_folder,
    unfinished_name,
    write_synced,
)
from dptransfer.errors import DataError

_MARKER = "job.json"
_WRITING = ".writing"


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
        raise DataError(
            f"'{folder}': finished work must be kept on disk, and could not be: {error.strerror or error}. "
            "Free some space and run again; it goes on from there."
        ) from error


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
        raise DataError(
            f"'{folder}' holds another unfinished job (of other data or settings). Finish that one, "
            "remove the folder, or overwrite it to start afresh."
        )
