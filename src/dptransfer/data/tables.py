"""Tables: named columns, what readers return, and errors for damaged files."""

from __future__ import annotations

import errno
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.types import AnyArray, People
from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.labels import Classes, Labelled, declared_classes, person_positions, word_positions
from dptransfer.errors import DataError, DPTransferError


@dataclass(frozen=True, repr=False)
class RawTable:
    """Rows and labels as read; nothing is inferred, and printing shows neither.

    Attributes:
        rows: array of shape (examples, dimension), memory-mapped where the format allows.
        labels: one label per row as the file has it, or None; whole numbers beside a list of words are
            positions in it.
        classes: the class list the file declares, or None.
        encoder: identity of the encoder, if the file records one.
        sources: where each row came from, if the file records it.
        name: the data set's name, if the file records one.
        fingerprint: recorded SHA-256 of rows and label positions.
        rows_fingerprint: recorded SHA-256 of the rows alone.
        people: whose each row is, as a number from 0, or None.
        columns: the name of each feature, where the file names them, or None.
        public: whether the file says that it is nobody's data; None where it cannot say so.
        source_digests: of the files or texts behind the rows, if the file records them.
    """

    rows: AnyArray
    labels: AnyArray | None = None
    classes: tuple[str | int, ...] | None = None
    encoder: EncoderIdentity | None = None
    sources: tuple[str, ...] | None = None
    name: str | None = None
    fingerprint: str | None = None
    rows_fingerprint: str | None = None
    people: People | None = None
    columns: tuple[str, ...] | None = None
    public: bool | None = None
    source_digests: AnyArray | None = None

    @property
    def labels_are_positions(self) -> bool:
        """Whether labels are whole numbers beside a list of words."""
        named = self.classes is not None and any(isinstance(name, str) for name in self.classes[:1])
        return named and self.labels is not None and self.labels.dtype.kind in "iu"

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return f"RawTable(dimension {self.rows.shape[-1] if self.rows.ndim else 0}, {labelled})"


def unreadable(path: Path, rule: str, remedy: str) -> DataError:
    """The error of every reader: the file by name, the rule it breaks, what to do."""
    return DataError(f"'{path}': {rule} {remedy}")


def require(holds: object, path: Path, rule: str, remedy: str) -> None:
    """Raise `unreadable` unless the rule holds."""
    if not holds:
        raise unreadable(path, rule, remedy)


def chosen_split(path: Path, splits: Collection[str], split: str | None) -> str | None:
    """The part that is asked for, or the only one there is; None where a file has no parts."""
    if split is None and len(splits) < 2:
        return next(iter(splits), None)
    require(splits, path, f"it has no splits; split='{split}' was asked for.", "Leave it out.")
    if split not in splits:
        wrong = "" if split is None else f"; split='{split}' is none"
        which = f"it has the splits {list_names(splits)}, and one must be chosen{wrong}."
        last = sorted(splits)[-1]
        inside = f", or point at '{path / last}'" if path.is_dir() else ""
        raise unreadable(path, which, f"Pass split='{last}'{inside}.")
    return split


def list_names(names: Iterable[str]) -> str:
    """The names that a file gives its parts, sorted; the first ten of many."""
    ordered = sorted(names)
    return ", ".join(ordered[:_MOST_NAMED]) + " and more" * (len(ordered) > _MOST_NAMED)


_MOST_NAMED = 10


_OUT_OF_REACH = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.EIO, errno.ENXIO, errno.ENOTDIR}


