"""Open any file with named columns: CSV, Parquet, saved data sets and archives of arrays."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats
from dptransfer.data import tables
from dptransfer.data.labels import declared_classes
from dptransfer.data.numpy_files import Archive
from dptransfer.data.tables import ROW_NAMES, Columns, NamedColumns, parsing, require

if TYPE_CHECKING:
    import pyarrow as pa


WHOLE_FILE = ("a .parquet file must be complete; this is not.", "Write it again.")
_WHOLE_FOLDER = ("a saved data set must load with datasets.load_from_disk; it does not.", "Save it again.")
_AGAIN = "Write it again."
_LISTS = ("rows must be lists of numbers, or columns of them; some are not.", _AGAIN)


def is_dataset_folder(path: Path) -> bool:
    """Whether the folder was written by `datasets.Dataset.save_to_disk` or its dict of splits."""
    return (path / "dataset_dict.json").is_file() or (path / "dataset_info.json").is_file()


def is_columnar(path: Path) -> bool:
    """Whether `ArrowColumns` reads it: a Parquet file or a saved Hugging Face data set."""
    return path.suffix.lower() == ".parquet" if path.is_file() else is_dataset_folder(path)


class ArrowColumns(NamedColumns):
    """Columns of a Parquet file, or of a saved Hugging Face data set or one of its splits."""

    def __init__(self, path: Path, split: str | None = None) -> None:
        chosen = tables.chosen_split(path, splits_of(path) if path.is_dir() else (), split)
        self.path, self._split, self.schema = path, chosen, schema_of(path, chosen)
        self.names = self.schema.names

    def row_columns(self, columns: Columns) -> tuple[str, ...]:
        """A list column of a usual name, or a column of numbers for each feature; types and names decide."""
        return row_columns(self.path, self.schema, columns)

    def read(
        self, beside: Collection[str], rows: Sequence[str] = ()
    ) -> tuple[AnyArray, dict[str, tables.Cells]]:
        """Rows as an array, other columns as lists, pictures as Arrow has them; no column else is read."""
        table = self._table([*dict.fromkeys((*rows, *beside))])
        cells = {}
        for name in beside:
            single = f"'{name}' must be one column of words or numbers, or of pictures; it is not."
            with parsing(self.path, single, "Rename it if two have one name."):
                column = table.column(name)
                cells[name] = column if is_picture(column.type) else column.to_pylist()
        return dense_rows(self.path, table, tuple(rows)) if rows else np.empty((len(table), 0)), cells

    def _table(self, columns: list[str]) -> pa.Table:
        if not self.path.is_dir():
            with parsing(self.path, *WHOLE_FILE):
                return parquet().read_table(self.path, columns=columns)
        with parsing(self.path, *_WHOLE_FOLDER):
            # Mapped, not read: a data set of pictures may be larger than memory.
            table = _arrow().concat_tables([part.read_all() for part in _streams(self.path, self._split)])
            table.validate(full=True)  # offsets that lead out of the file would kill the process later
            return table

    def labels(self, name: str, cells: tables.Cells) -> Sequence[tables.Label]:
        """Words or numbers; a column that may hold anything else is refused by its type, and no cell does."""
        types, kind = _arrow().types, self.schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        words = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
        rule = f"labels must be one word or number for each row; '{name}' holds values of the type {kind}."
        remedy = "Write one class for each row, or name another column: --label-column NAME."
        require(words or _is_number(kind), self.path, rule, remedy)
        filled = f"each row of '{name}' must have a label; some are empty."
        require(None not in cells, self.path, filled, "Fill them, or drop them.")
        found: Sequence[tables.Label] = cells
        return found

    def classes(self, label: str | None) -> tuple[str | int, ...] | None:
        """The class names that a Hugging Face data set records for its column of labels."""
        with parsing(self.path, "recorded class names must be words; they are not.", _AGAIN):
            recorded = json.loads((self.schema.metadata or {}).get(b"huggingface", b"{}"))
            features = dict(recorded.get("info", {}).get("features") or {})
            declared = (features.get(label) or {}).get("names") or None
            if declared is not None and not isinstance(declared, list):
                raise TypeError
            return None if declared is None else tuple(map(str, declared_classes(declared)))

    def features(self, rows: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names of the features, where each has a column."""
        return named_features(self.schema, rows)


