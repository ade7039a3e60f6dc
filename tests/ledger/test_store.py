import json
import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dptransfer.errors import LedgerError, LedgerTampered
from dptransfer.ledger import Ledger, store
from dptransfer.ledger import store as schema
from dptransfer.ledger.row_key import key_path
from dptransfer.ledger.store import Store

from .behind_its_back import edit, query
from .samples import GAUSS


def test_the_file_and_its_folders_are_made_for_the_owner_only(tmp_path):
    path = tmp_path / "new" / "folder" / "ledger.sqlite"
    Ledger(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_each_ledger_has_its_own_random_key_and_so_its_own_ids(tmp_path):
    ledgers = [Ledger(tmp_path / "one"), Ledger(tmp_path / "two")]
    keys = [
        bytes.fromhex(query(one.path, "SELECT value FROM meta WHERE name = 'key'")[0][0]) for one in ledgers
    ]
    assert [len(key) for key in keys] == [32, 32]
    secrets = [bytes.fromhex(key_path(one.path).read_text()) for one in ledgers]
    secrets += [Ledger.in_memory()._store.key for _ in range(2)]
    assert [len(key) for key in secrets] == [32] * 4
    assert len({*keys, *secrets}) == 6
    ids = {one.charge("clinic-a", [GAUSS], label="fit").dataset for one in ledgers}
    assert len(ids) == 2


def test_a_newer_schema_is_refused_with_the_advice_to_upgrade(path):
    edit(path, "UPDATE meta SET value = '2' WHERE name = 'schema'")
    with pytest.raises(LedgerError, match="Upgrade dptransfer") as caught:
        Ledger(path)
    assert not isinstance(caught.value, LedgerTampered)


def test_files_that_are_not_ledgers_are_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("dear diary " * 200)
    other = tmp_path / "other.sqlite"
    twin = tmp_path / "twin.sqlite"
    edit(other, "CREATE TABLE patients (name TEXT)")
    edit(twin, "CREATE TABLE meta (k TEXT)", "CREATE TABLE entries (n TEXT)")
    for path in (text, other, twin):
        before = path.read_bytes()
        with pytest.raises(LedgerError, match=f"the ledger {path}"):
            Ledger(path)
        assert path.read_bytes() == before
    with pytest.raises(LedgerError, match="unable to open"):
        Ledger(tmp_path)
    with pytest.raises(LedgerError, match="notes"):
        Ledger(text / "ledger.sqlite")


def altered_connections(monkeypatch, *, mode="rw", pragma=None):
    real = sqlite3.connect

    def connect(address, **options):
        connection = real(address.replace("mode=rw", f"mode={mode}"), **options)
        if pragma:
            connection.execute(pragma)
        return connection

    monkeypatch.setattr(store.sqlite3, "connect", connect)


def test_a_read_only_ledger_can_be_read_and_not_charged(path, monkeypatch):
    ledger = Ledger(path)
    head = ledger.head
    with monkeypatch.context() as patch:
        altered_connections(patch, mode="ro")
        assert len(Ledger(path).history()) == 4
        with pytest.raises(LedgerError, match=f"{path}.*readonly"):
            ledger.charge("clinic-a", [GAUSS], label="fit")
    assert ledger.head == head
    ledger.charge("clinic-a", [GAUSS], label="fit")


def charge_many_times(ledger):
    for _ in range(200):
        ledger.charge("clinic-b", [GAUSS] * 10, label="fit")


def test_a_full_disk_means_no_charge(path, monkeypatch):
    ledger = Ledger(path)
    head = ledger.head
    with monkeypatch.context() as patch:
        altered_connections(patch, pragma="PRAGMA max_page_count = 1")  # the pages there are, and no more
        with pytest.raises(LedgerError, match="disk is full"):
            charge_many_times(ledger)
    grown = len(ledger.history()) - 4
    ledger.verify(known_head=head)
    ledger.charge("clinic-b", [GAUSS], label="fit")
    assert len(ledger.history()) == 4 + grown + 1


def test_a_schema_that_is_no_text_is_tampering(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"CREATE TRIGGER") + 3] = 0x9F
    path.write_bytes(content)
    with pytest.raises(LedgerTampered, match="no text"):
        Ledger(path)


def test_a_ledger_held_by_someone_else_is_reported_as_busy(path, monkeypatch):
    ledger = Ledger(path)
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="Another process"):
            ledger.charge("clinic-a", [GAUSS], label="fit")
    ledger.charge("clinic-a", [GAUSS], label="fit")


