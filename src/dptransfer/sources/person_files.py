"""Whose each example is, as told outside of it: by a file of its own, or by the folder of a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dptransfer.base.types import People
from dptransfer.data.columns import Columns, read_listed
from dptransfer.data.labels import person_positions
from dptransfer.data.numpy_files import load_array
from dptransfer.data.tables import require
from dptransfer.sources.decode import without_warnings
from dptransfer.sources.dicom import DICOM_ENDINGS, patient_of
from dptransfer.sources.open_columns import CsvColumns


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
    lines = read_listed(CsvColumns(file), column, Columns(person="person"), "example")

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
    require(any_named, root, rule, "Rename them, or tell people by 'folder' or a file.")
    with without_warnings():
        ids = [patient_of(path) for path in paths]
    told = "with people by DICOM, files must have a Patient ID; none has."
    require(any(one and one.strip() for one in ids), root, told, "Tell people by 'folder' or a file.")
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
