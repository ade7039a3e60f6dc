"""Read embeddings from the formats other tools write, without ever unpickling.

One function, `read_table`, picks the reader by the name's ending:

    .emb                     our own folder (see `dptransfer.data.emb_folder`)
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

from dataclasses import replace
from pathlib import Path

import numpy as np

from dptransfer.base.types import AnyArray
from dptransfer.data.arrow import is_columnar, is_dataset_folder
from dptransfer.data.columns import USUAL_COLUMNS, Columns, read_rows, require_person_column
from dptransfer.data.emb_folder import read_store
from dptransfer.data.numpy_files import load_array
from dptransfer.data.tables import RawTable, chosen_split, require
from dptransfer.sources.contents import read_shards, shards_in
from dptransfer.sources.file_types import has_added_reader, read_added, unknown_type
from dptransfer.sources.open_columns import as_rows, has_columns, open_columns


def read_table(path: str | Path, columns: Columns = USUAL_COLUMNS, *, verify: bool = True) -> RawTable:
    """Read rows, labels and declarations from any format we know.

    Args:
        path: a file or folder; the module's docstring lists the formats.
        columns: labels, people, features and split; an `.emb` folder knows its own.
        verify: check the checksums of an `.emb` folder; other formats have none.
    """
    found = Path(path)
    require(found.exists(), found, "the file must exist; it does not.", "Check the path.")
    if found.is_dir() and not _is_known_folder(found) and (files := shards_in(found)):
        return read_shards(found, files, columns)
    named = found.suffix.lower() == ".csv" or is_columnar(found)
    no_columns = "columns of features are those of a CSV, Parquet file or Hugging Face folder; this is none."
    by_name = isinstance(columns.features, str)
    require(named or not by_name, found, no_columns, "Leave the names of columns out.")
    if has_columns(found):
        with open_columns(found, columns.split) as table:
            return read_rows(table, columns)
    if has_added_reader(found):
        added = read_added(found, columns.split, columns.ids, columns.label)
        return replace(added, rows=as_rows(found, added.rows))
    if found.is_dir():
        kinds = (
            "a folder must be an .emb folder, a saved Hugging Face data set, or of .npy or .parquet files; "
            "this is none of them."
        )
        images = "If it holds images, encode them first: dptransfer encode."
        require(_is_known_folder(found), found, kinds, images)
    elif found.suffix.lower() != ".npy":
        raise unknown_type(found)
    chosen_split(found, (), columns.split)
    require_person_column(found, columns.ids, ())
    if found.is_dir():
        return read_store(found, verify=verify)
    return RawTable(as_rows(found, load_array(found)))


def _is_known_folder(path: Path) -> bool:
    """Whether it is a folder that has a list of its files: an `.emb` folder or a saved data set."""
    return path.suffix == ".emb" or (path / "manifest.json").is_file() or is_dataset_folder(path)


def read_labels(path: str | Path) -> AnyArray:
    """Labels from an `.npy` file of their own."""
    found = Path(path)
    alone = "labels in a file of their own must be an .npy array."
    require(found.suffix == ".npy", found, alone, "Save them with numpy.save.")
    return np.array(load_array(found))
