"""Open an image the way a person sees it: upright, in colour, eight bits."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image


def open_image(path: str | Path) -> Image.Image:
    """Read an image file as RGB; raises whatever Pillow raises when it cannot.

    Damaged files reach Pillow's format readers, which raise far more than OSError (struct, index, value and
    decompression-bomb errors). One bad file must not stop an encoding of private data; so callers catch all.

    The orientation tag of a camera is applied, transparency is laid over white, and sixteen-bit greys are
    scaled to eight bits (Pillow alone would cut them off at 255).
    """
    import numpy as np
    from PIL import Image, ImageOps

    with Image.open(path) as opened:
        opened.load()
        image: Image.Image = opened
        try:
            image = ImageOps.exif_transpose(opened)
        except Exception:  # a damaged tag is no reason to lose the picture; Pillow raises many types here
            image = opened
        if image.mode.startswith("I"):
            grey = np.clip(np.asarray(image).astype(np.int64) // 257, 0, 255).astype(np.uint8)
            return Image.fromarray(grey).convert("RGB")
        if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
            layered = image.convert("RGBA")
            paper = Image.new("RGBA", layered.size, (255, 255, 255, 255))
            return Image.alpha_composite(paper, layered).convert("RGB")
        return image.convert("RGB")


def without_warnings() -> AbstractContextManager[object]:
    """While pictures are opened, nothing is said about any of them: Pillow's warnings tell sizes and tags.

    Filters are the whole process's, so this covers the threads that open pictures, and is entered by one.
    """
    return warnings.catch_warnings(action="ignore")
