"""Pictures of a study: a folder, a zip or an `.npz` of bytes, squeezed to one size; and rows beside them.

A method on rows and one on pictures are then compared on the same pictures, whichever way each sees them.
Labels are read freely: this is for benchmarks on data whose labels are known, never for private ones.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.data import Columns, EncoderIdentity, GreyRange
from dptransfer.encoders import encode_pixels, get_encoder
from dptransfer.errors import DataError
from dptransfer.sources import PublicImages, find_images

Arrays = dict[str, AnyArray]
Classes = tuple[str | int, ...]
_TEST = "test_"


def read_pictures(
    path: Path, size: int, people: str | None = None, grey_range: GreyRange | None = None
) -> tuple[Arrays, Classes | None]:
    """Arrays 'pixels', 'labels' and 'people' as far as they are there, 'test_pixels' and so on; and classes.

    Args:
        path: a folder per class, or one with 'train' and 'test' in it; the same as a `.zip`; a CSV that lists
            pictures; or an `.npz` with x and y, or x_train, y_train, x_test and y_test, and perhaps classes.
        size: side that all are squeezed to.
        people: what tells whose each picture is: 'folder', a CSV's column, or the name of an array.
        grey_range: black and white of files whose greys have more than bytes.
    """
    if path.suffix.lower() == ".npz":
        return _from_arrays(path, size, people)
    if path.suffix.lower() != ".zip":
        return _from_files(path, size, people, grey_range)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as packed:
        packed.extractall(folder)
        return _from_files(Path(folder), size, people, grey_range)


def with_rows(
    arrays: Arrays, encoder: str, size: int, grey_range: GreyRange | None = None
) -> tuple[Arrays, EncoderIdentity]:
    """The same arrays with 'rows' and 'test_rows' of the encoder beside the pixels."""
    model = get_encoder(encoder, size=size, kind="image", grey_range=grey_range)
    names = {"rows": "pixels", "test_rows": "test_pixels"}
    rows = {ours: encode_pixels(arrays[theirs], model) for ours, theirs in names.items() if theirs in arrays}
    return {**rows, **arrays}, model.identity


def stamp_of_folder(folder: Path) -> JsonObject:
    """What changes when a picture in it is written again, without opening any."""
    states = ((file, file.stat()) for file in sorted(folder.rglob("*")) if file.is_file())
    lines = [f"{file.relative_to(folder)}|{state.st_size}|{state.st_mtime_ns}" for file, state in states]
    return {"path": str(folder.resolve()), "files": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def _from_files(
    source: Path, size: int, people: str | None, greys: GreyRange | None
) -> tuple[Arrays, Classes | None]:
    root = source
    while len(inner := _shown(root)) == 1 and inner[0].is_dir():
        root = inner[0]  # as zips have it: everything in one folder
    split = root.is_dir() and (root / "train").is_dir()
    arrays, classes = _listed(root / "train" if split else root, size, people, greys, None)
    if split and (root / "test").is_dir():
        tested, _ = _listed(root / "test", size, people, greys, classes)
        arrays |= {f"{_TEST}{name}": array for name, array in tested.items()}
    return arrays, classes


def _shown(folder: Path) -> list[Path]:
    entries = folder.iterdir() if folder.is_dir() else ()
    return [one for one in entries if not one.name.startswith((".", "__MACOSX"))]


def _listed(
    source: Path, size: int, people: str | None, greys: GreyRange | None, classes: Sequence[str | int] | None
) -> tuple[Arrays, Classes | None]:
    found = find_images(source, Columns(person=people), classes=classes)
    arrays: Arrays = {"pixels": PublicImages(found, resolution=size, grey_range=greys).pixels[:]}
    if found.labelled is not None:
        arrays["labels"] = found.labelled.positions
    if found.people is not None:
        arrays["people"] = found.people
    return arrays, found.classes


def _from_arrays(path: Path, size: int, people: str | None) -> tuple[Arrays, Classes | None]:
    with np.load(path, allow_pickle=False) as opened:
        whole = dict(opened)
    arrays: Arrays = {}
    for prefix, ending in (("", "_train" if "x_train" in whole else ""), (_TEST, "_test")):
        for name, letter in (("pixels", "x"), ("labels", "y"), ("people", people)):
            if f"{letter}{ending}" in whole:
                arrays[f"{prefix}{name}"] = whole[f"{letter}{ending}"]
    for name in ("pixels", "test_pixels"):
        if name in arrays or name == "pixels":
            arrays[name] = _squeezed(path, arrays.get(name), size)
    labels = arrays.get("labels")
    if labels is None:
        return arrays, None
    classes = tuple(whole["classes"].tolist()) if "classes" in whole else tuple(range(int(labels.max()) + 1))
    return {name: one.astype(np.int64) if "labels" in name else one for name, one in arrays.items()}, classes


def _squeezed(path: Path, pixels: AnyArray | None, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    if pixels is None or pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8:
        raise DataError(
            f"'{path}': pictures must be bytes (uint8) of the shape (pictures, height, width, 3), as x or "
            "x_train; these are not. Convert them, or leave out size for a file of rows."
        )
    if pixels.shape[1:3] == (size, size):
        return pixels
    squeezed = np.empty((len(pixels), size, size, 3), dtype=np.uint8)
    for place, one in enumerate(pixels):
        squeezed[place] = np.asarray(Image.fromarray(one).resize((size, size), Image.Resampling.BICUBIC))
    return squeezed
