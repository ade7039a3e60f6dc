"""The hash chain that ties a ledger's entries together.

Entry n carries HMAC-SHA256(key, hash of entry n-1 ‖ its canonical JSON); a sealed record of the count and the
last hash closes the chain, so a missing tail shows too.

What the chain detects: damage, and edits by someone who does not recompute it. What it cannot detect by
itself: the owner of the file rewriting everything (the key is inside, for the ledger defends the data against
its honest users, not against its owner), or an old copy put back between two runs. Against those, keep a
chain head (`Receipt.head`) elsewhere and pass it to `Ledger.verify(known_head=...)`.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One entry as stored: its number from 1, its canonical JSON, its link in the chain."""

    number: int
    body: str
    hash: str


def link(key: bytes, previous: str, body: str) -> str:
    """The hash of an entry: HMAC-SHA256(key, previous hash ‖ body), in hexadecimal.

    >>> len(link(b"key", "", "body"))
    64
    """
    return hmac.digest(key, (previous + body).encode(), "sha256").hex()


def head_of(key: bytes, rows: Sequence[Row]) -> str:
    """Hash of the last entry; one of the key alone while there is none."""
    return rows[-1].hash if rows else link(key, "", "genesis")


def sealed(key: bytes, count: int, head: str) -> str:
    """The record that closes the chain: how many entries, the last hash, and a seal over both."""
    return f"{count}:{head}:{link(key, head, f'tail {count}')}"


def first_break(key: bytes, rows: Sequence[Row], tail: object, checked: int = 0) -> str | None:
    """Where the chain does not hold, in words; None when it does. `checked` rows are known to hold.

    >>> rows = [Row(1, "{}", link(b"key", head_of(b"key", []), "{}"))]
    >>> first_break(b"key", rows, sealed(b"key", 1, rows[0].hash)) is None
    True
    >>> first_break(b"key", [rows[0]._replace(body="{ }")], sealed(b"key", 1, rows[0].hash))
    'entry 1 does not follow from what is before it'
    """
    previous = head_of(key, rows[:checked])
    for expected, row in enumerate(rows[checked:], start=checked + 1):
        if row.number != expected:
            return f"entry {expected} is missing"
        if not (isinstance(row.body, str) and _same(link(key, previous, row.body), row.hash)):
            return f"entry {expected} does not follow from what is before it"
        previous = row.hash
    if not _same(sealed(key, len(rows), previous), tail):
        return f"its last record does not match the {len(rows)} entries found"
    return None


def _same(expected: str, found: object) -> bool:
    return isinstance(found, str) and hmac.compare_digest(expected.encode(), found.encode())
