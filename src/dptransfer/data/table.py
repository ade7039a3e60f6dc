"""What any reader returns: arrays and what the file itself declares, before anything is checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dptransfer.arrays import AnyArray, People
from dptransfer.data.identity import EncoderIdentity
from dptransfer.errors import DataError


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
