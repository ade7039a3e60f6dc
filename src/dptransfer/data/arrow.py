"""Parquet files and saved Hugging Face data sets: rows, labels, people and texts from their columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.arrays import AnyArray, People
from dptransfer.data.labels import declared_classes
from dptransfer.data.people import person_positions
from dptransfer.data.tables import (
    ROW_NAMES,
    Listed,
    RawTable,
    chosen_split,
    feature_names,
    label_column_in,
    listed,
    parsing,
    require,
    require_person_column,
    unreadable,
)

WHOLE_FILE = ("a .parquet file must be complete; this is not.", "Write it again.")
_WHOLE_FOLDER = ("a saved data set must load with datasets.load_from_disk; it does not.", "Save it again.")
_ODD_FEATURES = ("the recorded features must be those of a Hugging Face data set.", "Write it again.")


def is_dataset_folder(path: Path) -> bool:
    """Whether the folder was written by `datasets.Dataset.save_to_disk` or its dict of splits."""
    return (path / "dataset_dict.json").is_file() or (path / "dataset_info.json").is_file()


def is_columnar(path: Path) -> bool:
    """Whether `open_columns` reads it: a Parquet file or a saved Hugging Face data set."""
    return path.suffix.lower() == ".parquet" if path.is_file() else is_dataset_folder(path)


def open_columns(
    path: Path, split: str | None = None, columns: list[str] | None = None
) -> tuple[Any, dict[str, Any]]:
    """All of it as an Arrow table, and what is recorded of its columns, by name.

    Args:
        path: what `is_columnar`.
        split: which part of a data set that was saved in several.
        columns: those of a Parquet file that are read; by default all.
    """
    if not path.is_dir():
        parquet = checks.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
        chosen_split(path, (), split)
        with parsing(path, *WHOLE_FILE):
            return _named(path, parquet.read_table(path, columns=columns))
    arrow = checks.installed("pyarrow", "readers", "Reading a Hugging Face data set")
    folder = _part(path, split)
    with parsing(path, *_WHOLE_FOLDER):
        # Mapped, not read: a data set of pictures may be larger than memory.
        parts = [arrow.ipc.open_stream(arrow.memory_map(str(file))).read_all() for file in _shards(folder)]
        table = arrow.concat_tables(parts)
        table.validate(full=True)  # offsets that lead out of the file would kill the process later
        return _named(path, table)


def schema_of(path: Path) -> Any:
    """Names and types of the columns; of a data set in several parts, those of the first."""
    if not path.is_dir():
        parquet = checks.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
        with parsing(path, *WHOLE_FILE):
            return _readable(parquet.read_schema(path))
    arrow = checks.installed("pyarrow", "readers", "Reading a Hugging Face data set")
    with parsing(path, *_WHOLE_FOLDER):
        first = _shards(_part(path, next(iter(splits_of(path)), None)))[0]
        return _readable(arrow.ipc.open_stream(arrow.memory_map(str(first))).schema)


def splits_of(folder: Path) -> list[str]:
    """The parts of a saved data set that has some, sorted."""
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return []
    with parsing(folder, *_WHOLE_FOLDER):
        return sorted(str(name) for name in json.loads(listing.read_text("utf-8"))["splits"])


def _part(folder: Path, split: str | None) -> Path:
    """The folder of the part that is asked for, or of the only one."""
    chosen = chosen_split(folder, splits_of(folder), split)
    return folder if chosen is None else _inside(folder, chosen)


def _shards(folder: Path) -> list[Path]:
    state = json.loads((folder / "state.json").read_text("utf-8"))
    flat = "a saved data set must have its rows in order; this one keeps a list of chosen rows beside them."
    require(not state.get("_indices_data_files"), folder, flat, "Save it after flatten_indices().")
    return [_inside(folder, str(one["filename"])) for one in state["_data_files"]]


def _inside(folder: Path, name: str) -> Path:
    """A file or folder that a listing names; one that leads out of its folder is refused."""
    plain = name not in ("", ".", "..") and not {"/", "\\", "\0", ":"} & set(name)
    require(
        plain,
        folder,
        "a saved data set must list files of its own folder; it lists others.",
        "Save it again.",
    )
    return folder / name


def _named(path: Path, table: Any) -> tuple[Any, dict[str, Any]]:
    """The table, and the features that its metadata record."""
    schema = _readable(table.schema)
    with parsing(path, *_ODD_FEATURES):
        recorded = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        return table, dict(recorded.get("info", {}).get("features") or {})


def _readable(schema: Any) -> Any:
    list(schema.names)  # a name that is not UTF-8 raises when it is first asked for
    return schema


_EMPTY_LABELS = "each row of '{}' must have a label; some are empty."


def read_columns(
    path: Path,
    split: str | None = None,
    person: str | None = None,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
) -> RawTable:
    """Rows from a list column or from a column per feature; perhaps labels and people.

    Args:
        path: a Parquet file or a saved Hugging Face data set.
        split: which part of a data set in several.
        person: the column that tells whose each row is.
        features: the columns that are features, as for `feature_names`; without patterns of them a list
            column of a known name, or else every column of numbers but those of labels and people.
        label: the column of labels, if it is not of a usual name.
    """
    table, recorded = open_columns(path, split)
    require_person_column(path, person, table.column_names)
    chosen = row_columns(path, table.schema, features, (person, label))
    rows = dense_rows(path, table, chosen)
    people = _person_column(path, table, person)
    labels, classes = _labels(path, table, recorded, label)
    positions = classes is not None and labels is not None and labels.dtype.kind in "iu"
    names = named_features(table.schema, chosen)
    return RawTable(rows, labels, classes, positions, people=people, columns=names)


def read_beside(
    path: Path, person: str | None, label: str | None = None
) -> tuple[AnyArray | None, tuple[str | int, ...] | None, list[Any]]:
    """What a Parquet file has beside its rows: labels, the list of classes it records, ids of people."""
    names = schema_of(path).names
    require_person_column(path, person, names)
    label = label_column_in(names, label)
    beside = [one for one in names if one in (label, person)]
    if not beside:
        return None, None, []
    table, recorded = open_columns(path, columns=beside)
    found = _labels(path, table, recorded, label)
    if person is None:
        return *found, []
    with parsing(path, f"'{person}' must be one column of words or numbers; it is not.", "Write it again."):
        return *found, table.column(person).to_pylist()


def _labels(
    path: Path, table: Any, recorded: dict[str, Any], label: str | None
) -> tuple[AnyArray | None, tuple[str | int, ...] | None]:
    """The column of labels and the class names on record for it, as far as there are."""
    label = label_column_in(table.column_names, label)
    if label is None:
        return None, None
    unclear = (f"'{label}' must be one column of words or numbers; it is not.", "Write it again.")
    with parsing(path, *unclear):
        column = table.column(label)
        _require_plain(path, label, column.type)
    require(not column.null_count, path, _EMPTY_LABELS.format(label), "Fill them, or drop them.")
    with parsing(path, *unclear):
        return np.asarray(column.to_pylist()), _recorded_classes(recorded, label)


def _require_plain(path: Path, label: str, kind: Any) -> None:
    """Raise where a column of labels holds lists, structs or dates; types decide, and no cell does."""
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string)
    rule = f"labels must be one word or number for each row; '{label}' holds values of the type {kind}."
    remedy = "Write one class for each row, or name another column: --label-column NAME."
    require(types.is_null(kind) or any(is_one(kind) for is_one in plain), path, rule, remedy)


def read_examples(
    path: Path, column: str, person: str | None = None, label: str | None = None
) -> tuple[Any, Listed]:
    """A column of examples as Arrow has it, and what goes with them: labels as words, and people if named.

    Labels that are positions in a recorded list of class names become those names.

    Args:
        path: a Parquet file or a saved Hugging Face data set.
        column: where the examples are.
        person: the column that tells whose each is.
        label: the column of labels, by default 'label'.
    """
    label = label or "label"
    if path.is_dir() and len(parts := splits_of(path)) > 1:
        which = f"a data set in parts ({listed(parts)}) is given by one of them."
        raise unreadable(path, which, f"Point at one, for example '{path / parts[-1]}'.")
    table, recorded = open_columns(path)
    with parsing(path, "recorded class names must be words; they are not.", "Write it again."):
        classes = _recorded_classes(recorded, label)
    absent = f"examples must be in the column '{column}'; there is none."
    require(column in table.column_names, path, absent, "Name the column that has them.")
    with parsing(path, "examples and labels must be one column each; they are not.", "Write it again."):
        examples = table.column(column)
        labels = None
        if label in table.column_names:
            _require_plain(path, label, table.column(label).type)
            labels = table.column(label).to_pylist()
    if labels is not None:
        require(None not in labels, path, _EMPTY_LABELS.format(label), "Fill them, or drop them.")
        labels = _words(labels, classes)
    return examples, Listed([], labels, _person_column(path, table, person), classes)


def read_text_columns(path: Path, column: str, person: str | None = None, label: str | None = None) -> Listed:
    """The named column of texts, that of labels, by default `label`, and that of people if named."""
    examples, beside = read_examples(path, column, person, label)
    texts = examples.to_pylist()
    whole = texts and all(isinstance(text, str) for text in texts)
    require(whole, path, f"'{column}' must hold a text in every row.", "Fill or drop the others.")
    return beside._replace(examples=texts)


def _recorded_classes(recorded: dict[str, Any], label: str) -> tuple[str | int, ...] | None:
    """The class names that a Hugging Face data set declares for its column of labels."""
    declared = (recorded.get(label) or {}).get("names")
    if not declared:
        return None
    if not isinstance(declared, list):
        raise TypeError
    return declared_classes(declared)


def _words(labels: Sequence[Any], classes: tuple[str | int, ...] | None) -> list[str]:
    """Labels as they are written; whole numbers beside recorded names are positions among them."""
    if classes is None or not all(type(label) is int for label in labels):
        return [str(label) for label in labels]
    # One that is no position, such as −1 for none, is no class, and is told of where labels are placed.
    return [str(classes[label]) if 0 <= label < len(classes) else "" for label in labels]


def row_columns(
    path: Path, schema: Any, features: str | Sequence[str] | None, others: Collection[str | None] = ()
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
        wrong = f"the column '{name}' must hold lists of numbers; it holds {kind}."
        number = _is_list(kind) and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
        require(number, path, wrong, "Convert it.")
        return (name,)
    numeric = [
        one.name
        for one in schema
        if types.is_integer(one.type) or types.is_floating(one.type) or types.is_boolean(one.type)
    ]
    chosen = feature_names(path, numeric, features, others)
    if not chosen:
        absent = f"rows must be in a column named {', '.join(ROW_NAMES)}, or in a column of numbers each; "
        raise unreadable(path, f"{absent}found {listed(schema.names)}.", "Rename the column.")
    return tuple(chosen)


def named_features(schema: Any, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """What the features in these columns are called; those of a list column are not called anything."""
    return None if _is_list(schema.field(columns[0]).type) else columns


def dense_rows(path: Path, table: Any, columns: tuple[str, ...]) -> AnyArray:
    """The rows in these columns of a table; an empty cell is NaN, and so a row that counts as zeros."""
    with parsing(path, "rows must be lists of numbers, or columns of them; some are not.", "Write it again."):
        if _is_list(table.schema.field(columns[0]).type):
            return _list_column(path, columns[0], table.column(columns[0]))
        rows = np.empty((len(table), len(columns)), np.float64)
        for place, one in enumerate(columns):
            rows[:, place] = table.column(one).cast("float64", safe=False).to_numpy()
        return rows


def row_form(
    path: Path, schema: Any, columns: tuple[str, ...], first: Callable[[], Any]
) -> tuple[int, np.dtype[Any]]:
    """Numbers in a row, and their type as `dense_rows` gives them where lists of whole numbers are floats.

    Args:
        path: the file, for a message.
        schema: Arrow's, of its columns.
        columns: where the rows are.
        first: gives a table of the first rows, which tells how long lists are if their type does not.
    """
    import pyarrow.types as types

    with parsing(path, "rows must be lists of numbers, or columns of them; some are not.", "Write it again."):
        kind = schema.field(columns[0]).type
        if not _is_list(kind):
            return len(columns), np.dtype(np.float64)
        floats = types.is_floating(kind.value_type)
        dtype = np.dtype(kind.value_type.to_pandas_dtype() if floats else np.float64)
        if types.is_fixed_size_list(kind):
            return int(kind.list_size), dtype
        cells = first()
    return (1 if cells is None else dense_rows(path, cells, columns).shape[1]), dtype


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _person_column(path: Path, table: Any, person: str | None) -> People | None:
    """Whose each row is, by the column of that name; None where none is named."""
    require_person_column(path, person, table.column_names)
    if person is None:
        return None
    with parsing(path, f"'{person}' must be one column of words or numbers; it is not.", "Write it again."):
        return person_positions(table.column(person), len(table))


def _list_column(path: Path, name: str, column: Any) -> AnyArray:
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
