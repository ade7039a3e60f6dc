"""Private and public images with labels, for methods that train on pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptransfer.base import checks
from dptransfer.base.types import Integers, PixelArray, array_or_none
from dptransfer.data import examples
from dptransfer.data.examples import PrivateData, PublicData
from dptransfer.data.facts import DeclaredSizes, Facts
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.data.labels import Classes, Labelled
from dptransfer.errors import DataError, Incompatible
from dptransfer.exact.chunks import SelectedRows
from dptransfer.sources.decode import open_image, without_warnings
from dptransfer.sources.dicom import require_reader
from dptransfer.sources.listings import ImageList


class DecodedFiles:
    """Files that are opened, resized to one size and handed out when their positions are asked for.

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

    def __getitem__(self, positions: int | slice | Integers, /) -> PixelArray:
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
            rule = f"Public pictures must be readable; '{path}' is not ({type(problem).__name__})."
            raise DataError(f"{rule} Repair it, or leave it out.") from None


def pixels_of(
    x: Any, resolution: int | tuple[int, int] | None, *, private: bool, grey_range: GreyRange | None = None
) -> PixelArray | DecodedFiles:
    """An array of pictures as it is, or files to be decoded at `resolution`."""
    listed = isinstance(x, Sequence) and len(x) > 0 and all(isinstance(one, str | Path) for one in x)
    if listed or isinstance(x, ImageList):
        if resolution is None:
            rule = "Pictures from files need resolution=, the height and width they are resized to; got none."
            raise DataError(f"{rule} Example: resolution=224, or resolution=(128, 96).")
        height, width = resolution if isinstance(resolution, tuple) else (resolution, resolution)
        size = checks.whole("resolution", height), checks.whole("resolution", width)
        paths, held = (x.paths, x.held) if isinstance(x, ImageList) else (x, None)
        return DecodedFiles(paths, size, private=private, grey_range=grey_range, held=held)
    pixels = x if isinstance(x, np.ndarray) else array_or_none(x)
    if pixels is None:
        raise DataError("Pictures must all have one size; these differ. Resize them to one size.")
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8 or 0 in pixels.shape[1:]:
        rule = "Pictures must be uint8 of the shape (examples, height, width, 3), or a list of files;"
        raise DataError(f"{rule} got the type {pixels.dtype} and {pixels.ndim} dimensions. Convert them.")
    return pixels


def source_digests_of(pixels: PixelArray | DecodedFiles, given: ArrayLike | None) -> NDArray[np.uint64]:
    """Digests as given, or else of the files, or of the pictures of an array."""
    if (digests := examples.one_digest_each(given, len(pixels))) is not None:
        return digests
    if isinstance(pixels, DecodedFiles):
        return examples.file_digests(pixels.paths)
    return examples.picture_digests(pixels)


