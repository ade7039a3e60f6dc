"""CSV files as named columns."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base.types import AnyArray, Floats
from dptransfer.data.columns import Columns, NamedColumns, feature_names
from dptransfer.data.tables import chosen_split, parsing, require

_NO_CSV = ("the file must be a CSV in UTF-8; it is not.", "Save it again.")
_DELIMITERS = ",;\t"


class CsvColumns(NamedColumns):
    """Columns of a CSV file whose first line names them; no message repeats a cell or that line.

    Without a header the first line is somebody's.
    """

    def __init__(self, path: Path, split: str | None = None) -> None:
        chosen_split(path, (), split)
        self.path = path
        with _opened(path) as (self.names, _):
            pass

    def require_ids(self, person: str | None) -> None:
        """Raise unless the column of ids is there; the names that are there are not listed."""
        absent = f"people must be in the column '{person}'; the first line names none of that name."
        require(person is None or person in self.names, self.path, absent, "Name the column that has them.")

    def row_columns(self, columns: Columns) -> tuple[str, ...]:
        """A column for each feature."""
        named = self.names and not any(_number(name) is not None for name in self.names)
        begin = "Begin the file with a line such as: f0,f1,label"
        require(named, self.path, "the first line must name the columns, with words; it does not.", begin)
        chosen = feature_names(self.path, self.names, columns.features, (columns.ids, columns.label))
        none = "a table must have a column for each feature; there is none beside labels and people."
        require(chosen, self.path, none, "Check the first line.")
        return tuple(chosen)

    def features(self, rows: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the features."""
        return rows

    def read(self, beside: Collection[str], rows: Sequence[str] = ()) -> tuple[AnyArray, dict[str, Any]]:
        """Rows as floats, NaN for an empty cell, and cells as words; None where a line is too short."""
        places = {name: place for place, name in enumerate(self.names)}
        numbers: list[Floats] = []
        cells: dict[str, list[str | None]] = {name: [] for name in beside}
        with _opened(self.path) as (header, lines):
            for line in filter(None, lines):
                if rows:
                    whole = "each line must fill every column."
                    require(len(line) == len(header), self.path, whole, "Complete them.")
                    numbers.append(self._numbers([line[places[name]] for name in rows]))
                for name in beside:
                    place = places[name]
                    cells[name].append(line[place] if place < len(line) else None)
        some = numbers or any(cells.values())
        none = "the CSV must list at least one example; it lists none."
        require(some, self.path, none, "Check the file.")
        return np.stack(numbers) if rows else np.empty((0, 0)), cells

    def labels(self, name: str, cells: Any) -> list[Any]:
        """Words, without the blanks around them."""
        whole = "each line must fill every column; at least one is short."
        require(None not in cells, self.path, whole, "Complete the lines.")
        return [cell.strip() for cell in cells]

    def _numbers(self, cells: list[str]) -> Floats:
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
        found = [np.nan if not cell.strip() else _number(cell) for cell in cells]
        rule = "a column of features must hold numbers or be empty; one holds something else."
        remedy = (
            "Name the columns of features, such as --feature-columns 'f*', and that of classes "
            "(--label-column NAME); for pictures, that of paths (--path-column NAME). Numbers need a decimal "
            "point."
        )
        require(None not in found, self.path, rule, remedy)
        return np.array(found, dtype=np.float64)


def delimiter_of(line: str) -> str:
    """The delimiter of a CSV, by its first line: the comma, the semicolon or the tab that gives most columns.

    Of equals the first in that order. What is in quotes does not count, and no other line is looked at.

    >>> delimiter_of("path;label"), delimiter_of('"a;b",label'), delimiter_of("path")
    (';', ',', ',')
    """
    return max(_DELIMITERS, key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], Any]]:
    """The names in the first line, and a reader of the other lines."""
    with parsing(path, *_NO_CSV):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            mark = delimiter_of(stream.readline())
            stream.seek(0)
            reader = csv.reader(stream, delimiter=mark, strict=True)
            yield next(reader, []), reader


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
