"""Folders of pictures on the command line, for methods that see pixels: each picture is read once.

A private picture that cannot be read is a black one, without a word: whether there are any is private.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.screen import progress_bar
from dptransfer.encoders.encoding import NOBODY, is_table, labels_of
from dptransfer.errors import ArgumentError, DataError
from dptransfer.privacy import Unit

if TYPE_CHECKING:
    from dptransfer.base.arrays import PixelArray
    from dptransfer.data import Facts, Labelled
    from dptransfer.data.grey_levels import GreyRange
    from dptransfer.methods import PrivateMethod
    from dptransfer.privacy import Budget
    from dptransfer.sources import ImageList, PrivateImages, PublicImages

_AT_A_TIME = 256
_LOOK = (
    "So are those that cannot be read: 'dptransfer encode' writes their names and the reasons to a file for "
    "their owner, and --grey-range LOW,HIGH declares black and white where files have more than bytes."
)


def sees_pictures(method: PrivateMethod) -> bool:
    """Whether the method takes pictures, rather than rows of numbers."""
    from dptransfer.sources import PrivateImages

    return method.takes is PrivateImages


def require_pictures(method: PrivateMethod, *paths: Path | None, path_column: str | None = None) -> None:
    """Raise for a path that holds rows of numbers."""
    for path in paths:
        if path is not None and is_table(path, path_column=path_column):
            raise ArgumentError(
                f"The method '{method.name}' takes pictures; '{path}' holds rows of numbers. Give a folder "
                "of pictures or a CSV that lists them, or choose a method for rows."
            )


def pixels_where_they_pay(
    method: PrivateMethod,
    private: Path,
    *others: Path | None,
    about: Mapping[str, Any],
    budget: Budget,
    device: str | None,
    encoder: str | None,
    image_size: int | None,
    grey_range: GreyRange | None,
) -> PrivateMethod:
    """For 'auto' and pictures: `film` where the rule says so, else the method as it is, for rows.

    Training a network takes hours without a GPU, so it is not begun there unless asked for by name.
    """
    from dptransfer.data import Columns, Facts
    from dptransfer.methods import Auto
    from dptransfer.methods.auto import MEASURED_WITH, AutoOnPictures, pixels_pay
    from dptransfer.sources import find_images
    from dptransfer.sources.contents import contents_of

    if not isinstance(method, Auto) or method.candidates or encoder not in (None, MEASURED_WITH):
        return method
    paths = [path for path in (private, *others) if path is not None]
    if device in (None, "cpu") or any(
        contents_of(path, Columns(path=about.get("path_column"))) != "images" for path in paths
    ):
        return method
    names = about["classes"]
    if names is None:
        found = find_images(private, Columns(about.get("path_column"), label=about.get("label_column")))
        names = labels_of(found, private, "private pictures").classes
    unit = Unit.ROW if about["person"] in (None, NOBODY) else Unit.PERSON
    sizes = {name: about[name] for name in ("size", "class_counts") if name in about}
    if not pixels_pay(Facts(tuple(names), (1, 1, 3), unit=unit, **sizes), budget)[0]:
        return method
    return AutoOnPictures(size=image_size, device=device, grey_range=grey_range)


def private_pictures(
    path: Path,
    side: int,
    *,
    grey_range: GreyRange | None = None,
    classes: Sequence[str | int] | None = None,
    person: str | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
    **declared: Any,
) -> PrivateImages:
    """Private labelled pictures, squeezed to side × side, with whose each is as far as `--person` tells.

    Args:
        path: a folder per class, or a CSV.
        side: of the pictures that the method's network takes.
        grey_range: what `--grey-range` says.
        classes: the declared list.
        person: what `--person` says.
        label_column: what `--label-column` says.
        path_column: what `--path-column` says.
        declared: what else `PrivateImages` is told.
    """
    from dptransfer.data import Columns
    from dptransfer.sources import PrivateImages, find_images

    if odd := [name for name in ("split", "labels") if declared.pop(name, None) is not None]:
        raise ArgumentError(
            f"data.{odd[0]} is about files of rows; these are pictures. Leave it out: a folder per class, or "
            "a CSV with a column 'label', tells their classes."
        )
    whose = None if person == NOBODY else person
    found = find_images(path, Columns(path_column, label=label_column, person=whose), classes=classes)
    labelled = labels_of(found, path, "private pictures")
    pixels = _read(found, side, grey_range, private=True)
    return PrivateImages(
        pixels,
        labelled,
        people=found.people,
        grey_range=grey_range,
        source_digests=found.source_digests,
        **declared,
    )


def public_pictures(
    path: Path, side: int, grey_range: GreyRange | None = None, path_column: str | None = None
) -> PublicImages:
    """Public pictures, squeezed to side × side; one that cannot be read is an error that names it."""
    from dptransfer.data import Columns
    from dptransfer.sources import PublicImages, find_images

    found = find_images(path, Columns(path=path_column), labelled=False)
    pixels, sources = _read(found, side, grey_range, private=False), found.sources()
    about: dict[str, Any] = {"name": path.name, "grey_range": grey_range}
    return PublicImages(pixels, found.labelled, sources=sources, source_digests=found.source_digests, **about)


def tested_pictures(
    path: Path, side: int, facts: Facts, grey_range: GreyRange | None, **columns: Any
) -> tuple[PublicImages, Labelled, str]:
    """Test pictures, their labels and a name; what can be wrong with them is wrong before a charge."""
    from dptransfer.data import Columns
    from dptransfer.sources import PublicImages, find_images

    named = Columns(columns.get("path_column"), label=columns.get("label_column"))
    found = find_images(path, named, classes=facts.classes)
    labelled = labels_of(found, path, "test pictures")
    pixels = _read(found, side, grey_range, private=False)
    return (
        PublicImages(pixels, grey_range=grey_range, source_digests=found.source_digests),
        labelled,
        path.name,
    )


def _read(found: ImageList, side: int, grey_range: GreyRange | None, *, private: bool) -> PixelArray:
    """The pictures as bytes, in a file without a name: it is gone with the process, however that ends."""
    import numpy as np

    from dptransfer.sources.pictures import DecodedFiles

    files = DecodedFiles(found.paths, (side, side), private=private, grey_range=grey_range)
    if not len(files):
        return files[:]
    try:
        with (
            tempfile.TemporaryFile() as kept,
            progress_bar("Reading pictures", count_is_private=private) as step,
        ):
            black = not private  # of private ones a fit says so, before it is charged
            for start in range(0, len(files), _AT_A_TIME):
                part = files[start : start + _AT_A_TIME]
                black = black and not part.any()
                kept.write(part.tobytes())
                step(min(start + _AT_A_TIME, len(files)), len(files))
            kept.flush()
            if black:
                raise DataError(f"Pictures must show something; all of these are black. {_LOOK}")
            return np.memmap(kept, np.uint8, "c", shape=files.shape)
    except OSError as problem:
        why = f"({problem.strerror or problem}). Free some space there, or set TMPDIR to another place."
        raise DataError(
            f"Pictures are kept in '{tempfile.gettempdir()}' while they are used; that failed {why}"
        ) from None
