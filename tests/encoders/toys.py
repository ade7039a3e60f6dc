"""Small encoders and pictures for tests."""

import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image

from dptransfer.data import EncoderIdentity
from dptransfer.encoders import EncodeOptions, ImageEncoder, encode_examples


class MeanColour(ImageEncoder):
    """Rows are mean colours and the picture's corner; counts its calls and may break off."""

    def __init__(self, *, fails_after=None, name="mean-colour"):
        self.identity = EncoderIdentity(name, "0" * 64, "8 px")
        self.dimension = 4
        self.calls = []
        self.fails_after = fails_after

    def prepare(self, image):
        return np.asarray(image.resize((8, 8)), dtype=np.float32)

    def forward(self, pixels):
        if self.fails_after is not None and len(self.calls) >= self.fails_after:
            raise KeyboardInterrupt
        self.calls.append(len(pixels))
        return np.concatenate([pixels.mean(axis=(1, 2)), pixels[:, 0, 0, :1] + 1], axis=1)


class WordLengths:
    """A text encoder: number of characters and of words."""

    identity = EncoderIdentity("word-lengths", "0" * 64, "none")
    dimension = 2
    kind = "text"

    def __init__(self, *, fails_after=None):
        self.calls, self.fails_after = [], fails_after

    def encode(self, batch):
        if self.fails_after is not None and len(self.calls) >= self.fails_after:
            raise KeyboardInterrupt
        self.calls.append(len(batch))
        return np.array([[len(text), len(text.split())] for text in batch], dtype=np.float32)


def pictures(folder, count, *, size=12, seed=0):
    """A folder per class, `count` pictures in all, each of its own colours."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        path = folder / ("cat" if i % 2 else "dog") / f"{i:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(path)
    return folder


def random_images(count, size=40):
    rng = np.random.default_rng(5)
    return [Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)) for _ in range(count)]


def encoder_graphs():
    """The tool that makes the graphs of encoders."""
    place = Path(__file__).parents[2] / "tools" / "encoder_graphs.py"
    found = importlib.util.spec_from_file_location("encoder_graphs", place)
    tool = importlib.util.module_from_spec(found)
    found.loader.exec_module(tool)
    return tool


def encode(found, encoder, out, *, progress=None, **options):
    """Encode images or texts, with options by name."""
    return encode_examples(found, encoder, out, EncodeOptions(**options), progress=progress)


def contents(folder):
    """All files of an `.emb` folder but the manifest, which says when it was written."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
