"""A look at every picture of a set: whether it opens, what form it has, and digests of what it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.data.decode import open_image, without_warnings
from dptransfer.progress import tell

SIDE = 16
"""Of the small copy by which pictures that were saved again are known."""

_AT_A_TIME = 64
_THREADS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """What was seen of a picture.

    Attributes:
        form: how its file has it, such as 'RGB, 8 bits'; empty if it cannot be opened.
        bits: of a value of that form.
        digest: of its decoded pixels; empty if there are none.
        small: SIDE × SIDE × 3 means of its pixels.
        brightest: its highest value of 255, over all colours.
        flat: whether every pixel has one colour.
    """

    form: str = ""
    bits: int = 0
    digest: bytes = b""
    small: AnyArray | None = None
    brightest: int = 0
    flat: bool = False


def looks_of(paths: Sequence[Path], what: str) -> list[Look]:
    """A look at each, in order; nothing is written or kept."""
    found: list[Look] = []
    with without_warnings(), ThreadPoolExecutor(_THREADS, thread_name_prefix="pictures") as threads:
        for start in range(0, len(paths), _AT_A_TIME):
            found += threads.map(look_at, paths[start : start + _AT_A_TIME])
            tell(len(found), len(paths), what)
    return found


def look_at(path: Path) -> Look:
    """Open a picture as an encoding does, and look at it."""
    from PIL import Image

    try:
        mode, bits = _form(path)
        image = open_image(path)
        small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
        pixels = np.asarray(image)
    except Exception:  # Pillow's readers raise many types on damaged files
        return Look()
    content = hashlib.blake2b(str(pixels.shape).encode(), digest_size=16)
    content.update(np.ascontiguousarray(pixels).data)
    low, high = pixels.min(axis=(0, 1)), pixels.max(axis=(0, 1))
    return Look(
        f"{mode}, {bits} bits",
        bits,
        content.digest(),
        np.asarray(small),
        int(high.max()),
        bool((low == high).all()),
    )


def _form(path: Path) -> tuple[str, int]:
    """How the file has its pixels: the colours and the bits of each value."""
    from PIL import Image

    with Image.open(path) as opened:
        mode = opened.mode
    bits = {"1": 1, "I": 32, "F": 32}.get(mode, 16 if mode.startswith("I;16") else 8)
    return _COLOURS.get(mode.split(";")[0], mode), bits


_COLOURS = {"1": "black and white", "L": "grey", "I": "grey", "F": "grey, floats", "P": "palette"}