@contextmanager
def parsing(path: Path, rule: str, remedy: str) -> Iterator[None]:
    """Turn whatever a parser raises on this file into a `DataError` that states the rule.

    Nothing but calls to parsers belongs inside. Damaged bytes meet them in places that never expected any:
    numpy runs a header through a tokenizer, an expression parser and integer arithmetic, so that tokens,
    recursion, overflow, missing keys and unknown compressions all have exceptions of their own. No list of
    types is complete, and so there is none. What a parser says is not repeated, nor are its warnings shown:
    both may quote the file.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except DPTransferError:
        raise
    except MemoryError:
        larger = "the file must fit in memory; it does not, or it claims a size that it does not have."
        raise unreadable(path, larger, "Use a larger machine, or write the file again.") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in _OUT_OF_REACH and not path.is_dir():
            closed = f"the file must be readable; it is not ({problem.strerror})."
            raise unreadable(path, closed, "Check the path and its permissions.") from None
        raise unreadable(path, rule, remedy) from None


def natural_order(name: str) -> tuple[object, ...]:
    """What to sort names by: letters as letters, digits as numbers of any length; no two names are equal.

    >>> sorted(["rows_10.npy", "rows_9.npy", "rows_09.npy"], key=natural_order)
    ['rows_09.npy', 'rows_9.npy', 'rows_10.npy']
    """
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") for part in parts]
    return (*((len(numbers[place]) * (place % 2), numbers[place]) for place in range(len(parts))), (0, name))


ROW_NAMES = ("x", "features", "embeddings", "embedding")
LABEL_NAMES = ("y", "labels", "label")
_INDEX = "__index_level_"  # what pandas calls the row numbers that it writes
_OPTIONS = {"path": "--path-column", "text": "--text-column"}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table, or arrays of an archive, hold what; None stands for the usual name.

    >>> Columns(label="diagnosis").label
    'diagnosis'

    Attributes:
        path: paths of images, in a CSV; usually 'path'.
        text: texts; usually 'text'.
        label: labels; usually 'label', 'labels' or 'y'.
        features: features, as names or patterns such as 'f*', separated by commas, or as a list of names;
            usually a list column of a known name, or else every column of numbers but those of labels and
            people.
        split: the part of a file that has several, for example 'train'.
        person: ids of people. For images and texts also a file of ids, 'folder' or 'dicom' (see
            `find_images`).
    """

    path: str | None = None
    text: str | None = None
    label: str | None = None
    features: str | Sequence[str] | None = None
    split: str | None = None
    person: str | Path | None = None

    @property
    def ids(self) -> str | None:
        """The column of ids, where `person` names a column; in a table 'folder' may be the name of one."""
        by_column = self.person is not None and self.person != DICOM and not is_person_file(self.person)
        return str(self.person) if by_column else None


NOBODY = "none"
"""What `--person` says where single examples are to be protected, whoever has several."""

USUAL_COLUMNS = Columns()
"""The usual names of all columns."""
STORED = "stored"
"""Whose each row is, as an `.emb` folder keeps it; where none does, each row stands for itself."""
FOLDER = "folder"
"""The word for people by the folder that pictures are in."""
DICOM = "dicom"
"""The word for people by the Patient ID in their DICOM files."""


def column_of(people: object) -> str | None:
    """The column of rows that tells people, where they are told by one."""
    by_column = (
        isinstance(people, str) and people not in (STORED, FOLDER, DICOM) and not is_person_file(people)
    )
    return str(people) if by_column else None


def is_person_file(people: object) -> bool:
    """Whether this names a file of ids, by its ending, and not a column.

    >>> is_person_file("patients.csv"), is_person_file("patient")
    (True, False)
    """
    return isinstance(people, str | Path) and Path(people).suffix.lower() in (".csv", ".npy")


Cells: TypeAlias = Any
"""A column as a file has it: a list, an array, or Arrow's own of pictures, which may not fit in memory."""
Label: TypeAlias = str | float | bool
"""A label as a file has it, a word or a number."""


class ListedExamples(NamedTuple):
    """Examples that a table lists, and what stands beside them.

    Attributes:
        examples: paths, texts or pictures.
        labels: one word each, or None.
        people: the person of each, or None.
        classes: the class list that the table declares, or None.
    """

    examples: Any
    labels: list[str] | None
    people: People | None
    classes: tuple[str | int, ...] | None

    def match_labels(self, path: Path, classes: Classes | None, *, wanted: bool = True) -> Labelled | None:
        """Labels among the declared classes, or those of the table; None where none are there, or wanted.

        Whole numbers are matched as they are written, or as 1.0.
        """
        declared = self.classes if classes is None else declared_classes(classes)
        if self.labels is None or not wanted:
            return None
        if declared is None:
            undeclared = "classes must be declared, for they are never inferred from labels."
            raise unreadable(path, undeclared, "Pass classes=[...], the full public list.")
        return Labelled(word_positions(self.labels, declared), declared)


