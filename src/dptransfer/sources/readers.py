"""Read embeddings from the formats other tools write, without ever unpickling.

`read_private` and `read_public` add to what a reader found what the owner declares. `read_table` picks the
reader by the name's ending:

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
    folder of .npy           rows in many files, which are read in part (see `dptransfer.sources.readers`)
    folder of .parquet       the same, with the columns of .parquet
    any other ending         what an installed package reads (see `dptransfer.sources.readers`)

An `.emb` folder may know whose each row is; the others, but for .npy, may have ids in a column of any name.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base.plugins import Registry
from dptransfer.base.types import AnyArray, People
from dptransfer.data import table_files, tables
from dptransfer.data.emb_folder import in_private_folder, read_store
from dptransfer.data.embeddings import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import DeclaredSizes
from dptransfer.data.labels import Classes, Labelled, declared_classes, person_positions
from dptransfer.data.numpy_files import load_array
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.tables import USUAL_COLUMNS, Columns, RawTable, parsing, require
from dptransfer.errors import ArgumentError
from dptransfer.sources import listings
from dptransfer.sources.archives import ENDINGS as ARCHIVE_ENDINGS
from dptransfer.sources.listings import IMAGE_ENDINGS, ROW_ENDINGS

Reader = Callable[..., RawTable]

_OWN = ".csv .emb .npy .npz .parquet .pt .pth .safetensors .txt".split()


def _accepted(ending: str, found: object) -> Reader:
    if not callable(found):
        raise ArgumentError(f"A reader is a function that takes a path and gives a RawTable; got {found!r}.")
    if ending != ending.lower().strip("."):
        rule = f"A reader's name is an ending in small letters without its dot; got '{ending}'."
        raise ArgumentError(f"{rule} Rename it.")
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
        tables.chosen_split(path, (), columns.split)
    if "person" not in taken:
        tables.require_person_column(path, columns.ids, ())
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
    below = (name for folder in deeper for _, _, inside in os.walk(folder) for name in inside)
    if not found or any(_is_picture(name) for name in below):
        return []
    if any(map(_is_picture, names)):
        found.append("pictures")
    mixed = f"a folder must hold files of one kind; this has {' and '.join(found)}."
    require(len(found) == 1, folder, mixed, "Give each kind a folder of its own.")
    return [folder / name for name in sorted(by_kind[found[0]], key=tables.natural_order)]


def _is_picture(name: str) -> bool:
    return Path(name).suffix.lower() in IMAGE_ENDINGS


def read_shards(folder: Path, files: list[Path], columns: Columns) -> RawTable:
    """Rows that stay in their files; labels and people of Parquet files are read from all of them.

    Args:
        folder: where they are, for a message.
        files: from `shards_in`.
        columns: those of features, labels and people; a split is refused, for there are none.
    """
    tables.chosen_split(folder, (), columns.split)
    rows = ShardedRows(files, columns=columns)
    if files[0].suffix.lower() == ".npy":
        no_columns = "columns of features are those of tables; .npy files have none."
        require(not isinstance(columns.features, str), folder, no_columns, "Leave the names of columns out.")
        tables.require_person_column(folder, columns.ids, ())
        return RawTable(cast(AnyArray, rows))
    found = []
    for file in files:
        table = table_files.ArrowColumns(file)
        label = tables.label_column_in(table.names, columns.label)
        found.append(tables.read_columns(table, label, columns.ids))
    labels = [None if one.labels is None else np.asarray(one.labels) for one in found]
    kinds = [None if own is None else own.dtype.kind for own in labels]
    for file, kind, one in zip(files, kinds, found, strict=True):
        alike = (kind, one.classes) == (kinds[0], found[0].classes)
        require(alike, file, "its files differ in label type or class list.", "Write them all in one way.")
    joined = None if labels[0] is None else np.concatenate([own for own in labels if own is not None])
    ids = None if columns.ids is None else [one for part in found for one in part.ids]
    people = None if ids is None else person_positions(ids, len(rows))
    classes = found[0].classes
    return RawTable(cast(AnyArray, rows), joined, classes, people=people, columns=rows.columns)


Contents = Literal["rows", "images", "texts"]


def contents_of(path: Path, columns: Columns = USUAL_COLUMNS) -> Contents:
    """What is there; no cell is looked at, so that two data sets of one form are taken for the same.

    Args:
        path: a file or folder; one that is not there is taken for what its name says.
        columns: those of texts, of paths of pictures, and of features; with features these are rows.
    """
    kind = path.suffix.lower()
    if columns.features is not None or kind in ROW_ENDINGS or (path / "manifest.json").is_file():
        return "rows"
    if kind == ".txt":
        return "texts"
    shards = shards_in(path) if path.is_dir() and not table_files.is_columnar(path) else []
    if has_added_reader(path) or any(shard.suffix.lower() == ".npy" for shard in shards):
        return "rows"
    if shards or table_files.is_columnar(path):
        schema = table_files.schema_of(shards[0] if shards else path)
        if columns.text in schema.names:
            return "texts"
        if {*tables.ROW_NAMES} & {*schema.names}:
            return "rows"
        if table_files.picture_column(schema) is not None:
            return "images"
        return "texts" if "text" in schema.names else "rows"
    if kind == ".csv" and path.is_file():
        header = table_files.CsvColumns(path).names
        if columns.text in header:
            return "texts"
        return "images" if {columns.path, "path"} & {*header} else "texts" if "text" in header else "rows"
    listings.require_known_type(path)
    return "rows" if kind == ".parquet" else "images"


def read_table(path: str | Path, columns: Columns = USUAL_COLUMNS, *, verify: bool = True) -> RawTable:
    """Read rows, labels and declarations from any format we know.

    Args:
        path: a file or folder; the module's docstring lists the formats.
        columns: labels, people, features and split; an `.emb` folder knows its own.
        verify: check the checksums of an `.emb` folder; other formats have none.
    """
    found = Path(path)
    require(found.exists(), found, "the file must exist; it does not.", "Check the path.")
    by_column = columns.person is None or columns.ids is not None
    require(by_column, found, f"people of rows are in a column; got '{columns.person}'.", "Name a column.")
    if found.is_dir() and not _is_known_folder(found) and (files := shards_in(found)):
        return read_shards(found, files, columns)
    named = found.suffix.lower() == ".csv" or table_files.is_columnar(found)
    no_columns = "columns of features are those of a CSV, Parquet file or Hugging Face folder; this is none."
    by_name = isinstance(columns.features, str)
    require(named or not by_name, found, no_columns, "Leave the names of columns out.")
    if table_files.has_columns(found):
        return tables.read_rows(table_files.open_columns(found, columns.split), columns)
    if has_added_reader(found):
        added = read_with(READERS[found.suffix.lower().removeprefix(".")], found, columns)
        return replace(added, rows=table_files.as_rows(found, added.rows))
    if found.is_dir():
        kinds = "a folder must be an .emb folder, a data set, .npy or .parquet files; this is none of them."
        images = "If it holds images, encode them first: dptransfer encode."
        require(_is_known_folder(found), found, kinds, images)
    elif found.suffix.lower() != ".npy":
        raise listings.unknown_type(found)
    tables.chosen_split(found, (), columns.split)
    tables.require_person_column(found, columns.ids, ())
    if found.is_dir():
        return read_store(found, verify=verify)
    return RawTable(table_files.as_rows(found, load_array(found)))


def _is_known_folder(path: Path) -> bool:
    """Whether it is a folder that has a list of its files: an `.emb` folder or a saved data set."""
    return path.suffix == ".emb" or (path / "manifest.json").is_file() or table_files.is_dataset_folder(path)


def read_private(
    path: str | Path,
    columns: Columns = USUAL_COLUMNS,
    *,
    classes: Classes | None = None,
    name: str | None = None,
    people: str | Path | ArrayLike | None = tables.STORED,
    labels: str | Path | ArrayLike | None = None,
    verify: bool = True,
    **sizes: Unpack[DeclaredSizes],
) -> PrivateEmbeddings:
    """Read private labelled rows from any format of `read_table`.

    Args:
        path: a file or folder.
        columns: those of labels and features, and the part of a file that has several. The names of features
            are public: a release records them. An `.emb` folder knows its labels.
        classes: the full public list of classes. Without it the list declared in the file is used; the labels
            are never looked at to find one.
        name: what the ledger files this data set under; default the name in the `.emb` manifest.
        people: whose each row is: the file's column of ids (in an archive, the array's name); a file of its
            own, as `people_in_file` reads it; 'folder', for an `.emb` folder of pictures that lay in
            class/person/picture; or the ids themselves. By default what an `.emb` folder keeps. None makes
            each row stand for itself, and the promise is for single rows then, whoever has several.
        labels: labels, or an `.npy` file of them, where the rows come without.
        verify: check the checksums of an `.emb` folder.
        sizes: what is declared public of their number, as for `PrivateEmbeddings`.
    """
    path = Path(path)
    table = read_table(path, replace(columns, person=tables.column_of(people)), verify=verify)
    table = with_labels(path, labels, table)
    if table.labels is None:
        where = "'label', 'labels' or 'y'" if columns.label is None else f"'{columns.label}'"
        none = f"private rows must have labels; these have none, under {where}."
        raise tables.unreadable(path, none, "Name their column, --label-column NAME, or pass labels=...")
    if classes is None and table.classes is None:
        rule = "classes must be declared, and the file declares none (private labels are never asked)."
        raise tables.unreadable(path, rule, "Pass classes=[...], the full public list.")
    labelled = _labelled(table, table.labels, table.classes if classes is None else classes)
    return PrivateEmbeddings(
        table.rows,
        labelled,
        name=table.name if name is None else name,
        encoder=table.encoder,
        people=people_of(path, table, people),
        columns=table.columns,
        fingerprint=table.fingerprint if labelled.classes == table.classes else None,
        source_digests=table.source_digests,
        **sizes,
    )


def people_of(path: Path, table: RawTable, people: str | Path | ArrayLike | None) -> People | None:
    """The person of each row; those of a column, or of the folder itself, were read with the rows."""
    if people is None:
        return None
    if not isinstance(people, str | Path):
        return person_positions(people, len(table.rows))
    if tables.is_person_file(people):
        return listings.people_in_file(Path(people), len(table.rows), paths=table.sources)
    if people != tables.FOLDER:
        return table.people
    rule = "people by folder need the names of the pictures behind the rows; these are not on record."
    require(table.sources is not None, path, rule, "Name a column, or a file that identifies the people.")
    return listings.people_by_folder(path, table.sources or ())


def read_public(
    path: str | Path,
    columns: Columns = USUAL_COLUMNS,
    *,
    classes: Classes | None = None,
    name: str | None = None,
    labels: str | Path | ArrayLike | None = None,
    verify: bool = True,
    private_too: bool = False,
) -> PublicEmbeddings:
    """Read public rows, labelled or not, from any format of `read_table`.

    Public labels are nobody's secret, so when neither the caller nor the file declares a class list, the
    sorted distinct labels are the list. The arguments are those of `read_private`; rows without the named
    column of labels are unlabelled. Without `verify` rows in many files are not read at all yet, and are
    taken for finite. An `.emb` folder that is not marked public is refused, and so is a file in it, unless it
    is `private_too`: its owner's, for a test without protection.
    """
    path = Path(path)
    table = read_table(path, replace(columns, person=None), verify=verify)
    rule = "an .emb folder of public rows must be marked public; this one, or its original, is private."
    again = "If it is nobody's data, encode it again with --public, or write it with public=True."
    private = table.public is False or in_private_folder(path)
    require(private_too or not private, path, rule, again)
    table = with_labels(path, labels, table)
    rows: object = table.rows
    if not verify and isinstance(rows, ShardedRows):
        rows.finite = True
    labelled = None
    if table.labels is not None:
        declared = table.classes if classes is None else classes
        found = np.unique(table.labels).tolist() if declared is None else declared
        labelled = _labelled(table, table.labels, found)
    return PublicEmbeddings(
        table.rows,
        labelled,
        name=table.name if name is None else name,
        encoder=table.encoder,
        sources=table.sources,
        columns=table.columns,
        fingerprint=table.rows_fingerprint,
        source_digests=table.source_digests,
    )


def with_labels(path: Path, labels: str | Path | ArrayLike | None, table: RawTable) -> RawTable:
    """The table with these labels, if there are some; they are an error where it has its own."""
    if labels is None:
        return table
    require(table.labels is None, path, "labels were given, and the file has its own.", "Leave labels out.")
    if isinstance(labels, str | Path):
        file = Path(labels)
        require(file.suffix == ".npy", file, "labels must be an .npy array.", "Save them with numpy.save.")
        labels = load_array(file)
    return replace(table, labels=np.array(labels))


def _labelled(table: RawTable, labels: AnyArray, classes: Classes | None) -> Labelled:
    """The table's labels among the declared classes."""
    declared = declared_classes(() if classes is None else classes)
    if table.labels_are_positions and table.classes is not None:
        return Labelled(labels.astype(np.int64), table.classes).among(declared)
    return Labelled.of(labels, declared)
