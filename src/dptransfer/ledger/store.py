"""The ledger's file: append-only SQLite, hash-chained, safe across threads and processes.

A ledger is made only where there is no file, complete and in one move, so a file that is there and empty is
damage. Its secret key is made just before (`row_key`).

`meta` holds the schema number, the chain's key, the commitment to the secret key, and the seal on the last
entry. The chain is keyed by the former two together, so neither can be exchanged alone.

Every operation is one transaction on a connection of its own. Opening a ledger, charging it, changing a
budget and every public read begin by checking the whole chain: what this process has checked before is
compared with what it saw then, byte by byte, and the rest is hashed. That takes some 2 µs and 4 µs an entry.
Questions that the charge asks again, and the note how a charge ended, check the entries that are new and the
seal (`recheck=False`). `entry` says what a check detects.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dptransfer.base.types import JsonObject
from dptransfer.errors import LedgerError, LedgerTampered
from dptransfer.ledger.entry import Row, first_break, head_of, link, seal_tail
from dptransfer.ledger.row_key import SIZE, commitment, draft_beside, make_key, move_to_free_place, read_key

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
    with draft_beside(path) as draft:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            initialise(connection, make_key(path))
        return move_to_free_place(draft, path)


def initialise(connection: sqlite3.Connection, row_key: bytes) -> None:
    """Write tables, triggers and a fresh chain into an empty database; of the secret key, the commitment."""
    meta = {"schema": str(SCHEMA_VERSION), "key": secrets.token_bytes(SIZE).hex()}
    meta["row_key"] = commitment(row_key)
    key = chain_key(meta)
    meta["tail"] = seal_tail(key, 0, head_of(key, []))
    connection.execute("BEGIN")
    for statement in SCHEMA.values():
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")


def chain_key(meta: Mapping[str, str]) -> bytes:
    """Key of the hash chain; anybody who has the file can compute it."""
    return hmac.digest(bytes.fromhex(meta["key"]), bytes.fromhex(meta["row_key"]), "sha256")


BUSY_SECONDS = 30.0

_SMALLEST = 512  # bytes of the smallest SQLite file that holds anything


@dataclass
class Chain:
    """The verified entries inside one transaction, and the way to add to them.

    `chain_key` is no secret: everybody who has the file can check the links.
    """

    chain_key: bytes
    rows: list[Row]
    connection: sqlite3.Connection

    @property
    def head(self) -> str:
        """Hash of the last entry; of the key alone while there is none."""
        return head_of(self.chain_key, self.rows)

    def append(self, fields: JsonObject) -> Row:
        """Add one entry; it is durable once the transaction is over."""
        body = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        row = Row(len(self.rows) + 1, body, link(self.chain_key, self.head, body))
        self.connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
        self.rows.append(row)
        tail = seal_tail(self.chain_key, row.number, row.hash)
        self.connection.execute("UPDATE meta SET value = ? WHERE name = 'tail'", (tail,))
        return row


class Store:
    """A ledger file, or the same thing in memory when `path` is None.

    Attributes:
        path: the file.
        is_new: whether there was none, so that it was made here.

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
        self.is_new = False
        self._known: tuple[bytes, list[Row]] | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        self._row_key: bytes | None = None
        self._committed = ""
        with self._explained():
            if self.path is None:
                self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                weakref.finalize(self, self._memory.close)
                self._row_key = secrets.token_bytes(SIZE)
                initialise(self._memory, self._row_key)
            elif not self.path.exists():
                self.is_new = make_file(self.path)
        with self.transaction():
            pass
        if self.is_new:  # a mistyped path would otherwise go unnoticed, and with it all that was spent
            _LOG.warning("Created a new ledger: %s (it has no entries yet)", self.path)

    @property
    def key(self) -> bytes:
        """The ledger's secret key, for ids and sketches; LedgerError where it is missing or another's."""
        if self._row_key is None and self.path is not None:
            with self._explained():
                self._row_key = read_key(self.path, self._committed)
        assert self._row_key is not None  # one in memory has it from the start
        return self._row_key

    @property
    def key_if_there(self) -> bytes | None:
        """The secret key, for what can be read without it too."""
        with suppress(LedgerError):
            return self.key
        return None

    @contextmanager
    def transaction(self, *, write: bool = False, recheck: bool = True) -> Iterator[Chain]:
        """The verified chain; with `write`, nobody else appends until the block ends.

        An exception inside the block undoes what it appended; leaving it normally makes it durable. Without
        `recheck` entries that this process verified earlier are not read again.
        """
        known = self._known  # before the snapshot is taken, so that the snapshot can only be newer
        with self._explained(), self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                chain = self._verified(connection, known, recheck)
                yield chain
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        if self._known is None or len(chain.rows) > len(self._known[1]):
            self._known = (chain.chain_key, chain.rows)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if self.path is None:
            if os.getpid() != self._process or self._memory is None:
                raise LedgerError(
                    "An in-memory ledger stays in its process; a copy could overspend. Use Ledger(path)."
                )
            with self._lock:
                yield self._memory
            return
        if self.path.is_file() and (size := self.path.stat().st_size) < _SMALLEST:
            # SQLite would take it for a new database, and drop a journal that could still restore it.
            raise LedgerTampered(
                f"A ledger is never empty; {self} has {size} bytes left. Restore the file from a backup, and "
                "count what was spent since as spent; delete it only if it never was a ledger."
            )
        address = self.path.as_uri() + "?mode=rw"  # never makes a file: a ledger that vanished is an error
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        with closing(connection):
            # FULL plus a sync of the directory once the rollback journal is unlinked: without it a power cut
            # just after COMMIT can bring the journal, and so the unspent budget, back.
            connection.execute("PRAGMA synchronous = EXTRA")
            yield connection

    def _verified(
        self, connection: sqlite3.Connection, known: tuple[bytes, list[Row]] | None, recheck: bool
    ) -> Chain:
        objects = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if not objects:
            raise self._tampered("its tables are gone")
        if "meta" not in objects or "entries" not in objects:
            raise self._foreign("holds other tables")
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        self._require_readable_version(meta.get("schema"))
        if objects != SCHEMA:
            raise self._tampered("its tables or append-only triggers were changed")
        try:
            key = chain_key(meta)
        except (KeyError, ValueError, TypeError):
            raise self._tampered("its key is unreadable") from None
        before = [] if known is None or known[0] != key else known[1]
        if before and not recheck:
            rows = [*before, *_rows_after(len(before), connection)]
            if first_break(key, rows, meta.get("tail"), len(before)) is None:
                return Chain(key, rows, connection)
        rows = _rows_after(0, connection)
        if rows[: len(before)] == before:
            rows[: len(before)] = before  # the same objects, so that whoever has read them knows them again
        else:
            before = []
        broken = first_break(key, rows, meta.get("tail"), len(before))
        if broken is not None:
            raise self._tampered(broken)
        if known is not None and (known[0] != key or len(before) != len(known[1])):
            raise self._tampered("it lost entries that this process has seen; an older copy was put back")
        self._committed = str(meta["row_key"])
        return Chain(key, rows, connection)

    def _require_readable_version(self, found: object) -> None:
        if not (isinstance(found, str) and re.fullmatch("[1-9][0-9]{0,8}", found)):
            raise self._tampered("its schema version is unreadable")
        if int(found) > SCHEMA_VERSION:
            raise LedgerError(
                f"{self} has schema {found}; this version reads {SCHEMA_VERSION}. Upgrade dptransfer."
            )

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
        except UnicodeDecodeError:  # in SQLite's own message, which quotes a damaged schema
            raise self._tampered("its schema is no text") from None
        except sqlite3.Error as problem:
            if "Could not decode to UTF-8" in str(problem):  # Python's own words; they quote the text
                raise self._tampered("some of its text is no text") from None
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
            f"A ledger must be a file that dptransfer made; {self} {finding}. "
            "Restore it from a backup if it was a ledger, or name the path of another file."
        )

    def _unusable(self, cause: str, remedy: str) -> LedgerError:
        return LedgerError(f"A charge must be on record before any row is read; {self}: {cause}. {remedy}")

    def __str__(self) -> str:
        return "the in-memory ledger" if self.path is None else f"the ledger {self.path}"


def _rows_after(number: int, connection: sqlite3.Connection) -> list[Row]:
    asked = "SELECT number, body, hash FROM entries WHERE number > ? ORDER BY number"
    return list(map(Row._make, connection.execute(asked, (number,))))


_LOG = logging.getLogger("dptransfer")
_WRITABLE = (
    "Make the file and its directory readable and writable, or name another ledger "
    "(--ledger, or the environment variable DPTRANSFER_LEDGER)."
)
_BUSY = f"Another process has held it for {BUSY_SECONDS:g} s; wait for that one to finish, then try again."
_REMEDIES = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: "Free some space on its disk, then try again.",
    sqlite3.SQLITE_IOERR: "Check its disk and the space left on it, then try again.",
}
