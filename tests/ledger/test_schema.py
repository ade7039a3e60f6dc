import os
import sqlite3
import stat
from pathlib import Path

import pytest

from dptransfer.errors import LedgerError, LedgerTampered
from dptransfer.ledger import Ledger
from dptransfer.ledger import store as schema
from dptransfer.ledger.row_key import key_path

from .samples import GAUSS


@pytest.mark.parametrize("left", [b"", b"S", b"SQLite format 3\0", bytes(511)])
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


def test_a_disk_without_hard_links_will_do(tmp_path, monkeypatch):
    def link(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    assert Ledger(tmp_path / "ledger").is_new
    assert sorted(tmp_path.iterdir()) == [tmp_path / "ledger", key_path(tmp_path / "ledger")]
    assert not Ledger(tmp_path / "ledger").is_new


@pytest.mark.parametrize("end", ["-journal", "-wal"])
def test_no_new_ledger_is_made_beside_what_is_left_of_another(path, end):
    Path(f"{path}{end}").write_bytes(b"pages")
    path.unlink()
    with pytest.raises(LedgerTampered, match=f"{end} is there, the rest of a charge"):
        Ledger(path)
    assert not path.exists()


def test_a_new_ledger_is_announced_once(tmp_path, caplog):
    path = tmp_path / "typo.sqlite"
    Ledger(path)
    Ledger(path)
    Ledger.in_memory()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"A new ledger was made: {path.resolve()} (nothing is on record in it yet)")
    ]
