"""CSV files: of paths or texts, or with a column per feature; perhaps labels and people beside them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.data.class_names import Classes, declared_classes
from dptransfer.data.feature_columns import feature_names
from dptransfer.data.labelled import Labelled, places, whole_word
from dptransfer.data.parsing import parsing
from dptransfer.data.people import person_positions
from dptransfer.data.table import Listed, RawTable, chosen_split, label_column_in, require, unreadable

_NO_CSV = ("the file must be a CSV in UTF-8; it is not.", "Save it again.")
_NO_NUMBER = "a column of features must hold numbers or be empty; one holds something else."


def read_csv(path: Path, column: str, person: str | None = None, label: str | None = None) -> Listed:
    """The named column of a CSV file with a header, that of labels, by default `label`, and that of people.

    Labels are None where the file has no such column; people, where none is named.
    """
    label = label or "label"
    with parsing(path, *_NO_CSV):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, strict=True)
            header = reader.fieldnames or []
            _require_commas(path, header)
            named = f"the first line must name the columns, '{column}' among them; it does not."
            texts = "; for texts choose an encoder of texts" if "text" in header else ""
            begin = f"Begin the file with the line: {column},{person or label}{texts}"
            require(column in header, path, named, begin)
            _require_people(path, header, person)
            lines = list(reader)
    require(lines, path, "the CSV must list at least one example; it lists none.", "Check the file.")
    labelled = label in header
    short = any(line[column] is None or (labelled and line[label] is None) for line in lines)
    require(
        not short, path, "each line must fill every column; at least one is short.", "Complete the lines."
    )
    return Listed(
        [line[column] for line in lines],
        [line[label] for line in lines] if labelled else None,
        None if person is None else person_positions([line[person] for line in lines], len(lines)),
    )


def header_of(path: Path) -> list[str]:
    """What the first line names; never shown to anybody, for without a header it is somebody's."""
    with parsing(path, *_NO_CSV):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            header = next(csv.reader(stream, strict=True), [])
    _require_commas(path, header)
    return header


def read_feature_csv(
    path: Path,
    split: str | None = None,
    person: str | None = None,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
) -> RawTable:
    """A CSV file with a column per feature, and perhaps columns of labels and people; no splits.

    An empty cell is NaN, so that private data count its row as zeros.

    Args:
        path: the file, whose first line names the columns.
        split: must be None.
        person: the column that tells whose each row is.
        features: the columns that are features, as for `feature_names`; None for all others.
        label: the column of labels, if it is not of a usual name.
    """
    chosen_split(path, (), split)
    header = header_of(path)
    named = header and not any(_number(name) is not None for name in header)
    begin = "Begin the file with a line such as: f0,f1,label"
    require(named, path, "the first line must name the columns, with words; it does not.", begin)
    _require_people(path, header, person)
    chosen = feature_names(path, header, features, (person, label))
    none = "a table must have a column per feature; there is none beside labels and people."
    require(chosen, path, none, "Check the first line.")
    label = label_column_in(header, label)
    places = [header.index(name) for name in chosen]
    remedy = "Name the columns of features, such as --feature-columns 'f*'"
    remedy += "." if label else ", and that of classes: --label-column NAME."
    rows: list[Floats] = []
    words: list[str] = []
    ids: list[str] = []
    with parsing(path, *_NO_CSV):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream, strict=True)
            next(lines)
            for line in filter(None, lines):
                require(len(line) == len(header), path, "each line must fill every column.", "Complete them.")
                rows.append(_numbers(path, [line[place] for place in places], remedy))
                words += [] if label is None else [line[header.index(label)].strip()]
                ids += [] if person is None else [line[header.index(person)]]
    require(rows, path, "the CSV must list at least one example; it lists none.", "Check the file.")
    return RawTable(
        np.stack(rows),
        None if label is None else np.array(words),
        people=None if person is None else person_positions(ids, len(rows)),
        columns=tuple(chosen),
    )


def _require_commas(path: Path, header: Sequence[str]) -> None:
    # Spreadsheets write so where a comma is the decimal point.
    odd = len(header) == 1 and any(mark in header[0] for mark in ";\t")
    rule = "columns must be separated by commas; the first line has other separators alone."
    require(not odd, path, rule, "Save it with commas, and with points in numbers.")


def _require_people(path: Path, header: Sequence[str], person: str | None) -> None:
    absent = f"people must be in the column '{person}'; the first line names none of that name."
    # Without the names that are there: without a header they are somebody's.
    require(person is None or person in header, path, absent, "Name the column that has them.")


def _numbers(path: Path, cells: list[str], remedy: str) -> Floats:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    found = [np.nan if not cell.strip() else _number(cell) for cell in cells]
    require(None not in found, path, _NO_NUMBER, remedy)
    return np.array(found, dtype=np.float64)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def declared_labels(path: Path, words: Sequence[str] | None, classes: Classes | None) -> Labelled | None:
    """Label words among the declared classes; whole numbers are matched as they are written, or as 1.0."""
    declared = None if classes is None else declared_classes(classes)
    if words is None:
        return None
    if declared is None:
        undeclared = "classes must be declared, for they are never inferred from labels."
        raise unreadable(path, undeclared, "Pass classes=[...], the full public list.")
    known = {str(name) for name in declared}
    spelt = (word.strip() for word in words)
    found = places([one if one in known else whole_word(one) for one in spelt], map(str, declared))
    return Labelled(found, declared)
