"""Find the images of a data set: in folders, archives, columns of a table, or as a CSV or a list of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dptransfer.arrays import People
from dptransfer.data.archives import archive_in, unpack
from dptransfer.data.arrow_files import is_columnar
from dptransfer.data.class_names import Classes, declared_classes
from dptransfer.data.csv_files import declared_labels, header_of, read_csv
from dptransfer.data.dicom import require_reader
from dptransfer.data.file_types import IMAGE_ENDINGS, require_known_type
from dptransfer.data.labelled import Labelled, LabelledList, places
from dptransfer.data.person_files import (
    DICOM,
    FOLDER,
    is_person_file,
    people_by_dicom,
    people_by_folder,
    people_in_file,
    person_column,
)
from dptransfer.data.picture_columns import unpack_pictures
from dptransfer.data.source_digests import file_digests
from dptransfer.data.table import require, require_label_column
from dptransfer.data.unpacked import TemporaryFolder

_PATH = "path"
_SPLIT_NAMES = frozenset("train training val valid validation dev test testing".split())


@dataclass(frozen=True, repr=False)
class ImageList(LabelledList):
    """Image files in a fixed order, with labels where they are known; nothing has been opened.

    Attributes:
        paths: the files.
        labelled: their classes, or None.
        root: the folder the files' names are written relative to.
        people: whose each is, as a number from 0, or None.
        held: the temporary folder that the files are in, where they were unpacked; it goes with the list.
    """

    paths: tuple[Path, ...]
    labelled: Labelled | None = None
    root: Path | None = None
    people: People | None = field(default=None, compare=False)
    held: TemporaryFolder | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.paths)

    def names(self) -> tuple[str, ...]:
        """What people call each file: its path, or where it is in what it was unpacked from."""
        return tuple(map(str, self.paths)) if self.held is None else self.sources()

    @cached_property
    def source_digests(self) -> NDArray[np.uint64]:
        """Of the bytes of each file."""
        return file_digests(self.paths)

    def sources(self) -> tuple[str, ...]:
        """Each file's name relative to `root`, with forward slashes; just its name when it lies elsewhere."""
        return tuple(
            path.relative_to(self.root).as_posix()
            if self.root and path.is_relative_to(self.root)
            else path.name
            for path in self.paths
        )


def find_images(
    source: str | Path | Sequence[str | Path],
    *,
    classes: Classes | None = None,
    labelled: bool = True,
    person: str | Path | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
) -> ImageList:
    """List the images of a data set.

    These shapes are understood:

    - a folder with one sub-folder per class: the sorted sub-folder names, empty ones included, ARE TAKEN AS
      THE DECLARATION of the class list, so make a folder for each class that could have had examples, or
      pass `classes` to declare more;
    - a folder of images, or a list of files: unlabelled;
    - a CSV file with the columns `path` (relative to the CSV) and, optionally, `label`: with labels,
      `classes` must be passed, for a class list is never read off private labels. Columns are separated by
      commas, semicolons or tabs (see `csv_files.delimiter_of`);
    - a zip or tar archive of such a folder, or a folder in it: 'photos.zip/train'. It is unpacked into a
      temporary folder that goes with the list (see `archives.unpack`);
    - a Parquet file or a saved Hugging Face data set with a column of pictures and, optionally, `label`.

    Files are sorted by name. Names that begin with a dot and the folder `__MACOSX` are passed over. Whether a
    file can be opened is found out on encoding: an unreadable one becomes a row of zeros there.

    Args:
        source: the folder, the files or the CSV.
        classes: the full public list of classes, for a folder per class or a CSV.
        labelled: False to pass over a CSV's column of labels, as for a prediction.
        person: what tells whose each image is: a CSV's column; 'folder', for a folder of
            class/person/picture, where one name under several classes is one person; 'dicom', for the Patient
            ID in DICOM files; or a file of its own (see `people_in_file`).
        label_column: a table's column of labels, if it is not 'label'.
        path_column: a CSV's column of paths, if it is not 'path'.
    """
    if not isinstance(source, str | Path):
        found = ImageList(tuple(Path(path) for path in source))
    else:
        column = None if person == DICOM else person_column(person)
        found = _from_path(Path(source), classes, labelled, column, label_column, path_column)
        if labelled:
            require_label_column(Path(source), label_column, found.labelled)
    require_reader(found.paths)
    if person is None or found.people is not None:
        return found
    if is_person_file(person):
        people = people_in_file(Path(person), len(found), paths=found.paths, root=found.root)
    elif person == DICOM:
        people = people_by_dicom(found.root or Path(), found.paths)
    else:
        by_folder = person == FOLDER and found.root is not None and found.labelled is not None
        rule = f"a folder tells people by 'folder', as class/person/picture; got '{person}'."
        require(by_folder, found.root or Path(), rule, "Name a .csv or .npy file that tells them.")
        people = people_by_folder(found.root or Path(), found.sources())
    return replace(found, people=people)


