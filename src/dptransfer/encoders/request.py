"""What determines the rows of an encoding: only the same request goes on with what an earlier run left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dptransfer.data.images import ImageList
from dptransfer.data.texts import TextList
from dptransfer.encoders.base import Encoder


def request_of(found: ImageList | TextList, encoder: Encoder, batch: int) -> dict[str, Any]:
    """The items, what encodes them and in which batches, JSON-ready.

    Without the encoder's size, which its transform says too, and old identities lack.
    """
    identity = replace(encoder.identity, size=None)
    return {**_items(found), "encoder": identity.to_dict(), "batch": batch}


def _items(found: ImageList | TextList) -> dict[str, Any]:
    if isinstance(found, TextList):
        return {"texts": list(found.texts)}
    known_as = [str(path.absolute()) for path in found.paths] if found.root is None else found.sources()
    return {"files": [_file_state(*pair) for pair in zip(known_as, found.paths, strict=True)]}


def _file_state(source: str, path: Path) -> list[Any]:
    """A file's name, size and time of change: an edited picture must not be taken from an earlier run."""
    try:
        found = path.stat()
    except OSError:
        return [source, None, None]
    return [source, found.st_size, found.st_mtime_ns]
