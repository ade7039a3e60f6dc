"""Every error this library raises on purpose.

The tree::

    DPTransferError
    ├── ArgumentError (also ValueError)   an argument breaks a rule
    │   ├── BudgetError                   a budget that cannot exist, or cannot pay for this method
    │   ├── RelationMismatch              add/remove and replace-one guarantees were mixed
    │   └── UnknownEvent                  a recorded step is of a kind that nothing installed here knows
    ├── DataError (also ValueError)       a file, array or image set cannot be used as asked
    │   └── Incompatible                  two things that must match do not (encoder, dimension, classes)
    ├── LedgerError                       the ledger refuses
    │   ├── BudgetExceeded                the data set's budget does not cover this release
    │   ├── RowsOnRecord                  these rows have another account already; for the owner's eyes only
    │   ├── PrivateOverlap                public, shot or test examples are private; for the owner's eyes only
    │   ├── UnknownCharge                 an account holds a step of a kind that nothing installed here knows
    │   └── LedgerTampered                the file's hash chain does not hold
    ├── WorkspaceError                    an interrupted run cannot go on from this folder
    ├── ReleaseError                      a release cannot be written, read or verified
    │   └── UnsafeRelease                 a seeded or otherwise unpublishable model was to be released
    └── MissingDependency (also ImportError)   an optional package is not installed

A message has three parts, one sentence each: the rule, what was found, what to do. It never contains
a number that was computed from private rows. ``python -m dptransfer`` and the ``dptransfer`` command
turn any of these into one line on standard error and exit code 2.

One refusal stands outside the tree and is no `Exception` at all, so that a search of scikit-learn cannot turn
it into a missing score: `dptransfer.sklearn.private_classifier.SearchStopped`.

`PrivacyWarning` is the one warning: something the guarantee does not cover, or a budget that hardly promises
anything. Whether it appears never depends on private values.
"""

from __future__ import annotations

from collections.abc import Iterable


class DPTransferError(Exception):
    """Base of every error raised on purpose."""


class PrivacyWarning(UserWarning):
    """What was asked for is allowed, but promises less than it may seem to."""


class ArgumentError(DPTransferError, ValueError):
    """An argument breaks a stated rule."""


class BudgetError(ArgumentError):
    """A budget that cannot exist, or that this method cannot be paid from."""


class RelationMismatch(ArgumentError):
    """Guarantees under different neighbouring relations were mixed."""


class UnknownEvent(ArgumentError):
    """A recorded step is of a kind that nothing installed here knows.

    Attributes:
        kind: its name on record.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type, tuple[str, str], dict[str, object]]:
        return type(self), (str(self), self.kind), self.__dict__  # from a worker process it comes to this one


class DataError(DPTransferError, ValueError):
    """A file, array or image set cannot be used as asked."""


class Incompatible(DataError):
    """Two things that must match do not: encoder, dimension or classes."""


class LedgerError(DPTransferError):
    """The ledger cannot record or refuses to."""


class BudgetExceeded(LedgerError):
    """The data set's budget does not cover this release; nothing was read."""


class RowsOnRecord(LedgerError):
    """The rows are on record under another name; nothing was charged.

    It depends on private rows: it is for the data owner and never part of a release.
    """


class UnknownCharge(LedgerError):
    """An account holds a step of a kind that nothing installed here knows; nothing was charged."""


class PrivateOverlap(LedgerError):
    """Examples that were to be public, or to be tested without protection, are private; nothing was charged.

    Like `RowsOnRecord` it depends on private rows: it is for the data owner and never part of a release.
    """


class LedgerTampered(LedgerError):
    """The ledger's hash chain does not hold."""


class WorkspaceError(DPTransferError):
    """An interrupted run cannot go on from this folder; nothing was charged.

    Like `RowsOnRecord` it may depend on private rows, for it tells when they are not those of the interrupted
    run: it is for the data owner and never part of a release.
    """


class ReleaseError(DPTransferError):
    """A release cannot be written, read or verified."""


class UnsafeRelease(ReleaseError):
    """A model whose noise is reproducible was about to be published."""


class MissingDependency(DPTransferError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str, command: str = "") -> None:
        """Name the package, the extra or else the command that installs it, and what it is for."""
        self._about = package, extra, purpose, command
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            "Install it with: " + (command or f"pip install 'dptransfer[{extra}]'")
        )

    def __reduce__(self) -> tuple[type, tuple[str, ...], dict[str, object]]:
        return type(self), self._about, self.__dict__  # from a worker process it comes to this one


def nearest(word: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """What to do about a word that is none of those known: the one that was meant, or else `otherwise`.

    >>> nearest("step", ["steps", "clip"], "Choose one."), nearest("zzz", ["steps"], "Choose one.")
    ("Did you mean 'steps'?", 'Choose one.')
    """
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"Did you mean '{close[0]}'?" if close else otherwise
