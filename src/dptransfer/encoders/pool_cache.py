"""Cache of encoded public pools, keyed by content, so that a pool is encoded once for many fits."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import DataError
from dptransfer.exact.principal_axes import cache_folder
from dptransfer.sources.images import ImageList
from dptransfer.sources.readers import read_table

if TYPE_CHECKING:
    from dptransfer.encoders.encoder import Encoder
    from dptransfer.sources import TextList

_FORMAT = "pool-1"  # part of the folder's name, so that a change of the encoding makes new ones
_MOST = 4  # pools that stay
_IN_USE = 24 * 3600  # seconds for which a pool stays in any case: somebody may be reading it


@contextmanager
def cached_pool(
    found: ImageList | TextList, encoder: Encoder, encoded: Callable[[], AbstractContextManager[Path]]
) -> Iterator[Path]:
    """The `.emb` folder of public images or texts: from the cache, or made by `encoded` and then kept.

    It is kept when the block has ended without an error, and never before: a pool that a fit refuses, since
    private examples are in it, leaves nothing. A cache that cannot be written costs time, nothing else.

    Args:
        found: the images or texts. They must be public; private ones are never cached.
        encoder: what encodes them.
        encoded: encodes them into a folder that is there until its block ends.
    """
    place = cache_folder() / f"{_FORMAT}-{_key(found, encoder)}.emb"
    if _is_whole(place):
        yield place
        return
    with encoded() as rows:
        yield rows
        _keep(rows, place)


def _key(found: ImageList | TextList, encoder: Encoder) -> str:
    """A digest of all that the folder depends on: encoder, contents, names, and classes of class folders."""
    if isinstance(found, ImageList):
        with ThreadPoolExecutor(usable_cores()) as threads:
            contents = list(threads.map(_digest, found.paths))
        names = list(found.sources())
    else:
        contents, names = list(found.texts), []
    labels = None if found.labelled is None else found.labelled.positions.tolist()
    described = {
        "encoder": encoder.identity.to_dict(),
        "contents": contents,
        "names": names,
        "labels": labels,
        "classes": None if found.classes is None else list(found.classes),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "unreadable"


def _is_whole(place: Path) -> bool:
    """Whether the pool is there and undamaged; one that is not is removed."""
    if not place.exists():
        return False
    with suppress(DataError, OSError):
        read_table(place)
        os.utime(place)  # what is used stays longest
        return True
    shutil.rmtree(place, ignore_errors=True)
    return False


def _keep(rows: Path, place: Path) -> None:
    partial = place.with_name(f"{place.name}.{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copytree(rows, partial)
            partial.rename(place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        _drop_old(place.parent)


def _drop_old(folder: Path) -> None:
    """Remove all but the pools that were used last, and those of the last day."""
    pools = sorted(folder.glob(f"{_FORMAT}-*.emb"), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in pools[_MOST:]:
        if time.time() - old.stat().st_mtime > _IN_USE:
            shutil.rmtree(old, ignore_errors=True)
