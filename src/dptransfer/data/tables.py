"""Tables as readers return them: arrays, declarations, feature columns, and errors for damaged files."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from dptransfer.base.arrays import AnyArray, People
from dptransfer.data.identity import EncoderIdentity
from dptransfer.errors import DataError, DPTransferError


@dataclass(frozen=True, repr=False)
class RawTable:
    """Rows and labels as read; nothing is inferred, and printing shows neither.

    Attributes:
        rows: array of shape (examples, dimension), memory-mapped where the format allows.
        labels: one label per row as the file has it, or None.
        classes: the class list the file declares, or None.
        labels_are_positions: labels are positions in `classes` rather than class names.
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
    labels_are_positions: bool = False
    encoder: EncoderIdentity | None = None
    sources: tuple[str, ...] | None = None
    name: str | None = None
    fingerprint: str | None = None
    rows_fingerprint: str | None = None
    people: People | None = None
    columns: tuple[str, ...] | None = None
    public: bool | None = None
    source_digests: AnyArray | None = None

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return f"RawTable(dimension {self.rows.shape[-1] if self.rows.ndim else 0}, {labelled})"


class Listed(NamedTuple):
    """Examples that a file lists: their paths or texts, and as far as it has them labels, people, classes."""

    examples: list[str]
    labels: list[str] | None
    people: People | None
    classes: tuple[str | int, ...] | None = None


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
    none = f"there are no splits in it, and split='{split}' was asked for."
    require(splits, path, none, "Leave it out.")
    if split not in splits:
        wrong = "" if split is None else f"; split='{split}' is none"
        which = f"it has the splits {listed(splits)}, and one must be chosen{wrong}."
        raise unreadable(path, which, f"Pass split='{sorted(splits)[-1]}'.")
    return split


def require_person_column(path: Path, person: str | None, columns: Collection[str]) -> None:
    """Raise unless the column that is said to tell the person of each example, if any, is there."""
    found = f"found {listed(columns)}" if columns else "there are no columns"
    remedy = "Name the column that has them." if columns else "Name a .csv or .npy file that has them."
    known = person is None or person in columns
    require(known, path, f"people must be in the column '{person}'; {found}.", remedy)


def label_column_in(columns: Collection[str], named: str | None = None) -> str | None:
    """The column of labels: the one that is named, or else of a usual name; None where it is not there.

    Who needs labels says so where there are none. Nobody else has to: one name is given for all the tables
    of a fit, and a pool need not have it.
    """
    if named is not None:
        return named if named in columns else None
    return next((name for name in reversed(LABEL_NAMES) if name in columns), None)


def require_label_column(path: Path, named: str | None, found: object) -> None:
    """Raise where a column of labels is named for labelled examples, and there is none."""
    absent = f"labels must be in the column '{named}'; there is none of that name."
    require(named is None or found is not None, path, absent, "Name the column that has them.")


def listed(names: Iterable[str]) -> str:
    """The names that a file gives its parts, sorted; the first ten of many."""
    ordered = sorted(names)
    return ", ".join(ordered[:_MOST_NAMED]) + " and more" * (len(ordered) > _MOST_NAMED)


ROW_NAMES = ("x", "features", "embeddings", "embedding")
LABEL_NAMES = ("y", "labels", "label")
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


_INDEX = "__index_level_"  # what pandas calls the row numbers that it writes


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
    own_name = "each column must have a name of its own; two have one."
    require(len(set(columns)) == len(columns), path, own_name, "Rename one of them.")
    if wanted is not None and not isinstance(wanted, str):
        absent = [name for name in wanted if name not in columns]
        rule = (
            f"it must have the columns of features that are wanted; '{''.join(absent[:1])}' is none of its."
        )
        require(not absent, path, rule, "Columns are told by their names: rename it, or add it.")
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
