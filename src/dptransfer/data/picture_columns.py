"""Pictures in a column of a Parquet file or of a saved Hugging Face data set, as files of their own."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

from dptransfer.data.arrow_files import schema_of
from dptransfer.data.columns import read_examples
from dptransfer.data.parsing import parsing
from dptransfer.data.table import Listed, listed, require
from dptransfer.data.unpacked import TemporaryFolder

_USUAL = ("image", "img", "picture", "photo")


def picture_column(schema: Any) -> str | None:
    """The column that holds pictures: structs of `bytes` and `path`, or bytes under a usual name; or None."""
    import pyarrow.types as types

    for one in schema:
        if types.is_struct(one.type) and {"bytes", "path"} <= {inner.name for inner in one.type}:
            return str(one.name)
    raw = {one.name for one in schema if types.is_binary(one.type) or types.is_large_binary(one.type)}
    return next((name for name in _USUAL if name in raw), None)


def unpack_pictures(
    path: Path, person: str | None, label: str | None, endings: frozenset[str]
) -> tuple[Listed, Path, TemporaryFolder]:
    """The pictures as files in a temporary folder, in the order of the rows, and what goes with them.

    An empty cell, or one that has a path and no bytes, is an empty file: a picture that cannot be read.

    Args:
        path: a Parquet file or a saved Hugging Face data set.
        person: the column that tells whose each picture is.
        label: the column of labels, by default 'label'.
        endings: those that a picture's recorded name may have; files keep them.
    """
    schema = schema_of(path)
    column = picture_column(schema)
    found = (
        f"pictures must be in a column of structs (bytes, path) or of bytes; found {listed(schema.names)}."
    )
    require(column is not None, path, found, "Write it again with datasets, or name that column 'image'.")
    examples, beside = read_examples(path, str(column), person, label)
    held = TemporaryFolder()
    stamp = path.stat().st_mtime_ns  # so that an interrupted encoding knows them again
    names: list[str] = []
    with parsing(
        path, "pictures must be unpacked in the place for temporary files; they cannot.", "Set TMPDIR."
    ):
        for chunk in examples.iterchunks():
            for cell in chunk:
                content, ending = _cell(cell.as_py())
                names.append(f"{len(names):08d}{ending if ending in endings else ''}")
                (held.path / names[-1]).write_bytes(content)
                os.utime(held.path / names[-1], ns=(stamp, stamp))
    return beside._replace(examples=names), held.path, held


def _cell(cell: Any) -> tuple[bytes, str]:
    """A picture's bytes, none where there are none, and the ending of the name on record."""
    if not isinstance(cell, dict):
        return cell or b"", ""
    return cell["bytes"] or b"", PurePosixPath(str(cell["path"] or "").replace("\\", "/")).suffix.lower()