def _from_path(
    path: Path,
    classes: Classes | None,
    labelled: bool,
    person: str | None,
    label: str | None,
    path_column: str | None,
) -> ImageList:
    if is_columnar(path):
        return _from_columns(path, classes, labelled, person, label)
    if path.is_dir():
        return _from_folder(path, classes)
    if archive := archive_in(path):
        unpacked = unpack(*archive, IMAGE_ENDINGS)
        return replace(_from_folder(unpacked.folder, classes, known_as=path), held=unpacked.held)
    require(path.exists(), path, "the file or folder must exist; it does not.", "Check the path.")
    if path.suffix.lower() == ".csv":
        # One name is given for all tables of a command; a pool need not have it.
        other = path_column is None or {path_column, _PATH} & set(header_of(path)) == {_PATH}
        listed = read_csv(path, _PATH if other else str(path_column), person, label)
        known = declared_labels(path, listed.labels if labelled else None, classes)
        return ImageList(
            tuple(path.parent / name for name in listed.examples), known, path.parent, listed.people
        )
    require_known_type(path)
    kinds = "images come as a folder, an archive, image files or a table; this file holds something else."
    rows = "Rows need no encoder; an encoder for texts reads .txt, .csv and .parquet."
    require(path.suffix.lower() in IMAGE_ENDINGS, path, kinds, rows)
    return ImageList((path,), root=path.parent)


def _from_columns(
    path: Path, classes: Classes | None, labelled: bool, person: str | None, label: str | None
) -> ImageList:
    listed, root, held = unpack_pictures(path, person, label, IMAGE_ENDINGS)
    declared = listed.classes if classes is None else classes
    known = declared_labels(path, listed.labels if labelled else None, declared)
    return ImageList(tuple(root / name for name in listed.examples), known, root, listed.people, held)


def _from_folder(root: Path, classes: Classes | None, *, known_as: Path | None = None) -> ImageList:
    shown = known_as or root  # what messages call it
    entries = sorted(entry for entry in root.iterdir() if _is_shown(entry.name))
    folders = [entry for entry in entries if entry.is_dir()]
    loose = tuple(entry for entry in entries if entry.is_file() and entry.suffix.lower() in IMAGE_ENDINGS)
    per_class = [(folder.name, tuple(_images_under(folder))) for folder in folders]
    nested = any(files for _, files in per_class)
    endings = ", ".join(sorted(IMAGE_ENDINGS))
    none = f"a data set must hold images, and no file of a known type is there ({endings})."
    require(nested or loose, shown, none, "Check the path, or convert the images.")
    if not nested:
        return ImageList(loose, root=root)
    both = "a folder must hold either images or one sub-folder per class; this holds both."
    require(not loose, shown, both, "Move the loose images into their class folders, or elsewhere.")
    names = {folder.name.lower() for folder in folders}
    splits = f"sub-folders are taken as classes, and these look like splits ({', '.join(sorted(names))})."
    inner = names <= _SPLIT_NAMES and any(entry.is_dir() for one in folders for entry in one.iterdir())
    likely = max(folders, key=lambda folder: folder.name.lower().startswith("train"))
    require(not inner, shown, splits, f"Point at one of them, for example '{shown / likely.name}'.")
    declared = declared_classes([name for name, _ in per_class] if classes is None else classes)
    folder_places = places([name for name, _ in per_class], [str(name) for name in declared])
    known = all(place >= 0 or not files for place, (_, files) in zip(folder_places, per_class, strict=True))
    rule = f"each sub-folder must be one of the {len(declared)} declared classes; at least one is not."
    require(known, shown, rule, "Declare the full list, or move the folder away.")
    paths = tuple(file for _, files in per_class for file in files)
    labels = np.repeat(folder_places, [len(files) for _, files in per_class])
    return ImageList(paths, Labelled(labels, declared), root=root)


def _images_under(folder: Path) -> Iterator[Path]:
    for here, inner, files in os.walk(folder):
        inner[:] = sorted(name for name in inner if _is_shown(name))
        for name in sorted(files):
            if _is_shown(name) and Path(name).suffix.lower() in IMAGE_ENDINGS:
                yield Path(here) / name


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"
