"""Open any file with named columns: CSV, Parquet, saved data sets and archives of arrays."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray
from dptransfer.data.arrow import ArrowColumns, is_columnar
from dptransfer.data.columns import LABEL_NAMES, ROW_NAMES, Columns, NamedColumns
from dptransfer.data.labels import declared_classes
from dptransfer.data.numpy_files import open_archive
from dptransfer.data.tables import chosen_split, listed, parsing, require, unreadable
from dptransfer.sources.csv_files import CsvColumns

ARCHIVES = (".npz", ".safetensors", ".pt", ".pth")


def has_columns(path: Path) -> bool:
    """Whether `open_columns` reads it."""
    return is_columnar(path) or (path.is_file() and path.suffix.lower() in (".csv", *ARCHIVES))


@contextmanager
def open_columns(path: Path, split: str | None = None) -> Iterator[NamedColumns]:
    """The columns of a CSV, a Parquet file, a saved Hugging Face data set or an archive of arrays."""
    kind = path.suffix.lower()
    if is_columnar(path):
        yield ArrowColumns(path, split)
    elif kind == ".csv":
        yield CsvColumns(path, split)
    elif kind == ".npz":
        with open_archive(path) as arrays:
            yield ArchiveColumns(path, arrays, split)
    else:
        yield ArchiveColumns(path, (_safetensors if kind == ".safetensors" else _torch)(path), split)


class ArchiveColumns(NamedColumns):
    """Arrays by name; in a file with splits those of one, such as x_train, stand for x."""

    label_names = LABEL_NAMES

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
        if name is None:
            found = listed(self._arrays) or "nothing"
            absent = f"rows must be stored under one of {', '.join(ROW_NAMES)}; found {found}."
            raise unreadable(self.path, absent, "Rename the array.")
        return (name,)

    def read(self, beside: Collection[str], rows: Sequence[str] = ()) -> tuple[AnyArray, dict[str, Any]]:
        """Rows and other arrays."""
        found = as_rows(self.path, self._array(rows[0])) if rows else np.empty((0, 0))
        if tuple(rows) == ("q",):
            numbers = "'scale' and 'offset' must be numbers, one for each column."
            # A warning of NumPy's would tell that some row is beyond float32.
            with parsing(self.path, numbers, "Write the file again."), np.errstate(all="ignore"):
                found = found.astype(np.float32)
                found *= self._array("scale").astype(np.float32)
                found += self._array("offset").astype(np.float32)
        return found, {name: self._array(name) for name in beside}

    def labels(self, name: str, cells: Any) -> AnyArray:
        """The array itself."""
        return np.asarray(cells)

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
    chosen = chosen_split(path, splits, split)
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
    torch = checks.installed("torch", "torch", "Reading a .pt file")
    plain = (
        "a .pt file must hold only plain tensors, lists and words (it is opened with weights_only=True); "
        "this holds more, or is damaged."
    )
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
