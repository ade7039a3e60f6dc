"""What an interrupted fit leaves: a charge that stands, no release, and a message that says both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptransfer.ledger import Ledger


@contextmanager
def told_if_interrupted(book: Ledger) -> Iterator[None]:
    """Let an interruption say whether the budget is spent: it is, once the ledger was charged."""
    before = _entries(book)
    try:
        yield
    except KeyboardInterrupt:
        from dptransfer.ledger import Charge

        new = book.history()[before:] if _entries(book) else []
        own = [entry for entry in new if isinstance(entry, Charge) and entry.process == os.getpid()]
        if not own:
            raise KeyboardInterrupt("Interrupted before any charge; no release was written.") from None
        paid = own[-1]
        spent = "it cost nothing" if not paid.events else "its budget is spent"
        raise KeyboardInterrupt(
            f"Interrupted in the middle of a fit: {spent} (entry {paid.number} of the ledger {book.path}), "
            "and no release was written. Fitting again is charged again."
        ) from None


def _entries(book: Ledger) -> int:
    """How many there are; a file that is not there yet is not made for it."""
    return len(book.history()) if book.path is not None and book.path.exists() else 0
