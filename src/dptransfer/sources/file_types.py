"""File types by the ending of a name, and readers that other packages add.

The name of an entry point is an ending without its dot, so that which files can be read is known without an
import. What it names is a function that takes a path and gives a `RawTable`, as our own readers do; `split`,
`person` and `label_column` are passed where it takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from dptransfer.base.plugins import Registry
from dptransfer.data.columns import USUAL_COLUMNS, Columns, require_person_column
from dptransfer.data.tables import RawTable, chosen_split, parsing, require
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources.archives import ENDINGS, archive_in
from dptransfer.sources.archives import ENDINGS as ARCHIVE_ENDINGS
from dptransfer.sources.dicom import DICOM_ENDINGS

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
        for ending in (*_OWN, *ENDINGS, *IMAGE_ENDINGS)
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