def test_a_ledger_that_vanished_is_an_error_and_not_a_fresh_start(path):
    ledger = Ledger(path)
    path.unlink()
    with pytest.raises(LedgerError, match="unable to open"):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    assert not path.exists()


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_an_error_inside_a_transaction_undoes_its_entries(tmp_path, kind):
    one = Store(tmp_path / "ledger" if kind == "file" else None)

    def interrupted():
        with one.transaction(write=True) as chain:
            chain.append({"n": 1})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with one.transaction(write=True) as chain:
        assert chain.rows == []
        chain.append({"n": 2})
    with one.transaction() as chain:
        assert [json.loads(row.body) for row in chain.rows] == [{"n": 2}]


def test_an_in_memory_ledger_is_refused_in_a_child_process(monkeypatch):
    ledger = Ledger.in_memory()
    ledger.charge("clinic-a", [GAUSS], label="fit")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="could overspend"):
        ledger.charge("clinic-a", [GAUSS], label="fit")


def test_threads_share_one_ledger_without_losing_a_charge(ledger):
    def work():
        for _ in range(5):
            ledger.charge("clinic-a", [GAUSS], label="thread")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.history()) == 30
    ledger.verify()


@pytest.mark.parametrize("left", [b"", bytes(511)])
@pytest.mark.parametrize("journal", [False, True])
def test_an_emptied_ledger_is_damage_and_stays_as_it_is(path, left, journal):
    opened = Ledger(path)
    path.write_bytes(left)
    beside = Path(f"{path}-journal")
    if journal:
        beside.write_bytes(b"what could still restore it")
    for use in (
        lambda: Ledger(path),
        lambda: opened.charge("clinic-a", [GAUSS], label="fit"),
        opened.datasets,
    ):
        with pytest.raises(LedgerTampered, match="never empty"):
            use()
    assert path.read_bytes() == left
    assert beside.exists() is journal


def test_a_file_without_tables_or_without_a_header_is_no_new_ledger(path):
    zeros = path.with_name("zeros")
    zeros.write_bytes(bytes(8192))
    bare = path.with_name("bare")
    with sqlite3.connect(bare) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("DROP TABLE t")
    connection.close()
    for file, said in ((zeros, "not an SQLite file. Restore it"), (bare, "its tables are gone")):
        before = file.read_bytes()
        with pytest.raises(LedgerError, match=said):
            Ledger(file)
        assert file.read_bytes() == before


def test_a_ledger_is_made_in_one_move(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    with monkeypatch.context() as patch:
        patch.setattr(schema.secrets, "token_bytes", lambda size=32: 1 / 0)  # in the middle of making it
        with pytest.raises(ZeroDivisionError):
            Ledger(path)
    assert list(tmp_path.iterdir()) == []
    ledger = Ledger(path)
    assert sorted(tmp_path.iterdir()) == [path, key_path(path)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (ledger.is_new, Ledger(path).is_new, Ledger.in_memory().is_new) == (True, False, False)


@pytest.mark.parametrize("links", [True, False])
def test_a_ledger_that_another_process_made_first_is_not_replaced(tmp_path, monkeypatch, links):
    path = tmp_path / "ledger"
    real = os.link

    def link(draft, place):
        if place == path and not path.exists():
            monkeypatch.setattr(os, "link", real)
            Ledger(path).charge("clinic-a", [GAUSS], label="fit")
            monkeypatch.setattr(os, "link", link)
        if not links:
            raise PermissionError
        real(draft, place)

    monkeypatch.setattr(os, "link", link)
    ledger = Ledger(path)
    assert not ledger.is_new
    assert [one.dataset.name for one in ledger.datasets()] == ["clinic-a"]


@pytest.mark.parametrize("end", ["-journal", "-wal"])
def test_no_new_ledger_is_made_beside_what_is_left_of_another(path, end):
    Path(f"{path}{end}").write_bytes(b"pages")
    path.unlink()
    with pytest.raises(LedgerTampered, match=f"{end} is there"):
        Ledger(path)
    assert not path.exists()


def test_a_new_ledger_is_announced_once(tmp_path, caplog):
    path = tmp_path / "typo.sqlite"
    Ledger(path)
    Ledger(path)
    Ledger.in_memory()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"Created a new ledger: {path.resolve()} (it has no entries yet)")
    ]


def test_a_damaged_page_is_tampering(path):
    content = bytearray(path.read_bytes())
    root = query(path, "SELECT rootpage FROM sqlite_master WHERE name = 'entries'")[0][0]
    size = int.from_bytes(content[16:18], "big")
    content[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(content)
    with pytest.raises(LedgerTampered, match="malformed"):
        Ledger(path)
