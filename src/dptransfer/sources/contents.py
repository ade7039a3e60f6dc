"""What a path holds: rows, images or texts; by its ending and the types of its columns.

Files are taken in the order of their names, in which numbers count as numbers: img_emb_9.npy comes before
img_emb_10.npy. What is hidden or of another kind, such as a list of file names, is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

import numpy as np

from dptransfer.base.arrays import AnyArray, People
from dptransfer.data.arrow import is_columnar, read_beside, schema_of
from dptransfer.data.columns import USUAL_COLUMNS, Columns
from dptransfer.data.people import person_positions
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.tables import (
    ROW_NAMES,
    RawTable,
    chosen_split,
    natural_order,
    require,
    require_person_column,
)
from dptransfer.sources.csv_files import header_of
from dptransfer.sources.file_types import IMAGE_ENDINGS, ROW_ENDINGS, has_added_reader, require_known_type
from dptransfer.sources.images import picture_column

_KINDS = (".npy", ".parquet")


def shards_in(folder: Path) -> list[Path]:
    """The files of a folder that is one table, in order; none if it is no such folder.

    Names alone decide. A folder whose subfolders hold pictures is one of pictures, whatever lies beside them.
    """
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        names = [entry.name for entry in shown if entry.is_file()]
        deeper = [Path(entry.path) for entry in shown if entry.is_dir()]
    by_kind = {kind: [name for name in names if Path(name).suffix.lower() == kind] for kind in _KINDS}
    found = [kind for kind in _KINDS if by_kind[kind]]
    if not found or any(_has_pictures(below) for below in deeper):
        return []
    if any(Path(name).suffix.lower() in IMAGE_ENDINGS for name in names):
        found.append("pictures")
    mixed = f"a folder must hold files of one kind; this has {' and '.join(found)}."
    require(len(found) == 1, folder, mixed, "Give each kind a folder of its own.")
    return [folder / name for name in sorted(by_kind[found[0]], key=natural_order)]


def _has_pictures(folder: Path) -> bool:
    return any(
        Path(name).suffix.lower() in IMAGE_ENDINGS for _, _, names in os.walk(folder) for name in names
    )


def read_shards(
    folder: Path,
    files: list[Path],
    split: str | None,
    person: str | None,
    features: str | Sequence[str] | None,
    label: str | None = None,
) -> RawTable:
    """Rows that stay in their files; labels and people of Parquet files are read from all of them.

    Args:
        folder: where they are, for a message.
        files: from `shards_in`.
        split: is refused, for there are none.
        person: the column that tells whose each row is.
        features: the columns that are features, as for `feature_names`.
        label: the column of labels, if it is not of a usual name.
    """
    chosen_split(folder, (), split)
    rows = ShardedRows(files, features=features, others=(person, label))
    if files[0].suffix.lower() == ".npy":
        no_columns = "columns of features are those of tables; .npy files have none."
        require(not isinstance(features, str), folder, no_columns, "Leave the names of columns out.")
        require_person_column(folder, person, ())
        return RawTable(cast(AnyArray, rows))
    return _with_labels(files, rows, person, label)


def _with_labels(files: list[Path], rows: ShardedRows, person: str | None, label: str | None) -> RawTable:
    first, classes, ids = read_beside(files[0], person, label)
    labels = [] if first is None else [first]
    for file in files[1:]:
        own, listed, whose = read_beside(file, person, label)
        kinds = [None if one is None else one.dtype.kind for one in (first, own)]
        alike = kinds[0] == kinds[1] and listed == classes
        told = "all files of a folder must have labels of one type and list of classes, or none; they do not."
        require(alike, file, told, "Write them all in one way.")
        labels += [] if own is None else [own]
        ids += whose
    joined: AnyArray | None = np.concatenate(labels) if labels else None
    people: People | None = None if person is None else person_positions(ids, len(rows))
    positions = classes is not None and joined is not None and joined.dtype.kind in "iu"
    return RawTable(cast(AnyArray, rows), joined, classes, positions, people=people, columns=rows.columns)


Contents = Literal["rows", "images", "texts"]

_PATH, _TEXT = "path", "text"


def contents_of(path: Path, columns: Columns = USUAL_COLUMNS) -> Contents:
    """What is there; no cell is looked at, so that two data sets of one form are taken for the same.

    Args:
        path: a file or folder; one that is not there is taken for what its name says.
        columns: those of texts, of paths of pictures, and of features; with features these are rows.
    """
    text_column, path_column, features = columns.text, columns.path, columns.features
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
