"""Tiny pictures for the methods that take pictures, and what makes each of these quick enough to be tried."""

from dataclasses import fields
from pathlib import Path

import numpy as np

from deep.tiny import PLACE
from dptransfer.data import PrivateImages, PublicImages
from dptransfer.data.facts import Facts
from dptransfer.encoders import adapted, encode_pixels, encoder_of

from .method_suite import CLASSES, COUNTS, SIZE, Counted, World

SIDE = 8
QUICK = {
    "encoder": PLACE,
    "steps": 2,
    "sampling_rate": 1.0,  # samples take long to account for, and have tests of their own
    "micro_batch": 8,
    "rank": 2,
    "teachers": 4,
    "queries": 6,
    "epochs": 2.0,
    "rate": 0.02,
    "batch": 4,
    "student_steps": 2,
}
"""Settings of methods on pictures; each method takes those that it has."""


def quick(kind):
    """The method as it comes, but with a tiny network, few steps and few teachers."""
    return kind(**{one.name: QUICK[one.name] for one in fields(kind) if one.name in QUICK})


class WatchedImages(Counted, PrivateImages):
    """Pictures that count how often they are looked at."""

    def __init__(self, x, y, **declared):
        super().__init__(x, y, resolution=SIDE, **declared)

    pixels = property(lambda self: self._look("_pixels"), lambda self, x: self.__dict__.update(_pixels=x))


def coloured(count, seed):
    """Noisy pictures whose class is a colour."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(3), [*COUNTS])[:count]
    pixels = rng.integers(0, 120, (len(y), SIDE, SIDE, 3))
    pixels[np.arange(len(y)), ..., y] += 100
    return pixels.astype(np.uint8), y


def odd_pictures():
    x, y = coloured(SIZE, 7)
    return {
        "an empty class": (x[y != 2], y[y != 2]),
        "one class only": (x[y == 1], y[y == 1]),
        "a single picture": (x[:1], y[:1]),
        "no picture": (x[:0], y[:0]),
        "duplicates": (np.repeat(x[:2], 20, axis=0), np.repeat(y[:2], 20)),
        "black pictures": (np.zeros_like(x), y),
        "white pictures": (np.full_like(x, 255), y),
        "files that cannot be read": ([Path("nowhere") / f"{place}.png" for place in y], y),
    }


def seen_by_networks(method, x, model):
    """The private pictures as the public network gives them, and as the released one does."""
    plain, delta = method.network().encoder, model.encoder_delta
    base = model.facts.encoder if delta is None else delta.base
    after = plain if base == plain.identity else encoder_of(base)
    after = after if delta is None else adapted(after, delta)
    return [x.reshape(len(x), -1), encode_pixels(x, plain), encode_pixels(x, after)]


PICTURES = World(
    Facts(CLASSES, (SIDE, SIDE, 3), size=SIZE, class_counts=COUNTS),
    PublicImages(np.random.default_rng(100).integers(0, 256, (25, SIDE, SIDE, 3), dtype=np.uint8)),
    WatchedImages,
    lambda: coloured(SIZE, 7),
    odd_pictures,
    seen_by_networks,
)
