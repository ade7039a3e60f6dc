"""Ids of people as a file writes them: they tell whether somebody is in two files, where numbers cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dptransfer.data import STORED
from dptransfer.data.arrow_files import is_columnar, open_columns
from dptransfer.data.csv_files import read_csv
from dptransfer.data.decode import without_warnings
from dptransfer.data.dicom import patient_of
from dptransfer.data.numpy_files import open_archive
from dptransfer.data.people import person_positions
from dptransfer.data.person_files import DICOM, FOLDER, is_person_file


def column_of(people: str | Path | None) -> str | None:
    """The column that tells people, where they are told by one."""
    if people is None or people in (STORED, FOLDER, DICOM) or is_person_file(people):
        return None
    return str(people)


def ids_of(
    path: Path,
    people: str | Path,
    names: Sequence[str] | None,
    images: Sequence[Path],
    count: int,
    split: str | None,
) -> list[Any] | None:
    """The id of each example, None for a missing one; None where there are numbers alone, as in a store.

    Args:
        path: the file or folder.
        people: what tells them.
        names: of the examples, for people by folder.
        images: their files, for people by DICOM.
        count: how many examples there are.
        split: which part of a file that has several.
    """
    if people == FOLDER:
        parts = [name.split("/") for name in names or ()]
        return [own[1] if len(own) > 2 else None for own in parts]
    if people == DICOM:
        with without_warnings():
            return [patient_of(file) for file in images]
    column, ids = column_of(people), None
    if column is None:
        return None
    if path.suffix.lower() == ".csv":
        ids = read_csv(path, column).examples
    elif is_columnar(path):
        ids = open_columns(path, split)[0].column(column).to_pylist()
    elif path.suffix.lower() == ".npz":
        with open_archive(path) as arrays:
            of_split = f"{column}_{split}"
            ids = arrays[of_split if of_split in arrays else column].tolist()
    return ids if ids is not None and len(ids) == count else None


def in_both(first: Sequence[Any], second: Sequence[Any]) -> list[int]:
    """Positions in `first` of examples whose person is in `second` too; a missing id is nobody else's.

    >>> in_both(["ann", "bob", None], [" bob", None])
    [1]
    """
    numbers = person_positions([*first, *second], len(first) + len(second))
    there = set(numbers[len(first) :].tolist())
    return [place for place, number in enumerate(numbers[: len(first)].tolist()) if number in there]
