"""Small pictures for reports."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from dptransfer.data.grey_levels import GreyRange
from dptransfer.sources.decode import open_image, without_warnings

SIDE = 144
"""Longest side of a thumbnail: a screen of twice the usual resolution shows it at half of that."""


def thumbnails(paths: Iterable[Path], grey_range: GreyRange | None = None) -> tuple[bytes, ...]:
    """A small JPEG of each picture, as an encoder sees it; empty for one that cannot be opened."""
    with without_warnings():
        return tuple(_thumbnail(path, grey_range) for path in paths)


def _thumbnail(path: Path, grey_range: GreyRange | None) -> bytes:
    file = io.BytesIO()
    try:
        picture = open_image(path, grey_range)
        picture.thumbnail((SIDE, SIDE))
        picture.info.clear()  # a profile, say, which would be written too
        picture.save(file, "JPEG", quality=80)
    except Exception:  # readers raise many types on damaged files
        return b""
    return file.getvalue()
