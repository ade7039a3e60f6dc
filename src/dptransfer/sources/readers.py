"""Read embeddings from the formats other tools write, without ever unpickling.

One function, `read_table`, picks the reader by the name's ending:

    .emb                     our own folder (see `dptransfer.data.store`)
    .npy                     rows only; labels come from a second file or array
    .npz                     rows under x, features, embeddings or embedding; labels under y, labels or label;
                             optionally the list `classes`
    .npz with splits         the same names with _train, _test, _val, ... appended; also q_train with scale
                             and offset, for rows stored as small integers: x = q·scale + offset
    .safetensors             the names of .npz; the class list as JSON under `classes` in the metadata
    .pt, .pth                a tensor of rows, or a dict with the names of .npz; loaded with weights_only=True
    .parquet                 a list column (names as for .npz), or a column of numbers per feature; labels
    .csv                     a column of numbers per feature, and a column of labels
    Hugging Face folder      a `datasets` folder saved to disk, with the columns of .parquet
    folder of .npy           rows in many files, which are read in part (see `dptransfer.sources.contents`)
    folder of .parquet       the same, with the columns of .parquet
    any other ending         what an installed package reads (see `dptransfer.sources.file_types`)

An `.emb` folder may know whose each row is; the others, but for .npy, may have ids in a column of any name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dptransfer.base import checks
from dptransfer.base.arrays import AnyArray
from dptransfer.data.arrow import is_dataset_folder, read_columns
from dptransfer.data.columns import USUAL_COLUMNS, Columns
from dptransfer.data.labels import declared_classes
from dptransfer.data.numpy_files import load_array, open_archive
from dptransfer.data.people import person_positions
from dptransfer.data.store import read_store
from dptransfer.data.tables import (
    LABEL_NAMES,
    ROW_NAMES,
    RawTable,
    chosen_split,
    listed,
    parsing,
    require,
    require_person_column,
    unreadable,
)
from dptransfer.sources.contents import read_shards, shards_in
from dptransfer.sources.csv_files import read_feature_csv
from dptransfer.sources.file_types import has_added_reader, read_added


def read_table(path: str | Path, columns: Columns = USUAL_COLUMNS, *, verify: bool = True) -> RawTable:
    """Read rows, labels and declarations from any format we know.

    Args:
        path: a file or folder; the module's docstring lists the formats.
        columns: labels, people, features and split; an `.emb` folder knows its own.
        verify: check the checksums of an `.emb` folder; other formats have none.
    """
    split, features, label_column = columns.split, columns.features, columns.label
    person = None if columns.person is None else str(columns.person)
    found = Path(path)
    require(found.exists(), found, "the file must exist; it does not.", "Check the path.")
    if found.is_dir() and not _is_known_folder(found) and (files := shards_in(found)):
        return read_shards(found, files, split, person, features, label_column)
    if found.suffix.lower() in (".csv", ".parquet") or (found.is_dir() and is_dataset_folder(found)):
        reader = read_feature_csv if found.suffix.lower() == ".csv" else read_columns
        return reader(found, split, person, features, label_column)
    no_columns = "columns of features are those of a CSV, Parquet file or Hugging Face folder; this is none."
    require(not isinstance(features, str), found, no_columns, "Leave the names of columns out.")
    if found.is_dir():
        require(
            _is_known_folder(found),
            found,
            "a folder must be an .emb folder, a saved Hugging Face data set, or of .npy or .parquet files; "
            "this is neither.",
            "If it holds images, encode them first: dptransfer encode.",
        )
        chosen_split(found, (), split)
        require_person_column(found, person, ())
        return read_store(found, verify=verify)
    if has_added_reader(found):
        added = read_added(found, split, person, label_column)
        return replace(added, rows=_as_rows(found, added.rows))
    known = f"the name must end in one of {', '.join(sorted({*_READERS, '.csv', '.emb', '.parquet'}))}."
    require(found.suffix.lower() in _READERS, found, known, "Convert the file, or rename it.")
    return _READERS[found.suffix.lower()](found, split, person, label_column)


def _is_known_folder(path: Path) -> bool:
    """Whether it is a folder that has a list of its files: an `.emb` folder or a saved data set."""
    return path.suffix == ".emb" or (path / "manifest.json").is_file() or is_dataset_folder(path)


def read_labels(path: str | Path) -> AnyArray:
    """Labels from an `.npy` file of their own."""
    found = Path(path)
    alone = "labels in a file of their own must be an .npy array."
    require(found.suffix == ".npy", found, alone, "Save them with numpy.save.")
    return np.array(load_array(found))


def _read_npy(path: Path, split: str | None, person: str | None, label: str | None) -> RawTable:
    chosen_split(path, (), split)
    require_person_column(path, person, ())
    return RawTable(_as_rows(path, load_array(path)))


def _read_npz(path: Path, split: str | None, person: str | None, label: str | None) -> RawTable:
    with open_archive(path) as arrays:
        return _from_arrays(path, arrays, split, person, label)


def _read_safetensors(path: Path, split: str | None, person: str | None, label: str | None) -> RawTable:
    from safetensors import safe_open

    with parsing(
        path,
        "the file must be complete, of a type numpy knows, and list its classes as JSON; it is not.",
        "Write it again, as float32.",
    ):
        with safe_open(str(path), framework="numpy") as archive:
            declared = (archive.metadata() or {}).get("classes")
            arrays: dict[str, AnyArray] = {key: archive.get_tensor(key) for key in archive.keys()}
        if declared is not None:
            arrays["classes"] = np.asarray(json.loads(declared))
    return _from_arrays(path, arrays, split, person, label)


def _read_torch(path: Path, split: str | None, person: str | None, label: str | None) -> RawTable:
    torch = checks.installed("torch", "torch", "Reading a .pt file")
    arrays: dict[str, AnyArray] = {}
    with parsing(
        path,
        "a .pt file must hold only plain tensors, lists and words (it is opened with weights_only=True); "
        "this holds more, or is damaged.",
        "Save a dict of tensors: torch.save({'x': rows, 'y': labels}, path).",
    ):
        loaded = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(loaded, torch.Tensor):
            loaded = {ROW_NAMES[0]: loaded}
        for key, value in loaded.items() if isinstance(loaded, Mapping) else ():
            if isinstance(value, torch.Tensor):
                wide = value.float() if value.dtype == torch.bfloat16 else value  # NumPy has no bfloat16
                arrays[str(key)] = wide.detach().numpy()
            elif isinstance(value, list | tuple):
                arrays[str(key)] = np.asarray(value)
    plain = "a .pt file must hold a tensor or a dict of tensors."
    require(isinstance(loaded, Mapping), path, plain, "Save {'x': rows, 'y': labels}.")
    return _from_arrays(path, arrays, split, person, label)


def _from_arrays(
    path: Path, arrays: Mapping[str, AnyArray], split: str | None, person: str | None, label: str | None
) -> RawTable:
    ending = _chosen_ending(path, arrays, split)
    packed = f"q{ending}"
    if packed in arrays and {"scale", "offset"} <= set(arrays):
        rows = _as_rows(path, arrays[packed])
        with (
            parsing(path, "'scale' and 'offset' must be numbers, one per column.", "Write the file again."),
            np.errstate(all="ignore"),  # a warning would tell that some row is beyond float32
        ):
            rows = rows.astype(np.float32)
            rows *= arrays["scale"].astype(np.float32)
            rows += arrays["offset"].astype(np.float32)
    else:
        name = next((f"{name}{ending}" for name in ROW_NAMES if f"{name}{ending}" in arrays), None)
        if name is None:
            found = listed(arrays) or "nothing"
            absent = f"rows must be stored under one of {', '.join(ROW_NAMES)}; found {found}."
            raise unreadable(path, absent, "Rename the array.")
        rows = _as_rows(path, arrays[name])
    usual = LABEL_NAMES if label is None else (label,)
    label = next((f"{name}{ending}" for name in usual if f"{name}{ending}" in arrays), None)
    labels = None if label is None else np.asarray(arrays[label])
    if labels is not None:
        one_each = f"'{label}' must hold one label per row; it does not."
        require(labels.shape == (len(rows),), path, one_each, "Write the file again.")
    classes = declared_classes(arrays["classes"].tolist()) if "classes" in arrays else None
    # Whole numbers beside a list of words are positions in it.
    words = bool(classes and isinstance(classes[0], str))
    positions = words and labels is not None and labels.dtype.kind in "iu"
    people = None
    if person is not None:
        of_split = f"{person}{ending}"
        ids = of_split if of_split in arrays else person
        require_person_column(path, ids, arrays)
        people = person_positions(arrays[ids], len(rows))
    return RawTable(rows, labels, classes, positions, people=people)


def _chosen_ending(path: Path, arrays: Mapping[str, AnyArray], split: str | None) -> str:
    """What is appended to the names of the chosen part, such as '_train'; nothing in a file without parts."""
    if split is None and set(arrays) & set(ROW_NAMES):
        return ""
    parts = (name.partition("_") for name in arrays)
    splits = sorted({part for name, mark, part in parts if mark and name in (*ROW_NAMES, "q")})
    chosen = chosen_split(path, splits, split)
    return "" if chosen is None else f"_{chosen}"


def _as_rows(path: Path, rows: AnyArray) -> AnyArray:
    kind = f"rows must be real numbers; found the type {rows.dtype.name}."
    require(rows.dtype.kind in "fiub", path, kind, "Convert them, say to float32.")
    shape = f"rows must be numbers of shape (examples, dimension); found {rows.ndim} dimensions."
    require(rows.ndim == 2 and rows.shape[1] > 0, path, shape, "Reshape them.")
    return rows


_READERS: dict[str, Callable[[Path, str | None, str | None, str | None], RawTable]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".safetensors": _read_safetensors,
}
