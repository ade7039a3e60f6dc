"""Open Parquet files and saved Hugging Face data sets as Arrow tables, with the features they record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dptransfer import _check
from dptransfer.data.parsing import parsing
from dptransfer.data.table import chosen_split, require

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
        parquet = _check.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
        chosen_split(path, (), split)
        with parsing(path, *WHOLE_FILE):
            return _named(path, parquet.read_table(path, columns=columns))
    arrow = _check.installed("pyarrow", "readers", "Reading a Hugging Face data set")
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
        parquet = _check.installed("pyarrow.parquet", "readers", "Reading a Parquet file")
        with parsing(path, *WHOLE_FILE):
            return _readable(parquet.read_schema(path))
    arrow = _check.installed("pyarrow", "readers", "Reading a Hugging Face data set")
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
