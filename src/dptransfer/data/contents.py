"""What a path holds, by its ending and the names and types of its columns: rows, pictures or texts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dptransfer.data.arrow_files import is_columnar, schema_of
from dptransfer.data.csv_files import header_of
from dptransfer.data.file_types import ROW_ENDINGS, require_known_type
from dptransfer.data.picture_columns import picture_column
from dptransfer.data.reader_plugins import has_added_reader
from dptransfer.data.shard_folders import shards_in
from dptransfer.data.table import ROW_NAMES

Contents = Literal["rows", "images", "texts"]

_PATH, _TEXT = "path", "text"


def contents_of(
    path: Path,
    *,
    text_column: str | None = None,
    path_column: str | None = None,
    features: str | None = None,
) -> Contents:
    """What is there; no cell is looked at, so that two data sets of one form are taken for the same.

    Args:
        path: a file or folder; one that is not there is taken for what its name says.
        text_column: the column of texts, if it is named.
        path_column: the column of a CSV that has the paths of pictures, if it is named.
        features: patterns of columns that are features, if they are named; then these are rows.
    """
    kind = path.suffix.lower()
    if features is not None or kind in ROW_ENDINGS or (path / "manifest.json").is_file():
        return "rows"
    if kind == ".txt":
        return "texts"
    if has_added_reader(path):
        return "rows"
    shards = shards_in(path) if path.is_dir() and not is_columnar(path) else []
    if shards and shards[0].suffix.lower() == ".npy":
        return "rows"
    if shards or is_columnar(path):
        schema = schema_of(shards[0] if shards else path)
        if text_column is not None and text_column in schema.names:
            return "texts"
        if set(ROW_NAMES) & set(schema.names):
            return "rows"
        if picture_column(schema) is not None:
            return "images"
        return "texts" if _TEXT in schema.names else "rows"
    if kind == ".csv" and path.is_file():
        header = header_of(path)
        if text_column is not None and text_column in header:
            return "texts"
        return "images" if {path_column, _PATH} & set(header) else "texts" if _TEXT in header else "rows"
    require_known_type(path)
    return "rows" if kind == ".parquet" else "images"