def parquet() -> ModuleType:
    """The reader of Parquet files."""
    return checks.import_optional("pyarrow.parquet", "readers", "Reading a Parquet file")


def _arrow() -> ModuleType:
    return checks.import_optional("pyarrow", "readers", "Reading a Hugging Face data set")


def schema_of(path: Path, split: str | None = None) -> pa.Schema:
    """Names and types of the columns; of a data set in several parts, those of the first one."""
    with parsing(path, *(_WHOLE_FOLDER if path.is_dir() else WHOLE_FILE)):
        if path.is_dir():
            schema = _streams(path, split or next(iter(splits_of(path)), None))[0].schema
        else:
            schema = parquet().read_schema(path)
        list(schema.names)  # a name that is not UTF-8 raises when it is first asked for
        return schema


def splits_of(folder: Path) -> list[str]:
    """The parts of a saved data set that has some, sorted."""
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return []
    with parsing(folder, *_WHOLE_FOLDER):
        return sorted(str(name) for name in json.loads(listing.read_text("utf-8"))["splits"])


def _streams(folder: Path, split: str | None) -> list[Any]:
    """The files of a saved data set, or of one of its splits, opened in order."""
    place = folder if split is None else _inside(folder, split)
    state = json.loads((place / "state.json").read_text("utf-8"))
    flat = "a saved data set must have its rows in order; this one keeps a list of chosen rows beside them."
    require(not state.get("_indices_data_files"), place, flat, "Save it after flatten_indices().")
    files = [str(_inside(place, str(one["filename"]))) for one in state["_data_files"]]
    return [_arrow().ipc.open_stream(_arrow().memory_map(file)) for file in files]


def _inside(folder: Path, name: str) -> Path:
    """A file or folder that a listing names; one that leads out of its folder is refused."""
    plain = name not in ("", ".", "..") and not {"/", "\\", "\0", ":"} & set(name)
    require(plain, folder, "it lists files outside of its folder.", "Save it again.")
    return folder / name


def row_columns(path: Path, schema: pa.Schema, columns: Columns) -> tuple[str, ...]:
    """Where the rows are: one column of lists, or a column of numbers for each feature; by names and types.

    Args:
        path: the file, for a message.
        schema: Arrow's, of its columns.
        columns: those of features, if they are named, and those of people and labels, which are none.
    """
    features = columns.features
    name = next((name for name in reversed(ROW_NAMES) if name in schema.names), None)
    by_name = isinstance(features, str) or (features is not None and set(features) <= set(schema.names))
    if name is not None and not by_name:
        with parsing(path, f"'{name}' must be one column of lists of numbers; it is not.", _AGAIN):
            kind = schema.field(name).type
        number = is_list(kind) and _is_number(kind.value_type)
        require(number, path, f"'{name}' must hold lists of numbers; it holds {kind}.", "Convert it.")
        return (name,)
    numeric = [one.name for one in schema if _is_number(one.type)]
    chosen = tables.feature_names(path, numeric, features, (columns.ids, columns.label))
    absent = f"rows must be in a column named {', '.join(ROW_NAMES)}, or in a column of numbers each; "
    require(chosen, path, f"{absent}found {tables.list_names(schema.names)}.", "Rename the column.")
    return tuple(chosen)


_PICTURES = ("image", "img", "picture", "photo")


def picture_column(schema: pa.Schema) -> str | None:
    """The column that holds pictures: structs of `bytes` and `path`, or bytes under a usual name; or None."""
    found = [one for one in schema if is_picture(one.type)]
    structs = [str(one.name) for one in found if one.type.num_fields]
    raw = {one.name for one in found}
    return next(iter([*structs, *(name for name in _PICTURES if name in raw)]), None)


