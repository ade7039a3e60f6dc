"""Ledgers and their keys: damage is noticed or changes nothing; no more is granted than by intact ones."""

import json
import secrets
import sqlite3
from contextlib import closing
from unittest import mock

from dptransfer.errors import DPTransferError
from dptransfer.ledger.entry import Row, head_of, link, seal_tail
from dptransfer.ledger.store import chain_key

from .mutate import damaged, damaged_json
from .target import BrokenPromise, Target, require

HEADER = 100
"""Bytes of an SQLite file's header: page size, versions, counters, text encoding."""


class LedgerFile(Target):
    name = "ledger"

    def write(self, folder):
        from dptransfer.ledger import Ledger
        from dptransfer.privacy import Budget, SelectionEvent

        # Times and process numbers still differ from run to run; a file that fails is kept.
        with mock.patch.object(secrets, "token_bytes", lambda size=32: bytes(range(size))):
            ledger = Ledger(folder / "ledger.sqlite")
        ledger.set_budget("clinic", Budget(epsilon=3, delta=1e-5))
        ledger.complete(ledger.charge("clinic", [_step(5.0)], label="first fit"), "released")
        ledger.set_budget("clinic", Budget(epsilon=1, delta=1e-5), note="lowered")
        selection = SelectionEvent(0.5, _step(1.0).relation, True, "exponential")
        ledger.complete(ledger.charge("lab", [selection], label="selection"), "failed", "disk full")
        ledger.charge("clinic", [_step(20.0)], label="second fit")
        _require_refusal(ledger)
        self._entries = [entry.hash for entry in ledger.history()]

    def damage(self, folder, dice):
        path = folder / "ledger.sqlite"
        kind = dice.random()
        if kind < 0.03:
            key = folder / "ledger.sqlite.key"
            key.write_bytes(damaged(key.read_bytes(), dice))
        elif kind < 0.08:
            content = path.read_bytes()
            path.write_bytes(dice.choice((b"", content[:1], content[:16], content[:HEADER], b"\0" * 4096)))
        elif kind < 0.5:
            content = path.read_bytes()
            start = 0 if dice.random() < 0.3 else dice.randrange(0, len(content), 512)
            length = HEADER if start == 0 else 512
            piece = damaged(content[start : start + length], dice, content)
            path.write_bytes(content[:start] + piece + content[start + length :])
        elif kind < 0.6:
            path.write_bytes(damaged(path.read_bytes(), dice))
        else:
            _edit(path, dice)
        return False

    def use(self, folder, repaired):
        from dptransfer.ledger import Ledger

        ledger = Ledger(folder / "ledger.sqlite")
        kept = [entry.hash for entry in ledger.history()] == self._entries
        require(kept, "a ledger with other entries is accepted")
        ledger.verify()
        ledger.datasets()
        _require_refusal(ledger)


def _step(noise):
    from dptransfer.privacy import GaussianEvent, Relation

    return GaussianEvent(noise, Relation.ADD_REMOVE)


def _require_refusal(ledger):
    """The step fits the budget alone, and the larger one that was lowered; with what is spent it does not."""
    try:
        ledger.charge("clinic", [_step(5.0)], label="one too many")
    except DPTransferError:
        return
    raise BrokenPromise("a damaged ledger grants what the intact one refuses")


def _edit(path, dice):
    """Change the tables with an SQL shell, triggers off and on again; repairs leave one thing undone."""
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("PRAGMA synchronous = OFF")
        triggers = shell.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            shell.execute(f"DROP TRIGGER {name}")
        edits = _remove_rows, _change_body, _foreign_text, _change_meta
        dice.choice(edits)(shell, dice)
        kept = triggers if dice.random() < 0.9 else triggers[1:]
        for _, sql in kept:
            shell.execute(sql)
        if dice.random() < 0.05:
            shell.execute("CREATE TABLE more (a)")


def _remove_rows(shell, dice):
    count = shell.execute("SELECT count(*) FROM entries").fetchone()[0]
    gone = set(dice.sample(range(1, count + 1), dice.choice((1, 1, 2, count))))
    if dice.random() < 0.5:
        gone = set(range(min(gone), count + 1))  # the tail
    shell.executemany("DELETE FROM entries WHERE number = ?", [(number,) for number in gone])
    _repair_in_part(shell, dice)


def _change_body(shell, dice):
    row = dice.choice(_rows(shell))
    body = json.dumps(json.loads(damaged_json(row.body, dice)), sort_keys=True, separators=(",", ":"))
    if dice.random() < 0.5:
        body = row.body.replace('"noise_multiplier":5.0', '"noise_multiplier":500.0')
    if body != row.body:
        shell.execute("UPDATE entries SET body = ? WHERE number = ?", (body, row.number))
    _repair_in_part(shell, dice)


def _foreign_text(shell, dice):
    """Text that is not UTF-8, or no text at all, in any column."""
    columns = ("entries", "body"), ("entries", "hash"), ("meta", "value"), ("meta", "name")
    table, column = dice.choice(columns)
    odd = ("CAST(x'ff' || {0} AS TEXT)", "CAST({0} AS BLOB)", "x'00ff'", "''", "1e999", "CAST(x'00' AS TEXT)")
    new = dice.choice(odd).format(column)
    place = "number" if table == "entries" else "name"
    row = f"SELECT {dice.choice(('min', 'max'))}({place}) FROM {table}"
    shell.execute(f"UPDATE {table} SET {column} = {new} WHERE {place} = ({row})")


def _change_meta(shell, dice):
    name = dice.choice([row[0] for row in shell.execute("SELECT name FROM meta")])
    if dice.random() < 0.3:
        shell.execute("DELETE FROM meta WHERE name = ?", (name,))
    else:
        zeros = "0" * 64
        odd = ("", "0", "99", "-1", "no hex", "\0", "é", "ff" * 32, "1" * 5000, f"0:{zeros}:{zeros}")
        shell.execute("UPDATE meta SET value = ? WHERE name = ?", (dice.choice(odd), name))


def _repair_in_part(shell, dice):
    """Numbers, hashes and the seal as they should be, but for the seal or the key that made them."""
    if dice.random() < 0.3:
        return
    key = chain_key(dict(shell.execute("SELECT name, value FROM meta")))
    seal = dice.random() < 0.5
    if seal:
        key = bytes([key[0] ^ 1]) + key[1:]
    rows = []
    for number, row in enumerate(_rows(shell), start=1):
        rows.append(Row(number, row.body, link(key, head_of(key, rows), row.body)))
    shell.execute("DELETE FROM entries")
    shell.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
    if seal:
        tail = seal_tail(key, len(rows), head_of(key, rows))
        shell.execute("UPDATE meta SET value = ? WHERE name = 'tail'", (tail,))


def _rows(shell):
    return [Row(*row) for row in shell.execute("SELECT number, body, hash FROM entries ORDER BY number")]


def targets():
    return [LedgerFile()]
