"""Find the images and texts of a data set, with their labels, and whose each is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import People
from dptransfer.data import tables
from dptransfer.data.examples import file_digests, text_digests
from dptransfer.data.labels import Classes, Labelled, LabelledList, declared_classes, person_positions, places
from dptransfer.data.numpy_files import load_array
from dptransfer.data.table_files import ArrowColumns, CsvColumns, is_columnar, open_columns, picture_column
from dptransfer.data.tables import USUAL_COLUMNS, Columns, ListedExamples, parsing, require
from dptransfer.errors import DataError
from dptransfer.sources.archives import ENDINGS as ARCHIVE_ENDINGS
from dptransfer.sources.archives import TemporaryFolder, archive_in, unpack
from dptransfer.sources.decode import without_warnings
from dptransfer.sources.dicom import DICOM_ENDINGS, patient_of, require_reader

ROW_ENDINGS = (".emb", ".npy", ".npz", ".safetensors", ".pt", ".pth")
IMAGE_ENDINGS = frozenset(
    ".jpg .jpeg .jfif .png .webp .bmp .gif .tif .tiff .ppm .pgm .pbm .jp2 .avif".split()  # what Pillow reads
).union(DICOM_ENDINGS)
_TABLES = (".csv", ".parquet")
_KNOWN = frozenset((*ROW_ENDINGS, *_TABLES, ".txt")) | IMAGE_ENDINGS


def require_known_type(path: Path) -> None:
    """Raise for a file whose name has an ending that nothing here reads; a folder may be called anything."""
    if path.is_file() and path.suffix.lower() not in _KNOWN and archive_in(path) is None:
        raise unknown_type(path)


def unknown_type(path: Path) -> DataError:
    """The error for a file whose ending nothing reads, with the endings that are read."""
    listed = (
        f"rows {' '.join((*ROW_ENDINGS, *_TABLES))}; images {' '.join(sorted(IMAGE_ENDINGS))}, an archive "
        f"({' '.join(ARCHIVE_ENDINGS)}), a folder, {' '.join(_TABLES)}; texts .txt {' '.join(_TABLES)}"
    )
    kind = (
        f"Unknown file type '{path.suffix}'" if path.suffix else "A file needs an ending that tells its type"
    )
    return DataError(f"'{path}': {kind}. Supported: {listed}.")


def people_in_file(
    file: Path, count: int, *, paths: Sequence[str | Path] | None = None, root: Path | None = None
) -> People:
    """The person of each example, by a file.

    An `.npy` array has the ids in the order of the examples. A CSV has the columns `path` and `person` where
    examples have paths, and `example` (numbers from 0) and `person` where they have none. An empty person is
    a missing id; an example that is not listed is an error, since paths from another root would otherwise
    make everybody strangers. Of paths it may list more than there are. Of numbers it may not: those of a
    whole data set would name other people's examples in a part of it.

    Args:
        file: the file.
        count: the number of examples.
        paths: where each lies, if they have paths.
        root: what paths in the file are relative to.
    """
    if file.suffix.lower() == ".npy":
        return person_positions(np.array(load_array(file)), count)
    column = "example" if paths is None else "path"
    lines = tables.read_listed(CsvColumns(file), column, Columns(person="person"), "example")

    def place(name: str | Path, beside: Path) -> str:
        return str(name).strip() if paths is None else os.path.abspath(beside / name)

    listed = [place(name, root or Path()) for name in lines.examples]
    person_of = dict(zip(listed, (() if lines.people is None else lines.people.tolist()), strict=True))
    require(len(person_of) == len(lines.examples), file, f"a {column} is listed twice.", "Remove one.")
    examples = map(str, range(count)) if paths is None else paths  # paths lead to the files as they are
    found = [person_of.get(place(name, Path())) for name in examples]
    all_listed = "every example must be listed, with an empty person if there is none; at least one is not."
    where = "Number them from 0." if paths is None else f"Name their files, relative to '{root or Path()}'."
    require(None not in found, file, all_listed, where)
    no_others = "examples without a path are told by their numbers, and others must not be listed; some are."
    require(paths is not None or len(person_of) == count, file, no_others, "Number these, from 0.")
    return person_positions(found, count)


def people_by_dicom(root: Path, paths: Sequence[Path]) -> People:
    """The person of each picture, by its Patient ID; one that has none is alone.

    Where none has one, as whoever removes names may leave it, everybody would be taken for several people,
    and the promise would be about pictures: so that is an error.

    Args:
        root: where they are, for a message.
        paths: the files.
    """
    rule = f"with people by DICOM, some files must be named as such ({' or '.join(sorted(DICOM_ENDINGS))})."
    any_named = any(path.suffix.lower() in DICOM_ENDINGS for path in paths)
    require(any_named, root, rule, "Rename them, or identify people by 'folder' or a file.")
    with without_warnings():
        ids = [patient_of(path) for path in paths]
    told = "with people by DICOM, files must have a Patient ID; none has."
    require(any(one and one.strip() for one in ids), root, told, "Identify people by 'folder' or a file.")
    return person_positions(ids, len(paths))


def people_by_folder(root: Path, names: Sequence[str]) -> People:
    """The person of each picture, by the folder in that of its class; one that is in none is alone.

    >>> people_by_folder(Path("photos"), ["cat/ann/1.png", "dog/ann/2.png", "dog/3.png"]).tolist()
    [0, 0, 1]

    Args:
        root: the folder of all, for a message.
        names: where each picture lies in it, as class/person/picture.
    """
    parts = [name.split("/") for name in names]
    rule = "with people by folder, pictures must lie in class/person/picture; none does."
    require(any(len(own) > 2 for own in parts), root, rule, "Make a folder for each person, in each class.")
    return person_positions([own[1] if len(own) > 2 else None for own in parts], len(parts))


def _unpack_pictures(path: Path, columns: Columns) -> tuple[ListedExamples, TemporaryFolder]:
    """Write the pictures of a table to a temporary folder, in the order of the rows.

    An empty cell, or one that has a path and no bytes, is an empty file: a picture that cannot be read.
    """
    table = ArrowColumns(path, columns.split)
    column = picture_column(table.schema)
    there = tables.list_names(table.names)
    found = f"pictures must be in a column of structs (bytes, path) or of bytes; found {there}."
    require(column is not None, path, found, "Write it again with datasets, or name that column 'image'.")
    pictures = tables.read_listed(table, str(column), columns)
    held = TemporaryFolder()
    stamp = path.stat().st_mtime_ns  # so that an interrupted encoding knows them again
    names: list[str] = []
    room = "pictures must be unpacked in the place for temporary files; they cannot."
    with parsing(path, room, "Set TMPDIR."):
        for cell in pictures.examples:
            content, ending = _cell(cell.as_py())
            names.append(f"{len(names):08d}{ending if ending in IMAGE_ENDINGS else ''}")
            (held.path / names[-1]).write_bytes(content)
            os.utime(held.path / names[-1], ns=(stamp, stamp))
    return pictures._replace(examples=names), held


def _cell(cell: bytes | dict[str, Any] | None) -> tuple[bytes, str]:
    """A picture's bytes, none where there are none, and the ending of the name on record."""
    if not isinstance(cell, dict):
        return cell or b"", ""
    return cell["bytes"] or b"", PurePosixPath(str(cell["path"] or "").replace("\\", "/")).suffix.lower()


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
    columns: Columns = USUAL_COLUMNS,
    *,
    classes: Classes | None = None,
    labelled: bool = True,
) -> ImageList:
    """List the images of a data set.

    These shapes are understood:

    - a folder with one sub-folder per class: the sorted sub-folder names, empty ones included, ARE TAKEN AS
      THE DECLARATION of the class list, so make a folder for each class that could have had examples, or
      pass `classes` to declare more;
    - a folder of images, or a list of files: unlabelled;
    - a CSV file with the columns `path` (relative to the CSV) and, optionally, `label`: with labels,
      `classes` must be passed, for a class list is never read off private labels. Columns are separated by
      commas, semicolons or tabs (see `table_files.delimiter_of`);
    - a zip or tar archive of such a folder, or a folder in it: 'photos.zip/train'. It is unpacked into a
      temporary folder that goes with the list (see `archives.unpack`);
    - a Parquet file or a saved Hugging Face data set with a column of pictures and, optionally, `label`.

    Files are sorted by name. Names that begin with a dot and the folder `__MACOSX` are passed over. Whether a
    file can be opened is found out on encoding: an unreadable one becomes a row of zeros there.

    Args:
        source: the folder, the files or the CSV.
        columns: a table's columns of paths, labels and people. Its `person` may also be 'folder', for a
            folder of class/person/picture, where one name under several classes is one person; 'dicom', for
            the Patient ID in DICOM files; or a file of ids (see `people_in_file`).
        classes: the full public list of classes, for a folder per class or a CSV.
        labelled: False to ignore a table's column of labels, as for a prediction.
    """
    person = columns.person
    if not isinstance(source, str | Path):
        found = ImageList(tuple(Path(path) for path in source))
    else:
        found = _from_path(Path(source), columns, classes, labelled)
        if labelled:
            tables.require_label_column(Path(source), columns.label, found.labelled)
    require_reader(found.paths)
    if person is None or found.people is not None:
        return found
    if tables.is_person_file(person):
        people = people_in_file(Path(person), len(found), paths=found.paths, root=found.root)
    elif person == tables.DICOM:
        people = people_by_dicom(found.root or Path(), found.paths)
    else:
        by_folder = person == tables.FOLDER and found.root is not None and found.labelled is not None
        rule = f"a folder identifies people by 'folder', as class/person/picture; got '{person}'."
        require(by_folder, found.root or Path(), rule, "Name a .csv or .npy file that identifies them.")
        people = people_by_folder(found.root or Path(), found.sources())
    return replace(found, people=people)


