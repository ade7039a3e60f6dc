"""`--data fashion-mnist`: photographs of clothes, from the Debian package dataset-fashion-mnist.

Where the public pool comes from, plainly: a random third of the training pictures is declared public,
without labels, and the private pictures are drawn from the other two thirds. Both are from one shop's
catalogue, which is as near as a pool can be; in life a pool comes from elsewhere, and results are worse.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from dptransfer.base.types import Labels, PixelArray
from dptransfer.errors import DataError
from dptransfer_lab.demo.sets import DemoSets, PictureSet
from dptransfer_lab.long_tail import long_tail
from dptransfer_lab.tasks import drawn_by_class

FOLDER = Path("/usr/share/datasets/fashion-mnist")
CLASSES = tuple("t-shirt trouser pullover dress coat sandal shirt sneaker bag ankle-boot".split())
RATIO = 10
PER_CLASS = 600
TEST_PER_CLASS = 100
POOL = 4000
_SEED = 20251
_INSTALL = "Install it with: sudo apt-get install dataset-fashion-mnist (or run the demo on --data digits)."


def fashion_sets(folder: Path = FOLDER) -> DemoSets:
    """A long-tailed private part, a public part that shares no picture with it, and a balanced test part."""
    pixels, labels = _part(folder, "train")
    test_pixels, test_labels = _part(folder, "t10k")
    share_rng, tail_rng, test_rng = np.random.default_rng(_SEED).spawn(3)
    order = share_rng.permutation(len(labels))
    third = len(labels) // 3
    public = np.sort(order[: min(third, POOL)])
    rest = np.sort(order[third:])
    rest = rest[drawn_by_class(labels[rest], _at_most(PER_CLASS, labels[rest]), rng=tail_rng)]
    private = rest[long_tail(labels[rest], RATIO, rng=tail_rng, classes=len(CLASSES))]
    test = drawn_by_class(test_labels, _at_most(TEST_PER_CLASS, test_labels), rng=test_rng)
    sizes = tuple(np.bincount(labels[private], minlength=len(CLASSES)).tolist())
    return DemoSets(
        name="demo-fashion-mnist",
        classes=CLASSES,
        sizes=sizes,
        private=PictureSet.of(pixels, private, "train-{:05d}", labels),
        test=PictureSet.of(test_pixels, test, "test-{:05d}", test_labels),
        public=PictureSet.of(pixels, public, "train-{:05d}"),
        about=(
            f"Fashion-MNIST, long-tailed on purpose: {max(sizes)} of one class down to {min(sizes)}",
            "Fashion-MNIST's own test pictures, the same number of each class",
            "from a third of Fashion-MNIST that is declared public: unlabelled, none of them private",
        ),
    )


def read_idx(path: Path) -> PixelArray:
    """The array in a gzipped idx file of bytes: 0, 0, 8, the number of axes, their lengths, the values."""
    try:
        with gzip.open(path, "rb") as stream:
            content = stream.read()
    except FileNotFoundError:
        raise DataError(
            f"The Fashion-MNIST files must be installed; '{path}' is not there. {_INSTALL}"
        ) from None
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(
            f"'{path}' must be a gzipped file; it is not ({type(problem).__name__}). {_INSTALL}"
        ) from None
    axes = content[3] if content[:3] == b"\x00\x00\x08" and len(content) > 3 else 0
    start = 4 + 4 * axes
    shape = struct.unpack_from(f">{axes}I", content, 4) if axes and len(content) >= start else ()
    if not shape or len(content) - start != math.prod(shape):
        raise DataError(f"'{path}' must be a complete idx file of bytes; it is not. {_INSTALL}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _part(folder: Path, part: str) -> tuple[PixelArray, Labels]:
    pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz").astype(np.int64)
    if (
        pixels.ndim != 3
        or labels.shape != pixels.shape[:1]
        or set(np.unique(labels)) != set(range(len(CLASSES)))
    ):
        raise DataError(
            f"'{folder}' must hold one label from 0 to 9 for each picture; it does not. {_INSTALL}"
        )
    return pixels, labels


def _at_most(number: int, labels: Labels) -> int:
    return min(number, int(np.bincount(labels).min()))
