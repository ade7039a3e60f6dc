"""The ledger's file: append-only SQLite, hash-chained, safe across threads and processes.

Every operation is one transaction on a connection of its own, and begins by checking the whole chain (some
10 µs an entry). See `chain` for what that detects.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dptransfer.errors import LedgerError, LedgerTampered
from dptransfer.ledger.chain import Row, first_break, head_of, link, sealed

SCHEMA_VERSION = 1
BUSY_SECONDS = 30.0

_SCHEMA = {
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "entries": "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "entries_stay": (
        "CREATE TRIGGER entries_stay BEFORE DELETE ON entries "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
    "entries_do_not_change": (
        "CREATE TRIGGER entries_do_not_change BEFORE UPDATE ON entries "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
    "meta_stays": (
        "CREATE TRIGGER meta_stays BEFORE DELETE ON meta "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
    "meta_does_not_change": (
        "CREATE TRIGGER meta_does_not_change BEFORE UPDATE ON meta WHEN OLD.name <> 'tail' "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
}

# Making a file opens and closes it, and POSIX drops all of a process's locks on a file when any of its
# descriptors is closed: so no second thread may be inside SQLite on the same new file.
_CREATION = threading.Lock()


class Chain:
    """The verified entries inside one transaction, and the way to add to them."""

    def __init__(self, key: bytes, rows: list[Row], connection: sqlite3.Connection) -> None:
        self.key = key
        self.rows = rows
        self._connection = connection

    @property
    def head(self) -> str:
        """Hash of the last entry; of the key alone while there is none."""
        return head_of(self.key, self.rows)

    def append(self, fields: dict[str, Any]) -> Row:
        """Add one entry; it is durable once the transaction is over."""
        body = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        row = Row(len(self.rows) + 1, body, link(self.key, self.head, body))
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
        self.rows.append(row)
        tail = sealed(self.key, row.number, row.hash)
        self._connection.execute("UPDATE meta SET value = ? WHERE name = 'tail'", (tail,))
        return row


class Store:
    """A ledger file, or the same thing in memory when `path` is None.

    >>> store = Store(None)
    >>> with store.transaction(write=True) as chain:
    ...     chain.append({"kind": "note"}).number
    1
    >>> with store.transaction() as chain:
    ...     [row.body for row in chain.rows]
    ['{"kind":"note"}']
    """

    def __init__(self, path: Path | None) -> None:
        self.path = None if path is None else Path(os.path.realpath(path.expanduser()))
        self._seen: tuple[int, str] | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        if self.path is None:
            self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._memory.close)
        with _CREATION, self._explained():
            self._make_file()
            with self._connected() as connection:
                if connection.execute("PRAGMA page_count").fetchone() == (0,):
                    if self.path is not None:
                        self.path.chmod(0o600)  # an empty file that was there already
                    _initialise(connection)
        with self.transaction():
            pass

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Chain]:
        """The verified chain; with `write`, nobody else appends until the block ends.

        An exception inside the block undoes what it appended; leaving it normally makes it durable.
        """
        seen = self._seen  # before the snapshot is taken, so that the snapshot can only be newer
        with self._explained(), self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                chain = self._verified(connection, seen)
                yield chain
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        if self._seen is None or len(chain.rows) > self._seen[0]:
            self._seen = (len(chain.rows), chain.head)

    def _make_file(self) -> None:
        if self.path is not None and not self.path.exists():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                pass  # another process was faster

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if self.path is None:
            if os.getpid() != self._process or self._memory is None:
                raise LedgerError(
                    "An in-memory ledger belongs to the process that made it; this is a copy in a child "
                    "process, which could spend the same budget again. Use a ledger file, Ledger(path)."
                )
            with self._lock:
                yield self._memory
            return
        address = self.path.as_uri() + "?mode=rw"  # never makes a file: a ledger that vanished is an error
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        with closing(connection):
            # FULL plus a sync of the directory once the rollback journal is unlinked: without it a power cut
            # just after COMMIT can bring the journal, and so the unspent budget, back.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.text_factory = _forgiving_text
            yield connection

    def _verified(self, connection: sqlite3.Connection, seen: tuple[int, str] | None) -> Chain:
        objects = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if "meta" not in objects or "entries" not in objects:
            raise self._foreign("holds other tables")
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        self._require_readable_version(meta.get("schema"))
        if objects != _SCHEMA:
            raise self._tampered("its tables or append-only triggers were changed")
        found = connection.execute("SELECT number, body, hash FROM entries ORDER BY number")
        rows = [Row(*row) for row in found]
        try:
            key = bytes.fromhex(meta["key"])
        except (KeyError, ValueError, TypeError):
            raise self._tampered("its key is unreadable") from None
        broken = first_break(key, rows, meta.get("tail"))
        if broken is not None:
            raise self._tampered(broken)
        if seen is not None:
            count, head = seen
            if len(rows) < count or head_of(key, rows[:count]) != head:
                raise self._tampered("it lost entries that this process has seen; an older copy was put back")
        return Chain(key, rows, connection)

    def _require_readable_version(self, found: object) -> None:
        if found == str(SCHEMA_VERSION):
            return
        if isinstance(found, str) and found.isdigit() and int(found) > SCHEMA_VERSION:
            raise LedgerError(
                f"This version of dptransfer reads ledgers up to schema {SCHEMA_VERSION}; "
                f"{self} has schema {found}. Upgrade dptransfer."
            )
        raise self._tampered("its schema version is unreadable")

    def _tampered(self, finding: str) -> LedgerTampered:
        return LedgerTampered(
            f"A ledger's hash chain must hold; {self} was changed outside dptransfer: {finding}. "
            "Restore the file from a backup, and count what was spent since as spent."
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file system into the library's own."""
        try:
            yield
        except OSError as problem:
            raise self._unusable(f"{problem.strerror} ({problem.filename})", _WRITABLE) from None
        except sqlite3.Error as problem:
            code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_NOTADB:
                raise self._foreign("is not an SQLite file") from None
            if code == sqlite3.SQLITE_ERROR:
                raise self._foreign(f"cannot be read ({problem})") from None
            if code == sqlite3.SQLITE_CORRUPT:
                raise self._tampered(str(problem)) from None
            raise self._unusable(str(problem), _REMEDIES.get(code, _WRITABLE)) from None

    def _foreign(self, finding: str) -> LedgerError:
        return LedgerError(
            f"A ledger must be a file that dptransfer made; {self} {finding}. Name the path of another file."
        )

    def _unusable(self, cause: str, remedy: str) -> LedgerError:
        return LedgerError(f"A charge must be on record before any row is read; {self}: {cause}. {remedy}")

    def __str__(self) -> str:
        return "the in-memory ledger" if self.path is None else f"the ledger {self.path}"


_WRITABLE = (
    "Make the file and its directory readable and writable, or name another ledger "
    "with the environment variable DPTRANSFER_LEDGER."
)
_BUSY = f"Another process has held it for {BUSY_SECONDS:g} s; wait for that one to finish, then try again."
_REMEDIES = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: "Free some space on its disk, then try again.",
    sqlite3.SQLITE_IOERR: "Check its disk and the space left on it, then try again.",
}


def _forgiving_text(stored: bytes) -> str:
    """Damaged text must reach the hash check, not stop before it; what we write is plain ASCII."""
    return stored.decode("utf-8", "replace")


def _initialise(connection: sqlite3.Connection) -> None:
    """Write tables, triggers and a fresh key into an empty file, unless another process just did."""
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("SELECT * FROM sqlite_master").fetchone() is None:
        key = secrets.token_bytes(hashlib.sha256().digest_size)
        for statement in _SCHEMA.values():
            connection.execute(statement)
        tail = sealed(key, 0, head_of(key, []))
        meta = {"schema": str(SCHEMA_VERSION), "key": key.hex(), "tail": tail}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")
