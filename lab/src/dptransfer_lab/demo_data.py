"""The embedded demo data: handwritten digits, and a pool of glyphs that is drawn when it is first needed.

Two encoders. 'pixels' takes the 8 × 8 brightnesses as they are and needs no model, so that a sweep can be
tried at once; 'efficientnet-lite0' encodes the pictures as `dptransfer demo` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer_lab.demo.digits import TEST_PER_CLASS, digit_pictures
from dptransfer_lab.demo.glyphs import draw_glyphs
from dptransfer_lab.draws import drawn_by_class

ENCODERS = ("pixels", "efficientnet-lite0")
GLYPHS = 1000
_SIDE = 96
_BATCH = 64
_SEED = 20_252


def demo_digits(encoder: str = "pixels") -> dict[str, NDArray[Any]]:
    """All 1,797 digits: those to train on, and 35 of each to test on. Class sizes are nearly equal."""
    pixels, labels = digit_pictures()
    rows = _encoded(pixels, encoder)
    test = drawn_by_class(labels, TEST_PER_CLASS, rng=np.random.default_rng(_SEED))
    rest = np.setdiff1d(np.arange(len(labels)), test)
    return {"rows": rows[rest], "labels": labels[rest], "test_rows": rows[test], "test_labels": labels[test]}


def demo_glyphs(encoder: str = "pixels") -> PublicEmbeddings:
    """Letters and digits drawn from fonts: nobody's data."""
    drawn = draw_glyphs(GLYPHS, rng=np.random.default_rng(_SEED + 1))
    return PublicEmbeddings(_encoded(drawn.pixels, encoder), name="demo-glyphs")


def _encoded(pixels: NDArray[np.uint8], encoder: str) -> NDArray[np.float32]:
    if encoder not in ENCODERS:
        raise ArgumentError(f"The demo data's encoder must be one of {', '.join(ENCODERS)}; got '{encoder}'.")
    if encoder == "pixels":
        return (pixels.reshape(len(pixels), -1) / 255).astype(np.float32)
    from PIL import Image

    from dptransfer.encoders import get_encoder

    model = get_encoder(encoder, size=_SIDE)
    parts = [
        model.encode([Image.fromarray(one).convert("RGB") for one in pixels[start : start + _BATCH]])
        for start in range(0, len(pixels), _BATCH)
    ]
    return np.concatenate(parts).astype(np.float32)
