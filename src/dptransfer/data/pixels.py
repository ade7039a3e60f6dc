"""Pixels of many pictures, by position: of an array, or of files that are decoded when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.arrays import Integers, PixelArray, array_or_none
from dptransfer.data.decode import open_image, without_warnings
from dptransfer.data.dicom import require_reader
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.data.images import ImageList
from dptransfer.data.source_digests import file_digests, picture_digests
from dptransfer.errors import DataError


class DecodedFiles:
    """Files that are opened, squeezed to one size and handed out when their positions are asked for.

    Args:
        paths: the files.
        resolution: height and width.
        private: whether an unreadable file counts as a black picture: refusing it would tell that it is
            there. A public one is an error that names it.
        grey_range: black and white of greys of more than bytes, as `open_image` takes it.
        held: what the files go with, such as a temporary folder.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        paths: Iterable[str | Path],
        resolution: tuple[int, int],
        *,
        private: bool,
        grey_range: GreyRange | None = None,
        held: object = None,
    ) -> None:
        self.paths = tuple(Path(path) for path in paths)
        self._private, self._grey_range, self._held = private, declared_range(grey_range), held
        require_reader(self.paths)
        self.shape = (len(self.paths), *resolution, 3)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, positions: Any, /) -> PixelArray:
        chosen = np.arange(len(self))[positions]
        with without_warnings(), ThreadPoolExecutor(min(8, max(1, chosen.size))) as threads:
            pictures = list(threads.map(self._picture, chosen.ravel().tolist()))
        return np.array(pictures, dtype=np.uint8).reshape(*chosen.shape, *self.shape[1:])

    def _picture(self, position: int) -> PixelArray:
        from PIL import Image

        path, (_, height, width, _) = self.paths[position], self.shape
        try:
            picture = open_image(path, self._grey_range)
            return np.asarray(picture.resize((width, height), Image.Resampling.BICUBIC))
        except Exception as problem:  # Pillow's readers raise many types
            if self._private:
                return np.zeros((height, width, 3), dtype=np.uint8)
            if isinstance(problem, DataError):
                raise DataError(f"'{path}': {problem}") from None
            raise DataError(
                f"Public pictures must be readable; '{path}' is not ({type(problem).__name__}). "
                "Repair it, or leave it out."
            ) from None


class PixelsAt:
    """Some of many pictures; nothing is copied or decoded before it is asked for.

    Args:
        pixels: all of them, an array or files.
        positions: of those that are meant, in order.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, pixels: Any, positions: Integers) -> None:
        self._pixels, self._positions = pixels, positions
        self.shape = (len(positions), *pixels.shape[1:])

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, positions: Any, /) -> PixelArray:
        found: PixelArray = self._pixels[self._positions[positions]]
        return found


def pixels_of(
    x: Any,
    resolution: int | tuple[int, int] | None,
    *,
    private: bool,
    grey_range: GreyRange | None = None,
) -> PixelArray | DecodedFiles:
    """An array of pictures as it is, or files to be decoded at `resolution`."""
    if isinstance(x, ImageList) or _are_paths(x):
        if resolution is None:
            raise DataError(
                "Pictures from files need resolution=, the height and width they are squeezed to; got none. "
                "Example: resolution=224, or resolution=(128, 96)."
            )
        height, width = resolution if isinstance(resolution, tuple) else (resolution, resolution)
        size = _check.whole("resolution", height), _check.whole("resolution", width)
        paths, held = (x.paths, x.held) if isinstance(x, ImageList) else (x, None)
        return DecodedFiles(paths, size, private=private, grey_range=grey_range, held=held)
    pixels = x if isinstance(x, np.ndarray) else array_or_none(x)
    if pixels is None:
        raise DataError("Pictures must all have one size; these differ. Squeeze them to one.")
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8 or 0 in pixels.shape[1:]:
        raise DataError(
            "Pictures must be bytes (uint8) of the shape (examples, height, width, 3), or a list of files; "
            f"got the type {pixels.dtype} and {pixels.ndim} dimensions. Convert them."
        )
    return pixels


def source_digests_of(pixels: PixelArray | DecodedFiles) -> NDArray[np.uint64]:
    """Digests of the files, or of the pictures of an array."""
    return file_digests(pixels.paths) if isinstance(pixels, DecodedFiles) else picture_digests(pixels)


def _are_paths(x: Any) -> bool:
    return isinstance(x, Sequence) and len(x) > 0 and all(isinstance(one, str | Path) for one in x)