def is_picture(kind: pa.DataType) -> bool:
    """Whether cells of this type may be pictures: structs of `bytes` and `path`, or bytes."""
    types = _arrow().types
    if types.is_struct(kind):
        return {"bytes", "path"} <= {inner.name for inner in kind}
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    types = _arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def named_features(schema: pa.Schema, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """What the features in these columns are called; those of a list column are not called anything."""
    return None if is_list(schema.field(columns[0]).type) else columns


def dense_rows(path: Path, table: pa.Table, columns: tuple[str, ...]) -> AnyArray:
    """The rows in these columns of a table; an empty cell is NaN, and so a row that counts as zeros."""
    with parsing(path, *_LISTS):
        if is_list(table.schema.field(columns[0]).type):
            return _list_column(path, columns[0], table.column(columns[0]))
        rows = np.empty((len(table), len(columns)), np.float64)
        for place, one in enumerate(columns):
            rows[:, place] = table.column(one).cast("float64", safe=False).to_numpy()
        return rows


def is_list(kind: pa.DataType) -> bool:
    """Whether cells of this type are lists."""
    types = _arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _list_column(path: Path, name: str, column: pa.ChunkedArray) -> AnyArray:
    """Rows of a list column; an empty cell is a row of NaN, which private data count as a row of zeros."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], type=joined.type)
    lengths = set(pc.unique(pc.drop_null(pc.list_value_length(joined))).to_pylist())
    uneven = f"the rows in '{name}' must all have one length above zero; they do not."
    require(len(lengths) == 1 and 0 not in lengths, path, uneven, "Fix them.")
    flat = joined.drop_null().flatten().to_numpy(zero_copy_only=False)
    dense = flat.reshape(-1, lengths.pop())
    if not joined.null_count:
        return np.asarray(dense)
    rows = np.full((len(joined), dense.shape[1]), np.nan, dtype=np.result_type(dense.dtype, np.float32))
    rows[joined.is_valid().to_numpy(zero_copy_only=False)] = dense
    return rows


class CsvColumns(NamedColumns):
    """Columns of a CSV file whose first line names them; no message repeats a cell or that line.

    Without a header the first line is somebody's.
    """

    def __init__(self, path: Path, split: str | None = None) -> None:
        tables.chosen_split(path, (), split)
        self.path = path
        with _opened(path) as (self.names, _):
            pass

    def require_ids(self, person: str | None) -> None:
        """Raise unless the column of ids is there; the names that are there are not listed."""
        absent = f"people must be in the column '{person}'; the first line names none of that name."
        require(person is None or person in self.names, self.path, absent, "Name the column that has them.")

    def row_columns(self, columns: Columns) -> tuple[str, ...]:
        """A column for each feature."""
        named = self.names and not any(name.strip() and _numbers([name]) is not None for name in self.names)
        begin = "Begin the file with a line such as: f0,f1,label"
        require(named, self.path, "the first line must name the columns, with words; it does not.", begin)
        chosen = tables.feature_names(self.path, self.names, columns.features, (columns.ids, columns.label))
        require(chosen, self.path, "there is no column of features.", "Check the first line.")
        return tuple(chosen)

    def features(self, rows: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the features."""
        return rows

    def read(
        self, beside: Collection[str], rows: Sequence[str] = ()
    ) -> tuple[AnyArray, dict[str, tables.Cells]]:
        """Rows as floats, NaN for an empty cell, and cells as words; None where a line is too short."""
        places = {name: place for place, name in enumerate(self.names)}
        numbers: list[Floats | None] = []
        cells: dict[str, list[str | None]] = {name: [] for name in beside}
        with _opened(self.path) as (header, lines):
            for line in filter(None, lines):
                if rows:
                    whole = "each line must fill every column."
                    require(len(line) == len(header), self.path, whole, "Complete them.")
                    numbers.append(_numbers([line[places[name]] for name in rows]))
                    require(numbers[-1] is not None, self.path, *_NO_NUMBERS)
                for name, own in cells.items():
                    own.append(line[places[name]] if places[name] < len(line) else None)
        some = numbers or any(cells.values())
        require(some, self.path, "the CSV lists no examples.", "Check the file.")
        return np.array(numbers) if rows else np.empty((0, 0)), cells

    def labels(self, name: str, cells: tables.Cells) -> list[str]:
        """Words, without the blanks around them."""
        require(None not in cells, self.path, "a line does not fill every column.", "Complete it.")
        return [cell.strip() for cell in cells]


_NO_NUMBERS = (
    "a column of features must hold numbers or be empty; one holds something else.",
    "Name the columns of features, such as --feature-columns 'f*', and that of classes (--label-column "
    "NAME); for pictures, that of paths (--path-column NAME). Numbers need a decimal point.",
)


def _numbers(cells: list[str]) -> Floats | None:
    """Numbers, NaN for an empty cell; None where one is no number."""
    with suppress(ValueError):
        return np.array(cells, dtype=np.float64)
    with suppress(ValueError):
        return np.array([float(cell) if cell.strip() else np.nan for cell in cells])
    return None


def delimiter_of(line: str) -> str:
    """The delimiter of a CSV, by its first line: the comma, the semicolon or the tab that gives most columns.

    Of equals the first in that order. What is in quotes does not count, and no other line is looked at.

    >>> delimiter_of("path;label"), delimiter_of('"a;b",label'), delimiter_of("path")
    (';', ',', ',')
    """
    return max(",;\t", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """The names in the first line, and a reader of the other lines."""
    with parsing(path, "the file must be a CSV in UTF-8; it is not.", "Save it again."):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            mark = delimiter_of(stream.readline())
            stream.seek(0)
            reader = csv.reader(stream, delimiter=mark, strict=True)
            yield next(reader, []), reader


ARCHIVES = (".npz", ".safetensors", ".pt", ".pth")


def has_columns(path: Path) -> bool:
    """Whether `open_columns` reads it."""
    return is_columnar(path) or (path.is_file() and path.suffix.lower() in (".csv", *ARCHIVES))


def open_columns(path: Path, split: str | None = None) -> NamedColumns:
    """The columns of a CSV, a Parquet file, a saved Hugging Face data set or an archive of arrays."""
    kind = path.suffix.lower()
    if is_columnar(path):
        return ArrowColumns(path, split)
    if kind == ".csv":
        return CsvColumns(path, split)
    readers = {".npz": Archive, ".safetensors": _safetensors}
    return ArchiveColumns(path, readers.get(kind, _torch)(path), split)


class ArchiveColumns(NamedColumns):
    """Arrays by name; in a file with splits those of one, such as x_train, stand for x."""

    label_names = tables.LABEL_NAMES

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
        found = tables.list_names(self._arrays) or "nothing"
        absent = f"rows must be stored under one of {', '.join(ROW_NAMES)}; found {found}."
        require(name is not None, self.path, absent, "Rename the array.")
        return (str(name),)

    def read(self, beside: Collection[str], rows: Sequence[str] = ()) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Rows and other arrays."""
        found = as_rows(self.path, self._array(rows[0])) if rows else np.empty((0, 0))
        if tuple(rows) == ("q",):
            numbers = "'scale' and 'offset' must be numbers, one for each column."
            # A warning of NumPy's would tell that some row is beyond float32.
            with parsing(self.path, numbers, _AGAIN), np.errstate(all="ignore"):
                found = found.astype(np.float32)
                found *= self._array("scale").astype(np.float32)
                found += self._array("offset").astype(np.float32)
        return found, {name: self._array(name) for name in beside}

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
    chosen = tables.chosen_split(path, splits, split)
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
    plain = "a .pt file must hold plain tensors, lists and words alone (weights_only=True); it does not."
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
