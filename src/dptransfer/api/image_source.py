"""Images at a size, for methods that train on pixels: each file is read once."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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
            f"'{method.name}' takes images; {shown} rows of numbers. Give images, or use a method for rows."
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
    own: dict[str, Any] = {"name": source.name, **source.declared}
    own["people"] = source.ids() if found is None else found.people
    return PrivateImages(**_pixels(source, found, side, grey_range, private=True), **own)


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
    own: dict[str, Any] = {}
    if found is not None:
        own = {"name": source.at_path("Images").name, "sources": found.sources()}
    return PublicImages(**_pixels(source, found, side, grey_range, private=False), **own)


def _pixels(
    source: Source, found: ImageList | None, side: int, greys: GreyRange | None, *, private: bool
) -> dict[str, Any]:
    """Arguments of private and public images alike: from files that were found, or from memory."""
    how = {"resolution": side, "grey_range": greys}
    if found is None:
        return {"x": source.in_memory, "y": source.labels, "classes": source.classes, **how}
    images = decode_once(found, side, greys, private=private)
    return {"x": images, "y": found.labelled, "source_digests": found.source_digests, **how}


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
        bar = progress_bar("Reading images", count_is_private=private)
        with tempfile.TemporaryFile() as kept, bar as step:
            shown = private  # of private images the ledger asks, before it charges
            for start in range(0, len(files), _AT_A_TIME):
                part = files[start : start + _AT_A_TIME]
                shown = shown or bool(part.any())
                kept.write(part.tobytes())
                step(min(start + _AT_A_TIME, len(files)), len(files))
            kept.flush()
            if not shown:
                raise DataError("All these images are black. Beyond 8 bits, declare --grey-range LOW,HIGH.")
            return np.memmap(kept, np.uint8, "c", shape=files.shape)
    except OSError as problem:
        why = f"({problem.strerror or problem}). Free some space there, or set TMPDIR to another place."
        raise DataError(f"Images are kept in '{tempfile.gettempdir()}' meanwhile; it failed {why}") from None
