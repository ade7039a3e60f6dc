"""Data sets from the Hugging Face hub, when there is a network.

hub:ORG/NAME/path/in/it.npz   one file of a data set repository, in any format `read_table` knows
hub:ORG/NAME                  a data set that `datasets` loads: a column of embeddings and one of labels, or
images and labels, which the study's encoder then turns into rows
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dptransfer.data.table import LABEL_NAMES, ROW_NAMES
from dptransfer.encoders import get_encoder
from dptransfer.encoders.hub import reachable
from dptransfer.errors import DataError, MissingDependency
from dptransfer.features.principal_axes import cache_folder

HUB = "hub:"
_BATCH = 64
_SPLITS = {"train": ("train",), "test": ("test", "validation", "valid")}  # ours, and what hub sets call it
_FILE = "rows.npz"


def hub_source(source: str, encoder: str) -> Path:
    """A local file or folder with what the source names; fetched if it is not here yet.

    Args:
        source: 'hub:ORG/NAME' or 'hub:ORG/NAME/file'.
        encoder: what turns images into rows, where the hub has images.
    """
    parts = source.removeprefix(HUB).split("/")
    if len(parts) < 2 or not all(parts):
        raise DataError(f"A hub source reads hub:ORG/NAME or hub:ORG/NAME/file; got '{source}'.")
    try:
        from huggingface_hub import constants
    except ImportError:
        raise MissingDependency("datasets", "bench", "Data from the Hugging Face hub") from None
    repository, file = "/".join(parts[:2]), "/".join(parts[2:])
    if found := _here(repository, file, encoder):
        return found
    if constants.HF_HUB_OFFLINE or not reachable(constants.ENDPOINT):
        raise DataError(
            f"'{source}' is not on this machine and {constants.ENDPOINT} cannot be reached. Where there is a "
            f"network: hf download --repo-type dataset {repository}, then name the file in the study."
        )
    try:
        return _file(repository, file) if file else _whole(repository, encoder)
    except DataError:
        raise
    except Exception as error:  # the clients' errors share no base class across their versions
        raise DataError(
            f"'{source}' must be a data set on {constants.ENDPOINT}; fetching it failed "
            f"({type(error).__name__}). Check the name, or that you may read it."
        ) from None


def _here(repository: str, file: str, encoder: str) -> Path | None:
    if not file:
        whole = _folder(repository, encoder) / _FILE
        return whole if whole.is_file() else None
    try:
        return _file(repository, file, local_files_only=True)
    except Exception:  # "not in the cache" has had several types over the years; the hub is asked next
        return None


def _file(repository: str, file: str, **options: Any) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(repository, file, repo_type="dataset", **options))


def _folder(repository: str, encoder: str) -> Path:
    name = f"{repository}--{encoder}".replace("/", "--")
    return cache_folder() / "bench" / "hub" / name


def _whole(repository: str, encoder: str) -> Path:
    import datasets

    return keep_splits(datasets.load_dataset(repository), _folder(repository, encoder) / _FILE, encoder)


def keep_splits(loaded: Mapping[str, Any], file: Path, encoder: str) -> Path:
    """Training and test rows of a loaded data set as one `.npz` with splits; images and texts are encoded.

    Args:
        loaded: splits by name, as `datasets.load_dataset` gives them.
        file: where to keep them.
        encoder: a name `get_encoder` knows; used where there is no column of embeddings.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for ours, theirs in _SPLITS.items():
        split = next((loaded[name] for name in theirs if name in loaded), None)
        if split is None:
            continue
        arrays[f"x_{ours}"] = _rows(split, encoder)
        label = next((name for name in LABEL_NAMES if name in split.column_names), None)
        if label is not None:
            arrays[f"y_{ours}"] = np.asarray(split[label][:])
            names = getattr(split.features[label], "names", None)
            if names:
                arrays["classes"] = np.asarray(names)
    if "x_train" not in arrays:
        raise DataError(f"A data set must have a split 'train'; this has {', '.join(loaded)}.")
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{os.getpid()}.npz")
    np.savez(partial, **cast(Any, arrays))
    partial.replace(file)
    return file


def _rows(split: Any, encoder: str) -> NDArray[np.float32]:
    column = next((name for name in ROW_NAMES if name in split.column_names), None)
    if column is not None:
        return np.asarray(split[column][:], dtype=np.float32)
    column = next((name for name in ("image", "img", "text") if name in split.column_names), None)
    if column is None:
        raise DataError(
            f"A data set needs embeddings ({', '.join(ROW_NAMES)}), images (image, img) or texts (text); "
            f"this has {', '.join(split.column_names)}. Save it as .npz and name the file."
        )
    model = get_encoder(encoder, kind="text" if column == "text" else "image")
    parts = []
    for start in range(0, len(split), _BATCH):
        items = list(split[start : start + _BATCH][column])
        if column != "text":
            items = [item.convert("RGB") for item in items]
        filled = items + items[-1:] * (_BATCH - len(items))  # calls of one size: see `Encoder`
        parts.append(np.asarray(model.encode(filled)[: len(items)], dtype=np.float32))
    return np.concatenate(parts)
