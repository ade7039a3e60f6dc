"""Ways to look at and change a ledger file that are not the library's."""

import shutil
import sqlite3
from contextlib import closing

from dptransfer.ledger.row_key import key_path


def edit(path, *statements, keep_triggers=True):
    """Change a ledger behind its back, as someone with an SQLite shell would, and put the triggers back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)
        for _, sql in triggers if keep_triggers else ():
            connection.execute(sql)
        connection.execute("COMMIT")


def query(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def copied(path, place):
    """A copy of a ledger with its key, as of a restored backup."""
    shutil.copy(key_path(path), key_path(place))
    return shutil.copy(path, place)