def _from_path(path: Path, columns: Columns, classes: Classes | None, labelled: bool) -> ImageList:
    if is_columnar(path):
        pictures, held = _unpack_pictures(path, columns)
        known, root = pictures.match_labels(path, classes, wanted=labelled), held.path
        return ImageList(tuple(root / name for name in pictures.examples), known, root, pictures.people, held)
    if path.is_dir():
        return _from_folder(path, classes)
    if archive := archive_in(path):
        folder, held = unpack(*archive, IMAGE_ENDINGS)
        return replace(_from_folder(folder, classes, known_as=path), held=held)
    require(path.exists(), path, "the file or folder must exist; it does not.", "Check the path.")
    if path.suffix.lower() == ".csv":
        table, column = CsvColumns(path, columns.split), columns.path or _PATH
        if column not in table.names and _PATH in table.names:
            column = _PATH  # one name is given for all tables of a command; a pool need not have it
        named = tables.read_listed(table, column, columns, "path")
        known, root = named.match_labels(path, classes, wanted=labelled), path.parent
        return ImageList(tuple(root / name for name in named.examples), known, root, named.people)
    require_known_type(path)
    kinds = "images come as a folder, an archive, image files or a table; this file holds something else."
    rows = "Rows need no encoder; an encoder for texts reads .txt, .csv and .parquet."
    require(path.suffix.lower() in IMAGE_ENDINGS, path, kinds, rows)
    return ImageList((path,), root=path.parent)


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
    require(not loose, shown, "it has images beside class folders.", "Move the loose images elsewhere.")
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


