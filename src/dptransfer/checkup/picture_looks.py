"""A look at every picture of a set: whether it opens, what form it has, and digests of what it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.data.decode import open_image, without_warnings
from dptransfer.data.dicom import is_dicom
from dptransfer.data.grey_levels import GreyRange
from dptransfer.errors import DataError
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
        refused: why it can be opened and yet not be interpreted, if so.
    """

    form: str = ""
    bits: int = 0
    digest: bytes = b""
    small: AnyArray | None = None
    brightest: int = 0
    flat: bool = False
    refused: str = ""


def looks_of(paths: Sequence[Path], what: str, grey_range: GreyRange | None = None) -> list[Look]:
    """A look at each, in order; nothing is written or kept.

    Args:
        paths: the files.
        what: a picture is called when progress is told.
        grey_range: black and white, as `open_image` takes it.
    """
    found: list[Look] = []
    with without_warnings(), ThreadPoolExecutor(_THREADS, thread_name_prefix="pictures") as threads:
        for start in range(0, len(paths), _AT_A_TIME):
            some = paths[start : start + _AT_A_TIME]
            found += threads.map(look_at, some, repeat(grey_range))
            tell(len(found), len(paths), what)
    return found


def look_at(path: Path, grey_range: GreyRange | None = None) -> Look:
    """Open a picture as an encoding does, and look at it."""
    from PIL import Image

    try:
        colours, bits = _form(path)
    except Exception:  # readers raise many types on damaged files
        return Look()
    form = f"{colours}, {bits} bits"
    try:
        image = open_image(path, grey_range)
        small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
        pixels = np.asarray(image)
    except DataError as problem:
        return Look(form, bits, refused=str(problem))
    except Exception:  # as above
        return Look()
    content = hashlib.blake2b(str(pixels.shape).encode(), digest_size=16)
    content.update(np.ascontiguousarray(pixels).data)
    low, high = pixels.min(axis=(0, 1)), pixels.max(axis=(0, 1))
    flat = bool((low == high).all())
    return Look(form, bits, content.digest(), np.asarray(small), int(high.max()), flat)


def _form(path: Path) -> tuple[str, int]:
    """How the file has its pixels: the colours, and the bits of each value."""
    from PIL import Image

    if is_dicom(path):
        from pydicom import dcmread

        header = dcmread(path, specific_tags=["BitsStored", "PhotometricInterpretation"])
        return f"DICOM {header.PhotometricInterpretation}", int(header.BitsStored)
    with Image.open(path) as opened:
        mode, colours = opened.mode, _COLOURS.get(opened.mode.split(";")[0], opened.mode)
        tagged = getattr(opened, "tag_v2", {}).get(_BITS_PER_SAMPLE)
        if tagged is not None:
            return colours, int(tagged[0] if isinstance(tagged, tuple) else tagged)
        if ";16" in mode or ";16" in str(opened.tile) or (mode == "I" and opened.format == "PNG"):
            return colours, 16
    return colours, {"1": 1, "I": 32, "F": 32}.get(mode, 8)


_BITS_PER_SAMPLE = 258  # a tag of TIFF
_COLOURS = {"1": "black and white", "L": "grey", "I": "grey", "F": "grey", "P": "palette"}