class NamedColumns(ABC):
    """A file with columns that are read by name; columns that nobody asks for are not read.

    Attributes:
        path: the file or folder.
        names: the columns it has.
        label_names: usual names of labels, the first one that is there first.
    """

    path: Path
    names: Sequence[str]
    label_names: ClassVar[Sequence[str]] = LABEL_NAMES[::-1]

    @abstractmethod
    def row_columns(self, columns: Columns) -> tuple[str, ...]:
        """Find where rows are: one column of whole rows, or one column for each feature."""

    @abstractmethod
    def read(self, beside: Collection[str], rows: Sequence[str] = ()) -> tuple[AnyArray, dict[str, Cells]]:
        """Read the rows in the columns `rows`, and the cells of the columns `beside`."""

    def labels(self, name: str, cells: Cells) -> AnyArray | Sequence[Label]:
        """One label for each row, from the cells of their column."""
        found: AnyArray | Sequence[Label] = cells
        return found

    def classes(self, label: str | None) -> tuple[str | int, ...] | None:
        """The class list that the file declares for its labels, or None."""
        return None

    def features(self, rows: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names of the features, where each has a column."""
        return None

    def require_ids(self, person: str | None) -> None:
        """Raise unless the column of ids is there, if one is named."""
        require_person_column(self.path, person, self.names)


class LabelsAndIds(NamedTuple):
    """What is read of a table: rows, other columns, labels, the class list, and ids of people."""

    rows: AnyArray
    cells: dict[str, Cells]
    labels: AnyArray | Sequence[Label] | None
    classes: tuple[str | int, ...] | None
    ids: Cells

    def people(self, count: int) -> People | None:
        """The person of each row, where the table has ids."""
        return None if self.ids is None else person_positions(self.ids, count)


def read_columns(
    table: NamedColumns,
    label: str | None,
    person: str | None = None,
    others: Sequence[str] = (),
    rows: Sequence[str] = (),
) -> LabelsAndIds:
    """Read labels and ids of people with rows and other columns, in one pass; a label of None has none."""
    table.require_ids(person)
    beside = dict.fromkeys(one for one in (*others, label, person) if one is not None)
    found, cells = table.read([*beside], rows)
    labels = None if label is None else table.labels(label, cells[label])
    return LabelsAndIds(found, cells, labels, table.classes(label), None if person is None else cells[person])


def read_rows(table: NamedColumns, columns: Columns) -> RawTable:
    """Read rows of numbers, with labels and people as far as the table has them."""
    table.require_ids(columns.ids)
    label, chosen = label_column_in(table.names, columns.label, table.label_names), table.row_columns(columns)
    found = read_columns(table, label, columns.ids, rows=chosen)
    labels = None if found.labels is None else np.asarray(found.labels)
    one_each = f"'{label}' must hold one label for each row; it does not."
    fits = labels is None or labels.shape == (len(found.rows),)
    require(fits, table.path, one_each, "Write the file again.")
    people, features = found.people(len(found.rows)), table.features(chosen)
    return RawTable(found.rows, labels, found.classes, people=people, columns=features)


def read_listed(
    table: NamedColumns, column: str, columns: Columns, kind: str | None = None
) -> ListedExamples:
    """Read a column of examples, with labels, by default under 'label', and people if they are named.

    Args:
        table: the table.
        column: where the examples are.
        columns: those of labels and people.
        kind: 'path' or 'text' for examples that must be words; an error names the option for their column.
    """
    label = columns.label or "label"
    if column not in table.names:
        line = ",".join(filter(None, (column, label, columns.ids)))
        option = _OPTIONS.get(kind or "")
        other = "" if option is None else f", or name the column with {option} NAME"
        texts = "; for texts choose an encoder of texts" if kind == "path" and "text" in table.names else ""
        absent = f"examples must be in the column '{column}'; there is none of that name."
        raise unreadable(table.path, absent, f"Begin a CSV with a line such as: {line}{other}{texts}.")
    found = read_columns(table, label if label in table.names else None, columns.ids, [column])
    examples, classes = found.cells[column], table.classes(label)
    if kind is not None:
        whole = len(examples) and all(isinstance(one, str) for one in examples)
        require(whole, table.path, f"'{column}' must be filled with words in every row.", "Fill or drop it.")
    labels = None if found.labels is None else _words(found.labels, classes)
    return ListedExamples(examples, labels, found.people(len(examples)), classes)


def read_label_words(
    table: NamedColumns, label: str | None
) -> tuple[list[str] | None, tuple[str | int, ...] | None]:
    """Read labels alone, by default under 'label', as words or None, and the class list on record."""
    label = label or "label"
    classes = table.classes(label)
    labels = read_columns(table, label).labels if label in table.names else None
    return None if labels is None else _words(labels, classes), classes


def _words(labels: AnyArray | Sequence[Label], classes: tuple[str | int, ...] | None) -> list[str]:
    """Labels as they are written; whole numbers beside recorded names are positions among them."""
    found = labels.tolist() if isinstance(labels, np.ndarray) else labels
    whole = [label for label in found if type(label) is int]
    if classes is None or len(whole) < len(found):
        return [str(label) for label in found]
    # One that is no position, such as −1 for none, is no class, and is told of where labels are placed.
    return [str(classes[label]) if 0 <= label < len(classes) else "" for label in whole]


def require_person_column(path: Path, person: str | None, columns: Collection[str]) -> None:
    """Raise unless the column of ids is there, if one is named."""
    found = f"found {list_names(columns)}" if columns else "there are no columns"
    remedy = "Name the column that has them." if columns else "Name a .csv or .npy file that has them."
    known = person is None or person in columns
    require(known, path, f"people must be in the column '{person}'; {found}.", remedy)


def label_column_in(
    columns: Collection[str], named: str | None, usual: Iterable[str] = LABEL_NAMES[::-1]
) -> str | None:
    """The column of labels: the named one, or else the first of the usual names; None where it is not there.

    Who needs labels says so where there are none. Nobody else has to: one name is given for all the tables
    of a fit, and a pool need not have it.
    """
    return next((name for name in ([named] if named is not None else usual) if name in columns), None)


def require_label_column(path: Path, named: str | None, found: object) -> None:
    """Raise where a column of labels is named for labelled examples, and there is none."""
    absent = f"labels must be in the column '{named}'; there is none of that name."
    require(named is None or found is not None, path, absent, "Name the column that has them.")


def feature_names(
    path: Path,
    columns: Sequence[str],
    wanted: str | Sequence[str] | None,
    others: Collection[str | None] = (),
) -> list[str]:
    """The features among the columns, in the order of a list of names, or one that names alone decide.

    So two files whose columns stand in another order give the same rows. Numbers in names count as numbers:
    f2 comes before f10. Names and types decide, and no cell does.

    >>> columns = ["f10", "label", "f2", "age", "patient"]
    >>> feature_names(Path("a.csv"), columns, None, ["patient"])
    ['age', 'f2', 'f10']
    >>> feature_names(Path("a.csv"), columns, "f*")
    ['f2', 'f10']
    >>> feature_names(Path("a.csv"), columns, ["f10", "age"])
    ['f10', 'age']

    Args:
        path: the file, for a message.
        columns: those that could be features.
        wanted: names with * and ? for letters, separated by commas; a list of names, such as a release has
            them, of which all must be there; None for all columns but those of a usual name for labels, and
            row numbers that pandas wrote.
        others: columns that say something else, people or labels, and so are no features.
    """
    require(len(set(columns)) == len(columns), path, "two columns have one name.", "Rename one of them.")
    if wanted is not None and not isinstance(wanted, str):
        absent = [name for name in wanted if name not in columns]
        rule = f"it must have all columns of features; '{''.join(absent[:1])}' is missing."
        require(not absent, path, rule, "Columns are found by their names: rename one, or add it.")
        return list(wanted)
    columns = [one for one in columns if one not in others]
    if wanted is None:
        features = (one for one in columns if one not in LABEL_NAMES and not one.startswith(_INDEX))
        return sorted(features, key=natural_order)
    chosen: set[str] = set()
    for pattern in filter(None, map(str.strip, wanted.split(","))):
        found = {one for one in columns if fnmatchcase(one, pattern)}
        none = f"the pattern '{pattern}' must fit a column of numbers; it fits none."
        require(found, path, none, "Write names, or patterns such as 'f*', with commas between them.")
        chosen |= found
    return sorted(chosen, key=natural_order)