@dataclass(frozen=True, repr=False)
class TextList(LabelledList):
    """Texts in a fixed order, with labels where they are known; printing it shows none of them.

    Attributes:
        texts: the texts.
        labelled: their classes, or None.
        people: whose each is, as a number from 0, or None.
    """

    texts: tuple[str, ...]
    labelled: Labelled | None = None
    people: People | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def source_digests(self) -> NDArray[np.uint64]:
        """Of each text."""
        return text_digests(self.texts)


def find_texts(
    source: str | Path,
    columns: Columns = USUAL_COLUMNS,
    *,
    classes: Classes | None = None,
    labelled: bool = True,
) -> TextList:
    """Read texts from a table with a column of texts, or from a .txt of one text per line.

    Args:
        source: a CSV, a Parquet file, a saved Hugging Face data set or a .txt; CSV and .txt are in UTF-8.
        columns: the columns of texts, labels and people; people may be in a file of ids (see
            `people_in_file`).
        classes: the full public list of classes; required with labels, for it is never read off them, unless
            a Hugging Face data set declares one.
        labelled: False to ignore a column of labels, as for a prediction.
    """
    path, person = Path(source), columns.person
    known = person is None or columns.ids is not None or tables.is_person_file(person)
    require(known, path, f"people of texts are in a column or a file; got '{person}'.", "Name one.")
    there = path.is_file() or is_columnar(path)
    require(there, path, "the file of texts must exist; it does not.", "Check the path.")
    if path.suffix.lower() == ".csv" or is_columnar(path):
        table = open_columns(path, columns.split)
        found = tables.read_listed(table, columns.text or "text", columns, "text")
        labels = found.match_labels(path, classes, wanted=labelled)
        listed = TextList(tuple(found.examples), labels, found.people)
    else:
        if path.suffix.lower() != ".txt":
            require_known_type(path)
            kinds = "texts come as .csv, .parquet or .txt; this file holds something else."
            require(False, path, kinds, "Convert the file, or choose an encoder for images.")
        listed = TextList(_lines(path))
        no_column = "a .txt has no column of people."
        require(columns.ids is None, path, no_column, "Name a .csv or .npy file that has them.")
    if labelled:
        tables.require_label_column(path, columns.label, listed.labelled)
    if person is None or listed.people is not None:
        return listed
    return replace(listed, people=people_in_file(Path(person), len(listed)))


def _lines(path: Path) -> tuple[str, ...]:
    with parsing(path, "the file must be UTF-8 text; it is not.", "Save it again."):
        lines = tuple(line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    require(lines, path, "the file must hold at least one text; it holds none.", "Check the file.")
    return lines
