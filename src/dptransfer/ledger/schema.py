"""The tables of a ledger file: how a new one comes to be, and how an older one becomes current.

A ledger is made only where there is no file, complete and in one move, so a file that is there and empty is
damage. Files of an older schema are read as they are; the first entry added makes them current in the same
transaction. Older versions then ask for an upgrade: the first does not know sketches of rows and folded
names, the second units and runs that go on from a workspace, the third bounds on rows per person and steps on
disjoint parts.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from dptransfer.errors import LedgerTampered
from dptransfer.ledger.chain import head_of, sealed

SCHEMA_VERSION = 4

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
            initialise(connection)
        return _moved_to_free_place(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def initialise(connection: sqlite3.Connection) -> None:
    """Write tables, triggers and a fresh key into an empty database."""
    key = secrets.token_bytes(hashlib.sha256().digest_size)
    tail = sealed(key, 0, head_of(key, []))
    meta = {"schema": str(SCHEMA_VERSION), "key": key.hex(), "tail": tail}
    connection.execute("BEGIN")
    for statement in SCHEMA.values():
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")


def upgrade(connection: sqlite3.Connection) -> None:
    """Mark an older file as one of this schema, inside the transaction that adds the first such entry."""
    connection.execute("DROP TRIGGER meta_does_not_change")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA_VERSION),))
    connection.execute(SCHEMA["meta_does_not_change"])


def _moved_to_free_place(draft: str, path: Path) -> bool:
    """Give a finished file its name, unless the name is taken; then False."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without hard links: take the name first, then fill it
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        os.replace(draft, path)
    return True