class PrivateImages(PrivateData):
    """Sensitive labelled pictures, with what their owner declares public about them.

    Like `PrivateEmbeddings` it keeps its counsel: it prints the declared facts and has no length.
    `pixels[positions]` gives those pictures as bytes, (positions, height, width, 3).

    >>> import numpy as np
    >>> pixels = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    >>> PrivateImages(pixels, ["cat", "dog"], classes=["cat", "dog"])
    PrivateImages(2 declared classes, pictures of 8 × 8 pixels)

    Args:
        x: bytes of the shape (examples, height, width, 3), memory-mapped arrays welcome; or files, as a list
            or as `find_images` returns them, which are decoded whenever they are asked for. A file that
            cannot be read counts as a black picture: refusing it would tell that it is there. A set of which
            all are black is refused before a charge.
        y: class of each picture, as for `PrivateEmbeddings`; by default the labels of an `ImageList`.
        classes: the full public list of classes; by default that of an `ImageList`.
        resolution: for files, the height and width that all are resized to; one number for a square.
        name: what the ledger files this data set under.
        people: whose each picture is, as for `PrivateEmbeddings`; by default the people of an `ImageList`.
        grey_range: the stored values that are black and white in greys of more than bytes, for the whole set;
            by default what each file says. Of an array, how it was read.
        source_digests: of the files that an array was read from; by default those of
            the files, or of the pictures in the array.
        sizes: `size`, `class_counts`, `person_bound` and `rows_per_person`, as for `PrivateEmbeddings`.
    """

    def __init__(
        self,
        x: ArrayLike | ImageList | Sequence[str | Path],
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Classes | None = None,
        resolution: int | tuple[int, int] | None = None,
        name: str | None = None,
        people: ArrayLike | None = None,
        grey_range: GreyRange | None = None,
        source_digests: ArrayLike | None = None,
        **sizes: Unpack[DeclaredSizes],
    ) -> None:
        self.grey_range = declared_range(grey_range)
        self.pixels: PixelArray | DecodedFiles | SelectedRows = examples.read_only(
            pixels_of(x, resolution, private=True, grey_range=grey_range)
        )
        given = _given_labels(x, y)
        if given is None:
            raise DataError("Private pictures need y=, a class each, and classes=[...], their full list.")
        if people is None and isinstance(x, ImageList):
            people = x.people
        super().__init__(self.pixels, given, classes, name=name, people=people, **sizes)
        self.source_digests = source_digests_of(self.pixels, source_digests)

    def require_content(self) -> None:
        """Raise if there are pictures, and all are black; for the owner, before anything is charged.

        Whether single ones are black is told to nobody.
        """
        pixels = self.pixels
        if len(pixels) and not any(pixels[slab].any() for slab in examples.slabs(pixels)):
            raise DataError(
                "Pictures must show something; all of these are black. So are those that cannot be read: "
                "'dptransfer encode' writes their names and the reasons to a file for their owner, and "
                "grey_range (--grey-range LOW,HIGH) declares black and white where files have more bits."
            )

    def part(self, positions: Integers, facts: Facts) -> Self:
        """The pictures at these positions, which are read when they are asked for, as data of their own."""
        pixels = SelectedRows(self.pixels, positions)
        part = self._part(positions, facts, pixels)
        part.pixels = pixels
        return part


class PublicImages(PublicData):
    """Pictures that are nobody's secret; labels are optional.

    >>> import numpy as np
    >>> PublicImages(np.zeros((3, 8, 8, 3), dtype=np.uint8))
    PublicImages(3 pictures, 8 × 8, unlabelled)

    Args:
        x: as for `PrivateImages`, but a file that cannot be read is an error that names it.
        y: class of each picture, if known; by default the labels of an `ImageList`.
        classes: the classes `y` refers to; required with `y`.
        resolution: for files, the height and width that all are resized to; one number for a square.
        name: a name for the card.
        sources: where each picture came from; by default the names of the files.
        grey_range: as for `PrivateImages`, and the same.
        source_digests: as for `PrivateImages`.
    """

    def __init__(
        self,
        x: ArrayLike | ImageList | Sequence[str | Path],
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Classes | None = None,
        resolution: int | tuple[int, int] | None = None,
        name: str | None = None,
        sources: Sequence[str | Path] | None = None,
        grey_range: GreyRange | None = None,
        source_digests: ArrayLike | None = None,
    ) -> None:
        self.grey_range = declared_range(grey_range)
        self.pixels = pixels_of(x, resolution, private=False, grey_range=grey_range)
        if sources is None and isinstance(x, ImageList):
            sources = x.sources()
        given = _given_labels(x, y)
        super().__init__(self.pixels, None if given is None else Labelled.of(given, classes), name, sources)
        self.source_digests = source_digests_of(self.pixels, source_digests)

    def require_match(self, facts: Facts) -> None:
        """Raise unless these pictures are of the private ones' size."""
        if self.pixels.shape[1:] != facts.shape:
            rule = f"Private and public pictures must have one size; got {facts.form} and {self._extent}."
            raise Incompatible(f"{rule} Resize both to the same resolution.")


def _given_labels(x: object, y: ArrayLike | Labelled | None) -> ArrayLike | Labelled | None:
    """Labels as given, else those of the list of files."""
    return x.labelled if y is None and isinstance(x, ImageList) else y
