"""Parquet files and saved Hugging Face data sets as named columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray
from dptransfer.data.columns import ROW_NAMES, CellsByName, Columns, Label, NamedColumns, feature_names
from dptransfer.data.labels import declared_classes
from dptransfer.data.tables import chosen_split, list_names, parsing, require, unreadable

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


class ArrowColumns(NamedColumns["pa.ChunkedArray"]):
    """Columns of a Parquet file, or of a saved Hugging Face data set or one of its splits."""

    def __init__(self, path: Path, split: str | None = None) -> None:
        chosen = chosen_split(path, splits_of(path) if path.is_dir() else (), split)
        self.path, self._split, self.schema = path, chosen, schema_of(path, chosen)
        self.names = self.schema.names

    def row_columns(self, columns: Columns) -> tuple[str, ...]:
        """A list column of a usual name, or a column of numbers for each feature; types and names decide."""
        return row_columns(self.path, self.schema, columns.features, (columns.ids, columns.label))

    def read(
        self, beside: Collection[str], rows: Sequence[str] = ()
    ) -> tuple[AnyArray, CellsByName[pa.ChunkedArray]]:
        """Rows as an array, other columns as Arrow has them; of a Parquet file no other column is read."""
        table = self._table([*dict.fromkeys((*rows, *beside))])
        cells = {}
        for name in beside:
            single = f"'{name}' must be one column; two columns have that name."
            with parsing(self.path, single, "Rename one of them."):
                cells[name] = table.column(name)
        return dense_rows(self.path, table, tuple(rows)) if rows else np.empty((len(table), 0)), cells

    def _table(self, columns: list[str]) -> pa.Table:
        if not self.path.is_dir():
            parquet = checks.import_optional("pyarrow.parquet", "readers", "Reading a Parquet file")
            with parsing(self.path, *WHOLE_FILE):
                return parquet.read_table(self.path, columns=columns)
        arrow = checks.import_optional("pyarrow", "readers", "Reading a Hugging Face data set")
        with parsing(self.path, *_WHOLE_FOLDER):
            # Mapped, not read: a data set of pictures may be larger than memory.
            files = _shards(_part(self.path, self._split))
            parts = [arrow.ipc.open_stream(arrow.memory_map(str(file))).read_all() for file in files]
            table = arrow.concat_tables(parts)
            table.validate(full=True)  # offsets that lead out of the file would kill the process later
            return table

    def labels(self, name: str, cells: pa.ChunkedArray) -> list[Label]:
        """Words or numbers; a column that may hold anything else is refused by its type."""
        _require_plain(self.path, name, cells.type)
        filled = f"each row of '{name}' must have a label; some are empty."
        require(not cells.null_count, self.path, filled, "Fill them, or drop them.")
        with parsing(self.path, f"'{name}' must be one column of words or numbers; it is not.", _AGAIN):
            return list(cells.to_pylist())

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


def schema_of(path: Path, split: str | None = None) -> pa.Schema:
    """Names and types of the columns; of a data set in several parts, those of the first one."""
    if not path.is_dir():
        parquet = checks.import_optional("pyarrow.parquet", "readers", "Reading a Parquet file")
        with parsing(path, *WHOLE_FILE):
            return _readable(parquet.read_schema(path))
    arrow = checks.import_optional("pyarrow", "readers", "Reading a Hugging Face data set")
    with parsing(path, *_WHOLE_FOLDER):
        first = _shards(_part(path, split or next(iter(splits_of(path)), None)))[0]
        return _readable(arrow.ipc.open_stream(arrow.memory_map(str(first))).schema)


def splits_of(folder: Path) -> list[str]:
    """The parts of a saved data set that has some, sorted."""
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return []
    with parsing(folder, *_WHOLE_FOLDER):
        return sorted(str(name) for name in json.loads(listing.read_text("utf-8"))["splits"])


def _part(folder: Path, split: str | None) -> Path:
    """The folder of a split; the data set's own where it has none."""
    return folder if split is None else _inside(folder, split)


def _shards(folder: Path) -> list[Path]:
    state = json.loads((folder / "state.json").read_text("utf-8"))
    flat = "a saved data set must have its rows in order; this one keeps a list of chosen rows beside them."
    require(not state.get("_indices_data_files"), folder, flat, "Save it after flatten_indices().")
    return [_inside(folder, str(one["filename"])) for one in state["_data_files"]]


