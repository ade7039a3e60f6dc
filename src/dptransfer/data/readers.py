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
    .parquet                 a list column (names as for .npz) and a label column
    Hugging Face folder      a `datasets` folder saved to disk, same columns
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray
from dptransfer.data.class_names import declared_classes
from dptransfer.data.columns import is_dataset_folder, read_dataset_folder, read_parquet
from dptransfer.data.numpy_files import load_array, open_archive
from dptransfer.data.parsing import parsing
from dptransfer.data.store import read_store
from dptransfer.data.table import LABEL_NAMES, ROW_NAMES, RawTable, listed, unreadable
from dptransfer.errors import MissingDependency


def read_table(path: str | Path, *, split: str | None = None, verify: bool = True) -> RawTable:
    """Read rows, labels and declarations from any format we know.

    Args:
        path: a file or folder; the module's docstring lists the formats.
        split: which part of a file that has several, for example 'train'. A single part needs no naming.
        verify: check the checksums of an `.emb` folder; other formats have none.
    """
    found = Path(path)
    if not found.exists():
        raise unreadable(found, "the file must exist; it does not.", "Check the path.")
    if found.is_dir() and is_dataset_folder(found):
        return read_dataset_folder(found, split)
    if found.is_dir() and (found.suffix == ".emb" or (found / "manifest.json").is_file()):
        table = read_store(found, verify=verify)
    elif found.is_dir():
        raise unreadable(
            found,
            "a folder must be an .emb folder or a saved Hugging Face data set; this is neither.",
            "If it holds images, encode them first: dptransfer encode.",
        )
    elif (reader := _WITH_SPLITS.get(found.suffix.lower())) is not None:
        return reader(found, split)
    elif (plain := _WITHOUT_SPLITS.get(found.suffix.lower())) is not None:
        table = plain(found)
    else:
        known = ", ".join(sorted({*_WITH_SPLITS, *_WITHOUT_SPLITS, ".emb"}))
        raise unreadable(found, f"the name must end in one of {known}.", "Convert the file, or rename it.")
    if split is not None:
        raise unreadable(
            found, f"there are no splits in it, and split='{split}' was asked for.", "Leave split out."
        )
    return table


def read_labels(path: str | Path) -> AnyArray:
    """Labels from an `.npy` file of their own."""
    found = Path(path)
    if found.suffix != ".npy":
        raise unreadable(
            found, "labels in a file of their own must be an .npy array.", "Save them with numpy.save."
        )
    return np.array(load_array(found))


def _read_npy(path: Path) -> RawTable:
    return RawTable(_as_rows(path, load_array(path)))


def _read_npz(path: Path, split: str | None) -> RawTable:
    with open_archive(path) as arrays:
        return _from_arrays(path, arrays, split)


def _read_safetensors(path: Path, split: str | None) -> RawTable:
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
    return _from_arrays(path, arrays, split)


def _read_torch(path: Path, split: str | None) -> RawTable:
    try:
        import torch
    except ImportError:
        raise MissingDependency("torch", "torch", "Reading a .pt file") from None
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
                arrays[str(key)] = _tensor_array(value)
            elif isinstance(value, list | tuple):
                arrays[str(key)] = np.asarray(value)
    if not isinstance(loaded, Mapping):
        raise unreadable(
            path, "a .pt file must hold a tensor or a dict of tensors.", "Save {'x': rows, 'y': labels}."
        )
    return _from_arrays(path, arrays, split)


def _from_arrays(path: Path, arrays: Mapping[str, AnyArray], split: str | None) -> RawTable:
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
            raise unreadable(
                path,
                f"rows must be stored under one of {', '.join(ROW_NAMES)}; "
                f"found {listed(arrays) or 'nothing'}.",
                "Rename the array.",
            )
        rows = _as_rows(path, arrays[name])
    label = next((f"{name}{ending}" for name in LABEL_NAMES if f"{name}{ending}" in arrays), None)
    labels = None if label is None else np.asarray(arrays[label])
    if labels is not None and labels.shape != (len(rows),):
        raise unreadable(
            path, f"'{label}' must hold one label per row; it does not.", "Write the file again."
        )
    classes = declared_classes(arrays["classes"].tolist()) if "classes" in arrays else None
    return RawTable(rows, labels, classes, labels_are_positions=_are_positions(labels, classes))


def _chosen_ending(path: Path, arrays: Mapping[str, AnyArray], split: str | None) -> str:
    names = set(arrays)
    if split is None and names & set(ROW_NAMES):
        return ""
    splits = sorted(
        {
            name.split("_", 1)[1]
            for name in names
            if "_" in name and name.split("_", 1)[0] in (*ROW_NAMES, "q")
        }
    )
    if split is None:
        if len(splits) > 1:
            raise unreadable(
                path,
                f"it has the splits {listed(splits)}, and one must be chosen.",
                f"Pass split='{splits[-1]}'.",
            )
        return f"_{splits[0]}" if splits else ""
    if split not in splits:
        found = f"has the splits {listed(splits)}" if splits else "has no splits"
        raise unreadable(
            path, f"split='{split}' must be in the file, which {found}.", "Choose one, or leave it out."
        )
    return f"_{split}"


def _are_positions(labels: AnyArray | None, classes: tuple[str | int, ...] | None) -> bool:
    if labels is None or not classes:
        return False
    return labels.dtype.kind in "iu" and isinstance(classes[0], str)


def _as_rows(path: Path, rows: AnyArray) -> AnyArray:
    if rows.dtype.kind not in "fiub":
        raise unreadable(
            path,
            f"rows must be real numbers; found the type {rows.dtype.name}.",
            "Convert them, say to float32.",
        )
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise unreadable(
            path,
            f"rows must be numbers of shape (examples, dimension); found {rows.ndim} dimensions.",
            "Reshape them.",
        )
    return rows


def _tensor_array(tensor: Any) -> AnyArray:
    import torch

    kept = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    array: AnyArray = kept.numpy()
    return array


_WITH_SPLITS: dict[str, Callable[[Path, str | None], RawTable]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
_WITHOUT_SPLITS: dict[str, Callable[[Path], RawTable]] = {".npy": _read_npy, ".parquet": read_parquet}
