"""Detect what a path holds (rows, images or texts) by its ending and the types of its columns.

Files of a folder are taken in the order of their names, in which numbers count as numbers: img_emb_9.npy
comes before img_emb_10.npy. What is hidden or of another kind, such as a list of file names, is passed over.

Other packages add readers. The name of their entry point is an ending without its dot, so that which files
can be read is known without an import. What it names is a function that takes a path and gives a `RawTable`,
as our own readers do; `split`, `person` and `label_column` are passed where it takes them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast

import numpy as np

from dptransfer.base.plugins import Registry
from dptransfer.base.types import AnyArray
from dptransfer.data.arrow import ArrowColumns, is_columnar, picture_column, schema_of
from dptransfer.data.columns import ROW_NAMES, USUAL_COLUMNS, Columns, label_column_in, require_person_column
from dptransfer.data.labels import person_positions
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.tables import RawTable, chosen_split, natural_order, parsing, require
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources.archives import ENDINGS as ARCHIVE_ENDINGS
from dptransfer.sources.archives import archive_in
from dptransfer.sources.dicom import DICOM_ENDINGS
from dptransfer.sources.open_columns import CsvColumns

ROW_ENDINGS = (".emb", ".npy", ".npz", ".safetensors", ".pt", ".pth")
IMAGE_ENDINGS = frozenset(
    ".jpg .jpeg .jfif .png .webp .bmp .gif .tif .tiff .ppm .pgm .pbm .jp2 .avif".split()  # what Pillow reads
).union(DICOM_ENDINGS)
_TABLES = (".csv", ".parquet")
_KNOWN = frozenset((*ROW_ENDINGS, *_TABLES, ".txt")) | IMAGE_ENDINGS


def require_known_type(path: Path) -> None:
    """Raise for a file whose name has an ending that nothing here reads; a folder may be called anything."""
    if path.is_file() and path.suffix.lower() not in _KNOWN and archive_in(path) is None:
        raise unknown_type(path)


def unknown_type(path: Path) -> DataError:
    """The error for a file whose ending nothing reads, with the endings that are read."""
    listed = (
        f"rows {' '.join((*ROW_ENDINGS, *_TABLES))}; images {' '.join(sorted(IMAGE_ENDINGS))}, an archive "
        f"({' '.join(ARCHIVE_ENDINGS)}), a folder, {' '.join(_TABLES)}; texts .txt {' '.join(_TABLES)}"
    )
    kind = (
        f"Unknown file type '{path.suffix}'" if path.suffix else "A file needs an ending that tells its type"
    )
    return DataError(f"'{path}': {kind}. Supported: {listed}.")


Reader = Callable[..., RawTable]

_OWN = ".csv .emb .npy .npz .parquet .pt .pth .safetensors .txt".split()


def _accepted(ending: str, found: object) -> Reader:
    if not callable(found):
        raise ArgumentError(f"A reader is a function that takes a path and gives a RawTable; got {found!r}.")
    if ending != ending.lower().strip("."):
        raise ArgumentError(
            f"A reader's name is an ending in small letters without its dot; got '{ending}'. Rename it."
        )
    read: Reader = found
    return read


READERS: Registry[Reader] = Registry(
    "reader",
    "dptransfer.readers",
    {
        ending.removeprefix("."): "dptransfer.sources.readers:read_table"
        for ending in (*_OWN, *ARCHIVE_ENDINGS, *IMAGE_ENDINGS)
    },
    _accepted,
)


def has_added_reader(path: Path) -> bool:
    """Whether an installed package adds a reader for files of this ending; nothing is imported."""
    name = path.suffix.lower().removeprefix(".")
    return name not in READERS.own and name in READERS.names


def read_with(reader: Reader, path: Path, columns: Columns = USUAL_COLUMNS) -> RawTable:
    """What a reader finds in a file; columns that it does not take must not be named.

    Whatever it raises becomes an error of ours that quotes nothing.
    """
    taken = inspect.signature(reader).parameters
    if "split" not in taken:
        chosen_split(path, (), columns.split)
    if "person" not in taken:
        require_person_column(path, columns.ids, ())
    asked = {"split": columns.split, "person": columns.ids, "label_column": columns.label}
    given = {name: value for name, value in asked.items() if name in taken}
    rule = f"the file must be whole, and what its ending '{path.suffix}' says; it is not."
    with parsing(path, rule, "Write it again."):
        table = reader(path, **given)
    wrong = f"its reader must give a RawTable; it gives {type(table).__name__}."
    require(isinstance(table, RawTable), path, wrong, "Tell the authors of its package.")
    for name in ("labels", "people", "sources"):
        found = getattr(table, name)
        one_each = f"there must be one entry per row in its {name}; there is not."
        require(found is None or len(found) == len(table.rows), path, one_each, "Write the file again.")
    return table


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


def read_shards(folder: Path, files: list[Path], columns: Columns) -> RawTable:
    """Rows that stay in their files; labels and people of Parquet files are read from all of them.

    Args:
        folder: where they are, for a message.
        files: from `shards_in`.
        columns: those of features, labels and people; a split is refused, for there are none.
    """
    chosen_split(folder, (), columns.split)
    rows = ShardedRows(files, features=columns.features, others=(columns.ids, columns.label))
    if files[0].suffix.lower() == ".npy":
        no_columns = "columns of features are those of tables; .npy files have none."
        require(not isinstance(columns.features, str), folder, no_columns, "Leave the names of columns out.")
        require_person_column(folder, columns.ids, ())
        return RawTable(cast(AnyArray, rows))
    labels, ids = [], []
    for file in files:
        table, person = ArrowColumns(file), columns.ids
        table.require_ids(person)
        label = label_column_in(table.names, columns.label)
        _, cells = table.read([one for one in (label, person) if one is not None])
        own = None if label is None else np.asarray(table.labels(label, cells[label]))
        labels.append((own, table.classes(label)))
        ids += [] if person is None else table.values(person, cells[person])
    (first, classes), *others = labels
    for file, (own, listed) in zip(files[1:], others, strict=True):
        alike = _kind(own) == _kind(first) and listed == classes
        require(alike, file, "its files differ in label type or class list.", "Write them all in one way.")
    joined = np.concatenate([own for own, _ in labels if own is not None]) if first is not None else None
    people = None if columns.person is None else person_positions(ids, len(rows))
    return RawTable(cast(AnyArray, rows), joined, classes, people=people, columns=rows.columns)


def _kind(labels: AnyArray | None) -> str | None:
    return None if labels is None else labels.dtype.kind


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
        header = CsvColumns(path).names
        if text_column is not None and text_column in header:
            return "texts"
        return "images" if {path_column, _PATH} & set(header) else "texts" if _TEXT in header else "rows"
    require_known_type(path)
    return "rows" if kind == ".parquet" else "images"
