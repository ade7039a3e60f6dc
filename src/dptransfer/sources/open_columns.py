"""Open any file with named columns: CSV, Parquet, saved data sets and archives of arrays."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats
from dptransfer.data.arrow import ArrowColumns, is_columnar
from dptransfer.data.columns import LABEL_NAMES, ROW_NAMES, CellsByName, Columns, NamedColumns, feature_names
from dptransfer.data.labels import declared_classes
from dptransfer.data.numpy_files import open_archive
from dptransfer.data.tables import chosen_split, list_names, parsing, require, unreadable

_NO_CSV = ("the file must be a CSV in UTF-8; it is not.", "Save it again.")
_DELIMITERS = ",;\t"


class CsvColumns(NamedColumns[list[str | None]]):
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
        require(chosen, self.path, "there is no column of features.", "Check the first line.")
        return tuple(chosen)

    def features(self, rows: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the features."""
        return rows

    def read(
        self, beside: Collection[str], rows: Sequence[str] = ()
    ) -> tuple[AnyArray, CellsByName[list[str | None]]]:
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
        require(some, self.path, "the CSV lists no examples.", "Check the file.")
        return np.stack(numbers) if rows else np.empty((0, 0)), cells

    def labels(self, name: str, cells: list[str | None]) -> list[str]:
        """Words, without the blanks around them."""
        require(None not in cells, self.path, "a line does not fill every column.", "Complete it.")
        return [cell.strip() for cell in cells if cell is not None]

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
def _opened(path: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
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


ARCHIVES = (".npz", ".safetensors", ".pt", ".pth")


def has_columns(path: Path) -> bool:
    """Whether `open_columns` reads it."""
    return is_columnar(path) or (path.is_file() and path.suffix.lower() in (".csv", *ARCHIVES))


@contextmanager
def open_columns(path: Path, split: str | None = None) -> Iterator[NamedColumns[Any]]:
    """The columns of a CSV, a Parquet file, a saved Hugging Face data set or an archive of arrays."""
    kind = path.suffix.lower()
    if is_columnar(path):
        yield ArrowColumns(path, split)
    elif kind == ".csv":
        yield CsvColumns(path, split)
    elif kind == ".npz":
        with open_archive(path) as arrays:
            yield ArchiveColumns(path, arrays, split)
    else:
        yield ArchiveColumns(path, (_safetensors if kind == ".safetensors" else _torch)(path), split)


class ArchiveColumns(NamedColumns[AnyArray]):
    """Arrays by name; in a file with splits those of one, such as x_train, stand for x."""

    label_names = LABEL_NAMES

    def __init__(self, path: Path, arrays: Mapping[str, AnyArray], split: str | None = None) -> None:
        self.path, self._arrays = path, arrays
        self._stored = {name: name for name in arrays}
        if ending := _chosen_ending(path, arrays, split):
            self._stored |= {one.removesuffix(ending): one for one in arrays if one.endswith(ending)}
        self.names = list(self._stored)

    def row_columns(self, columns: Columns) -> tuple[str, ...]:
        """The array of rows; or of small integers q, which stand for q·scale + offset."""
        if {"q", "scale", "offset"} <= self._stored.keys():
            return ("q",)
        name = next((name for name in ROW_NAMES if name in self._stored), None)
        if name is None:
            found = list_names(self._arrays) or "nothing"
            absent = f"rows must be stored under one of {', '.join(ROW_NAMES)}; found {found}."
            raise unreadable(self.path, absent, "Rename the array.")
        return (name,)

    def read(self, beside: Collection[str], rows: Sequence[str] = ()) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Rows and other arrays."""
        found = as_rows(self.path, self._array(rows[0])) if rows else np.empty((0, 0))
        if tuple(rows) == ("q",):
            numbers = "'scale' and 'offset' must be numbers, one for each column."
            # A warning of NumPy's would tell that some row is beyond float32.
            with parsing(self.path, numbers, "Write the file again."), np.errstate(all="ignore"):
                found = found.astype(np.float32)
                found *= self._array("scale").astype(np.float32)
                found += self._array("offset").astype(np.float32)
        return found, {name: self._array(name) for name in beside}

    def labels(self, name: str, cells: AnyArray) -> AnyArray:
        """The array itself."""
        return np.asarray(cells)

    def classes(self, label: str | None) -> tuple[str | int, ...] | None:
        """The array `classes`."""
        return declared_classes(self._arrays["classes"].tolist()) if "classes" in self._arrays else None

    def _array(self, name: str) -> AnyArray:
        return self._arrays[self._stored[name]]


def _chosen_ending(path: Path, arrays: Mapping[str, AnyArray], split: str | None) -> str:
    """What is appended to the names of the chosen split, such as '_train'; nothing in a file without any."""
    if split is None and set(arrays) & set(ROW_NAMES):
        return ""
    parts = (name.partition("_") for name in arrays)
    splits = sorted({part for name, mark, part in parts if mark and name in (*ROW_NAMES, "q")})
    chosen = chosen_split(path, splits, split)
    return "" if chosen is None else f"_{chosen}"


def _safetensors(path: Path) -> dict[str, AnyArray]:
    from safetensors import safe_open

    whole = "the file must be complete, of a type numpy knows, and list its classes as JSON; it is not."
    with parsing(path, whole, "Write it again, as float32."):
        with safe_open(str(path), framework="numpy") as archive:
            declared = (archive.metadata() or {}).get("classes")
            arrays: dict[str, AnyArray] = {key: archive.get_tensor(key) for key in archive.keys()}
        if declared is not None:
            arrays["classes"] = np.asarray(json.loads(declared))
    return arrays


def _torch(path: Path) -> dict[str, AnyArray]:
    torch = checks.import_optional("torch", "torch", "Reading a .pt file")
    plain = (
        "a .pt file must hold only plain tensors, lists and words (it is opened with weights_only=True); "
        "this holds more, or is damaged."
    )
    arrays: dict[str, AnyArray] = {}
    with parsing(path, plain, "Save a dict of tensors: torch.save({'x': rows, 'y': labels}, path)."):
        loaded = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(loaded, torch.Tensor):
            loaded = {ROW_NAMES[0]: loaded}
        for key, value in loaded.items() if isinstance(loaded, Mapping) else ():
            if isinstance(value, torch.Tensor):
                wide = value.float() if value.dtype == torch.bfloat16 else value  # NumPy has no bfloat16
                arrays[str(key)] = wide.detach().numpy()
            elif isinstance(value, list | tuple):
                arrays[str(key)] = np.asarray(value)
    tensors = "a .pt file must hold a tensor or a dict of tensors."
    require(isinstance(loaded, Mapping), path, tensors, "Save {'x': rows, 'y': labels}.")
    return arrays


def as_rows(path: Path, rows: AnyArray) -> AnyArray:
    """The array if it is a table of real numbers."""
    kind = f"rows must be real numbers; found the type {rows.dtype.name}."
    require(rows.dtype.kind in "fiub", path, kind, "Convert them, say to float32.")
    shape = f"rows must be numbers of shape (examples, dimension); found {rows.ndim} dimensions."
    require(rows.ndim == 2 and rows.shape[1] > 0, path, shape, "Reshape them.")
    return rows
