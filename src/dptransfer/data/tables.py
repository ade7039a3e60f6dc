"""Tables as readers return them, and errors for damaged files."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dptransfer.base.types import AnyArray, People
from dptransfer.data.facts import EncoderIdentity
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
