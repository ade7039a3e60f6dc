"""Data sets from the Hugging Face hub, when there is a network.

hub:ORG/NAME/path/in/it.npz   one file of a data set repository, in any format `read_table` knows
hub:ORG/NAME                  a data set that `datasets` loads: a column of embeddings and one of labels, or
images or texts and labels, which the study's encoder then turns into rows
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.data import LABEL_NAMES, ROW_NAMES
from dptransfer.data.atomic_files import cache_folder
from dptransfer.encoders import encode_pictures, encode_texts_in_memory, get_encoder, reachable
from dptransfer.errors import DataError, MissingDependency

if TYPE_CHECKING:
    from datasets import Dataset

HUB = "hub:"
_BATCH = 64
_SPLITS = {"train": ("train",), "test": ("test", "validation", "valid")}  # ours, and what hub sets call it


def hub_source(source: str, encoder: str) -> Path:
    """A local file with what the source names; fetched if it is not here yet.

    Args:
        source: 'hub:ORG/NAME' or 'hub:ORG/NAME/file'.
        encoder: what turns images into rows, where the hub has images.
    """
    parts = source.removeprefix(HUB).split("/")
    if len(parts) < 2 or not all(parts):
        raise DataError(f"A hub source reads hub:ORG/NAME or hub:ORG/NAME/file; got '{source}'.")
    try:
        import datasets
        from huggingface_hub import constants, hf_hub_download
    except ImportError:
        raise MissingDependency("datasets", "readers", "Data from the Hugging Face hub") from None
    repository, file = "/".join(parts[:2]), "/".join(parts[2:])
    whole = cache_folder() / "bench" / "hub" / f"{repository}--{encoder}".replace("/", "--") / "rows.npz"
    if not file and whole.is_file():
        return whole
    here_only = constants.HF_HUB_OFFLINE or not reachable(constants.ENDPOINT)
    try:
        if file:
            found = hf_hub_download(repository, file, repo_type="dataset", local_files_only=here_only)
            return Path(found)
        if here_only:
            raise ConnectionError
        return keep_splits(datasets.load_dataset(repository), whole, encoder)
    except DataError:
        raise
    except Exception as error:  # the clients' errors share no base class across their versions
        raise DataError(
            f"'{source}' is not on this machine, and fetching it failed ({type(error).__name__}). Check the "
            "name, that you may read it, and the network; or where there is one: "
            f"hf download --repo-type dataset {repository}, and name the file in the study."
        ) from None


def keep_splits(loaded: JsonObject, file: Path, encoder: str) -> Path:
    """Training and test rows of a loaded data set as one `.npz` with splits; images and texts are encoded.

    Args:
        loaded: splits by name, as `datasets.load_dataset` gives them.
        file: where to keep them.
        encoder: a name `get_encoder` knows; used where there is no column of embeddings.
    """
    arrays: dict[str, AnyArray] = {}
    for ours, theirs in _SPLITS.items():
        split = next((loaded[name] for name in theirs if name in loaded), None)
        if split is None:
            continue
        arrays[f"x_{ours}"] = _rows(split, encoder)
        if label := _column(split, LABEL_NAMES):
            arrays[f"y_{ours}"] = np.asarray(split[label][:])
            if names := getattr(split.features[label], "names", None):
                arrays["classes"] = np.asarray(names)
    if "x_train" not in arrays:
        raise DataError(f"A data set must have a split 'train'; this has {', '.join(loaded)}.")
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{os.getpid()}.npz")
    np.savez(partial, **cast(Any, arrays))
    partial.replace(file)
    return file


def _column(split: Dataset, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in split.column_names), None)


def _rows(split: Dataset, encoder: str) -> NDArray[np.float32]:
    if column := _column(split, ROW_NAMES):
        return np.asarray(split[column][:], dtype=np.float32)
    column = _column(split, ("image", "img", "text"))
    if column is None:
        raise DataError(
            f"A data set needs embeddings ({', '.join(ROW_NAMES)}), images (image, img) or texts (text); "
            f"this has {', '.join(split.column_names)}. Save it as .npz and name the file."
        )
    if column == "text":
        return encode_texts_in_memory(split[column][:], get_encoder(encoder, kind="text"), batch=_BATCH)
    model = get_encoder(encoder, kind="image")
    return encode_pictures(
        lambda number: split[number][column].convert("RGB"), len(split), model, batch=_BATCH
    )
