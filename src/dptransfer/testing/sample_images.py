"""Tiny images on which methods that train on pixels are tried."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import AnyArray, Integers
from dptransfer.data import Facts, PrivateImages, PublicImages
from dptransfer.encoders import adapted, encode_pixels, encoder_of
from dptransfer.testing.sample_data import CLASSES, COUNTS, SIZE, CountedReads, Examples, SampleData

SIDE = 8


class CountedImages(CountedReads, PrivateImages):
    """Private images that count how often they are read."""

    def __init__(self, x: Any, y: Any, **declared: Any) -> None:
        super().__init__(x, y, resolution=SIDE, **declared)

    pixels = property(lambda self: self._read("_pixels"), lambda self, x: self.__dict__.update(_pixels=x))


def ordinary_images(seed: int = 7) -> tuple[NDArray[np.uint8], Integers]:
    """Thirty noisy images whose class is a colour."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(3), COUNTS)
    pixels = rng.integers(0, 120, (len(y), SIDE, SIDE, 3))
    pixels[np.arange(len(y)), ..., y] += 100
    return pixels.astype(np.uint8), y


def odd_images() -> dict[str, Examples]:
    """Data sets that a method must take like any other."""
    x, y = ordinary_images()
    return {
        "an empty class": (x[y != 2], y[y != 2]),
        "one class only": (x[y == 1], y[y == 1]),
        "a single image": (x[:1], y[:1]),
        "no image": (x[:0], y[:0]),
        "duplicates": (np.repeat(x[:2], 20, axis=0), np.repeat(y[:2], 20)),
        "black images but one": (x * (np.arange(len(x)) == 3).astype(np.uint8)[:, None, None, None], y),
        "white images": (np.full_like(x, 255), y),
    }


def encoded_traces(method: Any, x: AnyArray, model: Any) -> list[AnyArray]:
    """The private images as pixels, as the public network encodes them, and as the released one does."""
    if not hasattr(method, "network"):
        return [x.reshape(len(x), -1)]
    plain, delta = method.network().encoder, model.encoder_delta
    base = model.facts.encoder if delta is None else delta.base
    after = plain if base == plain.identity else encoder_of(base)
    after = after if delta is None else adapted(after, delta)
    return [x.reshape(len(x), -1), encode_pixels(x, plain), encode_pixels(x, after)]


IMAGES = SampleData(
    Facts(CLASSES, (SIDE, SIDE, 3), size=SIZE, class_counts=COUNTS),
    PublicImages(np.random.default_rng(100).integers(0, 256, (25, SIDE, SIDE, 3), dtype=np.uint8)),
    CountedImages,
    ordinary_images,
    odd_images,
    encoded_traces,
)
