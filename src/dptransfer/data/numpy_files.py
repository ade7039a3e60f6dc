"""`.npy` and `.npz` files: never unpickled, and no size believed that the file cannot have."""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from dptransfer.base.types import AnyArray
from dptransfer.data.tables import parsing, require, unreadable

_MOST_EXPANSION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}  # deflate cannot do better
_NOT_AN_ARCHIVE = ("an .npz file must be a complete archive of arrays; this is not.", "Write it again.")


def load_array(
    path: Path,
    rule: str = "an .npy file must be one complete array of numbers or words; this is damaged or is not.",
    remedy: str = "Write it again with numpy.save and a plain dtype.",
) -> AnyArray:
    """The array of an `.npy` file, memory-mapped: nothing is allocated for a size the file does not have.

    Args:
        path: the file.
        rule: what to say of a damaged one.
        remedy: what to do then.
    """
    with parsing(path, rule, remedy):
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            loaded.close()
            raise unreadable(
                path, "an .npy file must hold one array; this is an archive.", "Rename it to .npz."
            )
        _require_content(loaded.dtype)
        _require_letters(loaded)
        return loaded


class Archive(Mapping[str, AnyArray]):
    """The arrays of an `.npz` file by name, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        with parsing(path, *_NOT_AN_ARCHIVE):
            archive = zipfile.ZipFile(path)  # closes itself with the last that refers to it
        self._path, self._archive = path, archive
        found = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        self._members = {info.filename.removesuffix(".npy"): info for info in found}
        # Of two some readers take the first and some the last; what is read must not depend on that.
        require(len(self._members) == len(found), path, "two arrays have one name.", "Write it again.")

    def __getitem__(self, name: str) -> AnyArray:
        info = self._members[name]
        with parsing(self._path, *_NOT_AN_ARCHIVE):
            with self._archive.open(info) as member:
                shape, _, dtype = array_header(member)
                self._require_plain(name, info, shape, dtype)
            with self._archive.open(info) as member:
                array: AnyArray = npy.read_array(member, allow_pickle=False)
            _require_letters(array)
        return array

    def _require_plain(
        self, name: str, info: zipfile.ZipInfo, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> None:
        pickled = f"'{name}' must hold numbers or words; it holds Python objects, which are never unpickled."
        plain = "Save it with a plain dtype, such as float32, int64 or str."
        require(not dtype.hasobject, self._path, pickled, plain)
        _require_content(dtype)
        on_disk = min(info.compress_size, self._path.stat().st_size)
        fits = math.prod(shape) * dtype.itemsize <= on_disk * _MOST_EXPANSION[info.compress_type]
        require(fits, self._path, f"'{name}' claims more numbers than the file can hold.", "Write it again.")

    def __contains__(self, name: object) -> bool:
        return name in self._members  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def array_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, whether columns come first, and type; the stream is then at the first number.

    The third version of the format is for names of fields, which plain arrays lack.
    """
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(stream)]
    shape, by_column, dtype = read(stream)
    return shape, by_column, dtype


def _require_content(dtype: np.dtype[np.generic]) -> None:
    """Raise over a type of no bytes: a small file can claim 10¹⁵ of those, and copying them takes days."""
    if dtype.itemsize == 0:
        raise ValueError


def _require_letters(array: AnyArray) -> None:
    """Raise over words that are no text; Python itself may fall over them, in the middle of something."""
    if array.dtype.kind == "U" and array.nbytes:
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        if native.reshape(-1).view(np.uint32).max() > sys.maxunicode:
            raise ValueError