def _inside(folder: Path, name: str) -> Path:
    """A file or folder that a listing names; one that leads out of its folder is refused."""
    plain = name not in ("", ".", "..") and not {"/", "\\", "\0", ":"} & set(name)
    require(plain, folder, "it lists files outside of its folder.", "Save it again.")
    return folder / name


def _readable(schema: pa.Schema) -> pa.Schema:
    list(schema.names)  # a name that is not UTF-8 raises when it is first asked for
    return schema


def _require_plain(path: Path, label: str, kind: pa.DataType) -> None:
    """Raise where a column of labels holds lists, structs or dates; types decide, and no cell does."""
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string)
    rule = f"labels must be one word or number for each row; '{label}' holds values of the type {kind}."
    remedy = "Write one class for each row, or name another column: --label-column NAME."
    require(types.is_null(kind) or any(is_one(kind) for is_one in plain), path, rule, remedy)


def row_columns(
    path: Path, schema: pa.Schema, features: str | Sequence[str] | None, others: Collection[str | None] = ()
) -> tuple[str, ...]:
    """Where the rows are: one column of lists, or a column of numbers for each feature; by names and types.

    Args:
        path: the file, for a message.
        schema: Arrow's, of its columns.
        features: the columns that are features, if they are named, as for `feature_names`.
        others: columns that say something else, people or labels, and so are no features.
    """
    import pyarrow.types as types

    name = next((name for name in reversed(ROW_NAMES) if name in schema.names), None)
    by_name = isinstance(features, str) or (features is not None and set(features) <= set(schema.names))
    if name is not None and not by_name:
        with parsing(path, f"'{name}' must be one column of lists of numbers; it is not.", "Write it again."):
            kind = schema.field(name).type
        number = _is_list(kind) and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
        require(number, path, f"'{name}' must hold lists of numbers; it holds {kind}.", "Convert it.")
        return (name,)
    numeric = [
        one.name
        for one in schema
        if types.is_integer(one.type) or types.is_floating(one.type) or types.is_boolean(one.type)
    ]
    chosen = feature_names(path, numeric, features, others)
    if not chosen:
        absent = f"rows must be in a column named {', '.join(ROW_NAMES)}, or in a column of numbers each; "
        raise unreadable(path, f"{absent}found {list_names(schema.names)}.", "Rename the column.")
    return tuple(chosen)


_PICTURES = ("image", "img", "picture", "photo")


def picture_column(schema: pa.Schema) -> str | None:
    """The column that holds pictures: structs of `bytes` and `path`, or bytes under a usual name; or None."""
    import pyarrow.types as types

    for one in schema:
        if types.is_struct(one.type) and {"bytes", "path"} <= {inner.name for inner in one.type}:
            return str(one.name)
    raw = {one.name for one in schema if types.is_binary(one.type) or types.is_large_binary(one.type)}
    return next((name for name in _PICTURES if name in raw), None)


def named_features(schema: pa.Schema, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """What the features in these columns are called; those of a list column are not called anything."""
    return None if _is_list(schema.field(columns[0]).type) else columns


def dense_rows(path: Path, table: pa.Table, columns: tuple[str, ...]) -> AnyArray:
    """The rows in these columns of a table; an empty cell is NaN, and so a row that counts as zeros."""
    with parsing(path, *_LISTS):
        if _is_list(table.schema.field(columns[0]).type):
            return _list_column(path, columns[0], table.column(columns[0]))
        rows = np.empty((len(table), len(columns)), np.float64)
        for place, one in enumerate(columns):
            rows[:, place] = table.column(one).cast("float64", safe=False).to_numpy()
        return rows


def row_form(
    path: Path, schema: pa.Schema, columns: tuple[str, ...], first: Callable[[], pa.Table | None]
) -> tuple[int, np.dtype[np.generic]]:
    """Numbers in a row, and their type as `dense_rows` gives them where lists of whole numbers are floats.

    Args:
        path: the file, for a message.
        schema: Arrow's, of its columns.
        columns: where the rows are.
        first: gives a table of the first rows, which tells how long lists are if their type does not.
    """
    import pyarrow.types as types

    with parsing(path, *_LISTS):
        kind = schema.field(columns[0]).type
        if not _is_list(kind):
            return len(columns), np.dtype(np.float64)
        floats = types.is_floating(kind.value_type)
        dtype = np.dtype(kind.value_type.to_pandas_dtype() if floats else np.float64)
        if types.is_fixed_size_list(kind):
            return int(kind.list_size), dtype
        cells = first()
    return (1 if cells is None else dense_rows(path, cells, columns).shape[1]), dtype


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as types

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
