"""The tables of a ledger file, and how a new one comes to be.

A ledger is made only where there is no file, complete and in one move, so a file that is there and empty is
damage. Its secret key is made just before (`row_key`).

`meta` holds the schema number, the chain's key, the commitment to the secret key, and the seal on the last
entry. The chain is keyed by the former two together, so neither can be exchanged alone.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dptransfer.errors import LedgerTampered
from dptransfer.ledger.chain import head_of, sealed
from dptransfer.ledger.row_key import SIZE, commitment, make_key, move_to_free_place

SCHEMA_VERSION = 1

_FORBIDDEN = {
    "entries_stay": "DELETE ON entries",
    "entries_do_not_change": "UPDATE ON entries",
    "meta_stays": "DELETE ON meta",
    "meta_does_not_change": "UPDATE ON meta WHEN OLD.name <> 'tail'",
}
SCHEMA = {
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "entries": "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    **{
        name: f"CREATE TRIGGER {name} BEFORE {act} BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for name, act in _FORBIDDEN.items()
    },
}
"""The statements that make a file, by the name of what they make; they are compared with those in it."""

_LEFT_BY_SQLITE = ("-journal", "-wal")


def make_file(path: Path) -> bool:
    """Move a complete ledger to where there is none; False if another process was faster.

    The place itself is never opened: POSIX drops all of a process's locks on a file when any of its
    descriptors is closed, so that would disturb a thread that uses the ledger already.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    left = [beside for beside in (Path(f"{path}{end}") for end in _LEFT_BY_SQLITE) if beside.exists()]
    if left and not path.exists():  # else another process made the ledger and is writing to it
        raise LedgerTampered(
            f"A new ledger is made only where none was; {path} is gone, but {left[0]} is there, the rest "
            "of a charge that was under way. Restore the file from a backup, or move the rest away and "
            "count what was spent as spent."
        )
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # for its owner only
    os.close(handle)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            initialise(connection, make_key(path))
        return move_to_free_place(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def initialise(connection: sqlite3.Connection, row_key: bytes) -> None:
    """Write tables, triggers and a fresh chain into an empty database; of the secret key, the commitment."""
    meta = {
        "schema": str(SCHEMA_VERSION),
        "key": secrets.token_bytes(SIZE).hex(),
        "row_key": commitment(row_key),
    }
    key = chain_key(meta)
    meta["tail"] = sealed(key, 0, head_of(key, []))
    connection.execute("BEGIN")
    for statement in SCHEMA.values():
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")


def chain_key(meta: Mapping[str, str]) -> bytes:
    """What links of the chain are keyed with; anybody who has the file can compute it."""
    return hmac.digest(bytes.fromhex(meta["key"]), bytes.fromhex(meta["row_key"]), "sha256")
