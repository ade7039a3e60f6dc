"""Embeddings from columnar files: Parquet, and Hugging Face data sets saved to disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, People
from dptransfer.data.class_names import declared_classes
from dptransfer.data.parsing import parsing
from dptransfer.data.people import person_positions
from dptransfer.data.table import (
    LABEL_NAMES,
    ROW_NAMES,
    Listed,
    RawTable,
    chosen_split,
    listed,
    require,
    require_person_column,
    unreadable,
)


def is_dataset_folder(path: Path) -> bool:
    """Whether the folder was written by `datasets.Dataset.save_to_disk` or its dict of splits."""
    return (path / "dataset_dict.json").is_file() or (path / "dataset_info.json").is_file()


def read_parquet(path: Path, split: str | None = None, person: str | None = None) -> RawTable:
    """A Parquet file with a list column of rows and, perhaps, one of labels and one of people; no splits."""
    chosen_split(path, (), split)
    table = arrow_table(path)
    with parsing(path, "the recorded features must be those of a Hugging Face data set.", "Write it again."):
        recorded = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        features = dict(recorded.get("info", {}).get("features") or {})
    return _from_arrow(path, table, features, person)


def arrow_table(path: Path) -> Any:
    """All of a Parquet file."""
    parquet = _check.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
    with parsing(path, "a .parquet file must be complete; this is not.", "Write it again."):
        table = parquet.read_table(path)
        list(table.column_names)  # a name that is not UTF-8 raises when it is first asked for
        return table


def read_text_columns(path: Path, column: str, person: str | None = None) -> Listed:
    """The named column of texts of a Parquet file, its column `label`, and that of people if named."""
    table = arrow_table(path)
    absent = f"texts must be in the column '{column}'; there is none."
    require(column in table.column_names, path, absent, "Name the column that has them.")
    with parsing(path, "texts and labels must be one column each; they are not.", "Write it again."):
        texts = table.column(column).to_pylist()
        labels = table.column("label").to_pylist() if "label" in table.column_names else None
    whole = texts and all(isinstance(text, str) for text in texts) and None not in (labels or ())
    empty = f"'{column}' must hold a text in every row, and 'label' a label."
    require(whole, path, empty, "Fill or drop the others.")
    people = _person_column(path, table, person)
    return Listed(texts, None if labels is None else [str(label) for label in labels], people)


def read_dataset_folder(path: Path, split: str | None, person: str | None = None) -> RawTable:
    """A Hugging Face data set saved to disk, with the columns of `read_parquet`."""
    datasets = _check.installed("datasets", "readers", "Reading a Hugging Face data set")
    damaged = ("a saved data set must load with datasets.load_from_disk; it does not.", "Save it again.")
    with parsing(path, *damaged):
        loaded = datasets.load_from_disk(str(path))
    has_splits = isinstance(loaded, datasets.DatasetDict)
    chosen = chosen_split(path, sorted(loaded) if has_splits else (), split)
    if has_splits:
        loaded = loaded[chosen]
    features = {
        name: {"_type": type(feature).__name__, "names": getattr(feature, "names", None)}
        for name, feature in loaded.features.items()
    }
    with parsing(path, *damaged):
        table = loaded.with_format("arrow")[:]
    return _from_arrow(path, table, features, person)


def _from_arrow(path: Path, table: Any, features: dict[str, Any], person: str | None) -> RawTable:
    columns = table.column_names
    name = next((name for name in reversed(ROW_NAMES) if name in columns), None)
    if name is None:
        absent = f"rows must be in a column named {', '.join(ROW_NAMES)}; found {listed(columns)}."
        raise unreadable(path, absent, "Rename the column.")
    with parsing(path, f"'{name}' must be one column of lists of numbers; it is not.", "Write it again."):
        rows = _list_column(path, name, table.column(name))
    people = _person_column(path, table, person)
    label = next((name for name in reversed(LABEL_NAMES) if name in columns), None)
    if label is None:
        return RawTable(rows, people=people)
    unclear = (f"'{label}' must be one column of words or numbers; it is not.", "Write it again.")
    with parsing(path, *unclear):
        column = table.column(label)
    empty = f"each row of '{label}' must have a label; some are empty."
    require(not column.null_count, path, empty, "Fill them, or drop them.")
    with parsing(path, *unclear):
        declared = (features.get(label) or {}).get("names")
        classes = None if not declared else declared_classes(declared)
        labels = np.asarray(column.to_pylist())
    positions = classes is not None and labels.dtype.kind in "iu"
    return RawTable(rows, labels, classes, labels_are_positions=positions, people=people)


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
    kind = joined.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    number = lists and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))
    require(number, path, f"the column '{name}' must hold lists of numbers; it holds {kind}.", "Convert it.")
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
