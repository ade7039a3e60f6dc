"""Images at a size, for methods that train on pixels: each file is read once."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from dptransfer.api.source import Source
from dptransfer.base.progress import progress_bar
from dptransfer.encoders.encoding import labels_of
from dptransfer.encoders.registry import Reading
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import ImageList, PrivateImages, PublicImages
from dptransfer.sources.pictures import DecodedFiles

if TYPE_CHECKING:
    from dptransfer.base.types import PixelArray
    from dptransfer.data import Facts, Labelled
    from dptransfer.data.grey_levels import GreyRange
    from dptransfer.methods import ImageMethod

_AT_A_TIME = 256


def require_images(source: Source, method: ImageMethod) -> None:
    """Raise for what is said about columns of rows and texts, and for rows of numbers."""
    if source.columns.text is not None or source.columns.features is not None:
        odd = "--text-column and --feature-columns are for methods on rows"
        raise ArgumentError(f"{odd}; '{method.name}' takes images. Leave them out.")
    if source.form == "rows":
        shown = f"'{source.path}' holds" if source.path else "these are"
        raise ArgumentError(
            f"The method '{method.name}' takes images; {shown} rows of numbers. Give a folder of images or a "
            "CSV that lists them, or choose a method for rows."
        )


def private_images(source: Source, side: int, grey_range: GreyRange | None) -> PrivateImages:
    """Private labelled images, resized to side × side.

    An image that cannot be read is a black one, without a word: whether there are any is private.
    """
    if isinstance(source.x, PrivateImages):
        source.require_bare()
        return source.x
    if source.path is not None and (source.columns.split is not None or isinstance(source.y, str | Path)):
        odd = "labels" if source.columns.split is None else "split"
        raise ArgumentError(
            f"data.{odd} is about files of rows; these are images. Leave it out: a folder per class, or a "
            "CSV with a column 'label', tells their classes."
        )
    found = cast("ImageList | None", replace(source, reading=Reading()).private_list)  # loads no encoder
    return PrivateImages(
        source.in_memory if found is None else decode_once(found, side, grey_range, private=True),
        source.labels if found is None else found.labelled,
        classes=source.classes if found is None else None,
        resolution=side,
        name=source.name,
        people=source.ids() if found is None else found.people,
        grey_range=grey_range,
        source_digests=None if found is None else found.source_digests,
        **source.declared,
    )


def public_images(
    source: Source, side: int, grey_range: GreyRange | None, *, labelled: bool = False
) -> PublicImages:
    """Public images, resized to side × side; one that cannot be read is an error that names it.

    Args:
        source: the images.
        side: height and width.
        grey_range: as `open_image` takes it.
        labelled: whether they must have labels, as a test must; those of class folders are always taken.
    """
    if isinstance(source.x, PublicImages):
        return source.x
    found = None if source.path is None else cast(ImageList, source.find("image", labelled=labelled))
    if found is not None and labelled:
        labels_of(found, source.at_path("Images"), "test images")
    return PublicImages(
        source.in_memory if found is None else decode_once(found, side, grey_range, private=False),
        source.labels if found is None else found.labelled,
        classes=source.classes if found is None else None,
        resolution=side,
        name=None if source.path is None else source.path.name,
        sources=None if found is None else found.sources(),
        grey_range=grey_range,
        source_digests=None if found is None else found.source_digests,
    )


def test_images(source: Source, method: ImageMethod, facts: Facts) -> tuple[PublicImages, Labelled, str]:
    """Test images, their labels and a name; what can be wrong with them is wrong before a charge."""
    path = source.at_path("Test images")
    source = replace(source, classes=facts.classes)
    tested = public_images(source, facts.shape[0], method.grey_range, labelled=True)
    return tested, labels_of(tested, path, "test images"), path.name


def decode_once(found: ImageList, side: int, grey_range: GreyRange | None, *, private: bool) -> PixelArray:
    """The images as bytes, in a file without a name: it is gone with the process, however that ends."""
    files = DecodedFiles(found.paths, (side, side), private=private, grey_range=grey_range)
    if not len(files):
        return files[:]
    try:
        with (
            tempfile.TemporaryFile() as kept,
            progress_bar("Reading images", count_is_private=private) as step,
        ):
            shown = private  # of private images the ledger asks, before it charges
            for start in range(0, len(files), _AT_A_TIME):
                part = files[start : start + _AT_A_TIME]
                shown = shown or bool(part.any())
                kept.write(part.tobytes())
                step(min(start + _AT_A_TIME, len(files)), len(files))
            kept.flush()
            if not shown:
                raise DataError(
                    "Images must show something; all of these are black. Files with more than 8 bits need "
                    "--grey-range LOW,HIGH."
                )
            return np.memmap(kept, np.uint8, "c", shape=files.shape)
    except OSError as problem:
        why = f"({problem.strerror or problem}). Free some space there, or set TMPDIR to another place."
        raise DataError(
            f"Images are kept in '{tempfile.gettempdir()}' while they are used; that failed {why}"
        ) from None
