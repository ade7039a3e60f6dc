"""A demonstration small enough for a test: few pictures, and an encoder that only looks at pixels."""

import numpy as np
import pytest

from dptransfer.data import EncoderIdentity
from dptransfer.encoders import ImageEncoder
from dptransfer_lab.demo import run
from dptransfer_lab.demo.sets import DemoSets, PictureSet


class PixelEncoder(ImageEncoder):
    """The 64 pixels as features; counts how many pictures it was shown."""

    identity = EncoderIdentity("pixels", "0" * 64, "grey 8 bicubic")
    dimension = 64

    def __init__(self):
        self.shown = 0

    def prepare(self, image):
        return np.asarray(image.convert("L").resize((8, 8)), dtype=np.float32)

    def forward(self, pixels):
        self.shown += len(pixels)
        return pixels.reshape(len(pixels), -1) + 1


def tiny_sets(seed=0):
    """Three classes, each a bright quarter in noise."""
    rng = np.random.default_rng(seed)

    def pictures(prefix, counts):
        labels = np.repeat(np.arange(3), counts)
        pixels = rng.integers(0, 80, (len(labels), 8, 8)).astype(np.uint8)
        for place, label in enumerate(labels):
            pixels[place, 4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 150
        return PictureSet(pixels, tuple(f"{prefix}-{i}" for i in range(len(labels))), labels)

    private, test, public = pictures("p", [60, 40, 20]), pictures("t", [10] * 3), pictures("g", [40] * 3)
    public = PictureSet(public.pixels, public.names, public.labels, tuple("xyz"[c] for c in public.labels))
    sizes, about = (60, 40, 20), ("private ones", "test ones", "public ones")
    return DemoSets("demo-tiny", ("a", "b", "c"), sizes, private, test, public, about)


@pytest.fixture
def encoder(monkeypatch):
    one = PixelEncoder()
    monkeypatch.setattr(run, "get_encoder", lambda name, *, size: one)
    monkeypatch.setattr(run, "CURVE", (1.0, 4.0))
    monkeypatch.setitem(run.SETS, "digits", tiny_sets)
    return one
