"""CSV files: of paths or texts, or with a column per feature; perhaps labels and people beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base.arrays import Floats
from dptransfer.data.labels import Classes, Labelled, declared_classes, places, whole_word
from dptransfer.data.people import person_positions
from dptransfer.data.tables import (
    Listed,
    RawTable,
    chosen_split,
    feature_names,
    label_column_in,
    parsing,
    require,
    unreadable,
)

_NO_CSV = ("the file must be a CSV in UTF-8; it is not.", "Save it again.")
_NO_NUMBER = "a column of features must hold numbers or be empty; one holds something else."
_DELIMITERS = ",;\t"
_OPTIONS = {"path": "--path-column", "text": "--text-column"}


def read_csv(
    path: Path,
    column: str,
    person: str | None = None,
    label: str | None = None,
    *,
    with_labels: bool = True,
) -> Listed:
    """The named column of a CSV file with a header, that of labels, by default `label`, and that of people.

    Labels are None where the file has no such column; people, where none is named. `with_labels` is False for
    a file that is about people alone: the advice for its first line then leaves labels out.
    """
    label = label or "label"
    with _opened(path) as (header, reader):
        named = f"the first line must name the columns, '{column}' among them; it does not."
        texts = "; for texts choose an encoder of texts" if "text" in header else ""
        columns = ",".join(filter(None, (column, label if with_labels else None, person)))
        option = _OPTIONS.get(column) if with_labels else None
        other = "" if option is None else f", or name the column with {option} NAME"
        begin = f"Begin the file with a line such as: {columns}{other}{texts}."
        require(column in header, path, named, begin)
        _require_people(path, header, person)
        lines = [dict(zip(header, line, strict=False)) for line in reader if line]
    require(lines, path, "the CSV must list at least one example; it lists none.", "Check the file.")
    labelled = label in header
    needed = {column, label} if labelled else {column}
    whole = all(needed <= line.keys() for line in lines)
    require(whole, path, "each line must fill every column; at least one is short.", "Complete the lines.")
    return Listed(
        [line[column] for line in lines],
        [line[label] for line in lines] if labelled else None,
        None if person is None else person_positions([line.get(person) for line in lines], len(lines)),
    )


def label_words(path: Path, label: str | None = None) -> list[str] | None:
    """The column of labels alone, by default `label`; None where the file has no such column."""
    label = label or "label"
    return read_csv(path, label, label=label).labels if label in header_of(path) else None


def header_of(path: Path) -> list[str]:
    """What the first line names; never shown to anybody, for without a header it is somebody's."""
    with _opened(path) as (header, _):
        return header


def delimiter_of(line: str) -> str:
    """The delimiter of a CSV, by its first line: the comma, the semicolon or the tab that gives most columns.

    Of equals the first in that order. What is in quotes does not count, and no other line is looked at.

    >>> delimiter_of("path;label"), delimiter_of('"a;b",label'), delimiter_of("path")
    (';', ',', ',')
    """
    return max(_DELIMITERS, key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], Any]]:
    """What the first line names, and a reader of the others."""
    with parsing(path, *_NO_CSV):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            mark = delimiter_of(stream.readline())
            stream.seek(0)
            reader = csv.reader(stream, delimiter=mark, strict=True)
            yield next(reader, []), reader


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
    remedy += "" if label else ", and that of classes (--label-column NAME)"
    remedy += "; for pictures, that of paths (--path-column NAME). Numbers need a decimal point."
    rows: list[Floats] = []
    words: list[str] = []
    ids: list[str] = []
    with _opened(path) as (_, lines):
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
