"""Unfinished work in a folder beside what it will become; only the same request goes on with it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dptransfer.data.on_disk import Opener, sync_folder, write_synced
from dptransfer.data.owner_only import make_owner_folder, owner_only
from dptransfer.errors import DataError

_MARKER = "job.json"
_WRITING = ".writing"


def draft_folder(out: Path, request: dict[str, Any], *, restart: bool) -> tuple[Path, str]:
    """`<out>.partial`, new or as an interrupted run of the same request left it, and the request's digest.

    It is the owner's alone, as what is in it may be private.

    Args:
        out: what the work will become.
        request: all that determines it, JSON-ready.
        restart: throw away what another request left instead of refusing.
    """
    folder = out.with_name(out.name + ".partial")
    key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    with kept_on_disk(folder):
        marker = folder / _MARKER
        if folder.exists() and _recorded_key(marker) != key:
            if not restart and marker.exists():
                raise DataError(
                    f"'{folder}' holds another unfinished job (of other data or settings). Finish that one, "
                    "remove the folder, or overwrite it to start afresh."
                )
            shutil.rmtree(folder)
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            make_owner_folder(folder)
            write_synced(marker, json.dumps({"key": key}).encode(), opener=owner_only)
        folder.chmod(0o700)  # one that an earlier version left
        for left in folder.glob(f".*{_WRITING}"):  # by a run that was killed
            left.unlink(missing_ok=True)
    return folder, key


def put_in_place(folder: Path, out: Path) -> None:
    """Make a finished draft what it was made for, by its name; it stays the owner's alone."""
    with kept_on_disk(folder):
        folder.rename(out)  # with its marker: until it is in place, a killed run goes on with it
        (out / _MARKER).unlink()
        sync_folder(out.absolute().parent)


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
        raise DataError(
            f"'{folder}': whoever works must see the folder under this name; a worker does not. Put it on a "
            "disk that all machines share."
        )


def _recorded_key(marker: Path) -> Any:
    try:
        return json.loads(marker.read_text(encoding="utf-8")).get("key")
    except (OSError, ValueError, AttributeError):
        return None
