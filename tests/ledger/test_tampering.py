import shutil
import sqlite3
from contextlib import closing

import pytest

from dptransfer.errors import LedgerError, LedgerTampered
from dptransfer.ledger import Ledger, store
from dptransfer.ledger.entry import Row, link, seal_tail
from dptransfer.ledger.store import chain_key
from dptransfer.privacy import Budget

from .behind_its_back import copied, edit, query
from .samples import GAUSS


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE number = 2",
        "DELETE FROM entries WHERE number = 4",
        "UPDATE meta SET value = '00' WHERE name = 'key'",
        "DELETE FROM meta WHERE name = 'tail'",
    ],
)
def test_the_database_itself_refuses_to_change_or_delete_entries(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    Ledger(path).verify()
    edit(path, statement)  # without the triggers the same statement goes through, and the chain tells
    with pytest.raises(LedgerTampered):
        Ledger(path)


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE entries SET body = replace(body, '4.0', '9.0') WHERE number = 2"],
        ["UPDATE entries SET hash = replace(hash, 'a', 'b')"],
        ["UPDATE entries SET body = CAST(body AS BLOB) WHERE number = 3"],
        ["UPDATE entries SET body = CAST(x'ff' || body AS TEXT) WHERE number = 3"],
        ["DELETE FROM entries WHERE number = 2"],
        ["DELETE FROM entries WHERE number = 4"],
        ["DELETE FROM entries"],
        [
            "UPDATE entries SET number = 9 WHERE number = 2",
            "UPDATE entries SET number = 2 WHERE number = 3",
            "UPDATE entries SET number = 3 WHERE number = 9",
        ],
        [
            "DELETE FROM entries WHERE number = 4",
            "UPDATE meta SET value = '3:' || (SELECT hash FROM entries WHERE number = 3) "
            "|| substr(value, 67) WHERE name = 'tail'",
        ],
        ["INSERT INTO entries SELECT 5, body, hash FROM entries WHERE number = 4"],
        [("UPDATE meta SET value = ? WHERE name = 'key'", ("00" * 32,))],
        ["UPDATE meta SET value = 'no key' WHERE name = 'key'"],
        [("UPDATE meta SET value = ? WHERE name = 'row_key'", ("00" * 32,))],
        ["DELETE FROM meta WHERE name = 'tail'"],
        ["UPDATE meta SET value = 'one' WHERE name = 'schema'"],
        ["CREATE TRIGGER swallow BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END"],
    ],
)
def test_any_change_behind_its_back_is_noticed_when_opened_and_when_used(path, statements):
    opened = Ledger(path)
    edit(path)
    opened.verify()  # touching the file without changing it is no tampering
    edit(path, *statements)
    for use in (
        lambda: Ledger(path),
        lambda: opened.charge("clinic-a", [GAUSS], label="fit"),
        opened.verify,
        opened.history,
        lambda: opened.set_budget("clinic-a", Budget(epsilon=9.0)),
    ):
        with pytest.raises(LedgerTampered, match="changed outside dptransfer"):
            use()


def test_a_ledger_without_its_append_only_triggers_is_refused(path):
    edit(path, keep_triggers=False)
    with pytest.raises(LedgerTampered, match="triggers"):
        Ledger(path)


def test_an_older_copy_put_back_is_noticed_by_a_running_process_and_by_a_known_head(path, tmp_path):
    shutil.copy(path, tmp_path / "old")
    ledger = Ledger(path)
    head = ledger.charge("clinic-a", [GAUSS], label="fit").head
    ledger.verify(known_head=head)
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(LedgerTampered, match="older copy"):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    fresh = Ledger(path)  # by itself the old file is a perfect ledger
    with pytest.raises(LedgerTampered, match="older copy"):
        fresh.verify(known_head=head)


def test_an_older_copy_that_went_on_by_itself_is_noticed_by_a_running_process(path, tmp_path):
    """It is as long as what was seen, or longer, and a perfect ledger."""
    copied(path, tmp_path / "old")
    ledger = Ledger(path)
    ledger.charge("clinic-a", [GAUSS], label="fit")
    for _ in range(2):
        Ledger(tmp_path / "old").charge("clinic-b", [GAUSS], label="fit")
        shutil.copy(tmp_path / "old", path)
        for use in (lambda: ledger.charge("clinic-a", [GAUSS], label="fit"), ledger.datasets, ledger.verify):
            with pytest.raises(LedgerTampered, match="older copy"):
                use()


def test_another_ledger_in_its_place_is_noticed_before_anything_is_on_record(tmp_path):
    one, two = Ledger(tmp_path / "one"), Ledger(tmp_path / "two")
    assert one.datasets() == []
    copied(two.path, one.path)
    with pytest.raises(LedgerTampered, match="older copy"):
        one.charge("clinic-a", [GAUSS], label="fit")


def test_an_edit_of_what_was_seen_is_noticed_also_where_its_hash_stays(path):
    ledger = Ledger(path)
    ledger.charge("clinic-a", [GAUSS], label="fit")
    edit(path, "UPDATE entries SET body = replace(body, '4.0', '9.0') WHERE number = 2")
    with pytest.raises(LedgerTampered, match="entry 2"):
        ledger.charge("clinic-a", [GAUSS], label="fit")


def test_a_charge_reads_the_whole_chain_once_and_what_is_asked_around_it_only_what_is_new(path, monkeypatch):
    read, plain = [], store._rows_after
    monkeypatch.setattr(
        store, "_rows_after", lambda number, *rest: read.append(number) or plain(number, *rest)
    )
    ledger = Ledger(path)
    ledger.require_room("clinic-a", [GAUSS])
    receipt = ledger.charge("clinic-a", [GAUSS], label="fit")
    ledger.complete(receipt)
    charge, account = ledger.charge_of(receipt.head)
    assert (charge.number, charge.outcome, account.charges) == (5, "released", 3)
    assert read == [0, 4, 4, 0, 5, 6]
    with pytest.raises(LedgerError, match="names none"):
        ledger.charge_of(receipt.head[::-1])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = replace(value, '4:', '3:') WHERE name = 'tail'",
        "INSERT INTO entries SELECT 5, body, hash FROM entries WHERE number = 4",
        "UPDATE meta SET value = 'none' WHERE name = 'tail'",
        None,
    ],
)
def test_what_is_asked_before_a_charge_notices_a_chain_that_does_not_go_on(path, tmp_path, statement):
    ledger = Ledger(path)
    edit(path, "UPDATE entries SET body = replace(body, '4.0', '9.0') WHERE number = 2")
    ledger.require_room("clinic-a", [GAUSS])  # by the entries that this process has verified
    with pytest.raises(LedgerTampered):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    if statement is None:
        copied(Ledger(tmp_path / "another").path, path)
    else:
        edit(path, statement)
    with pytest.raises(LedgerTampered):
        ledger.require_room("clinic-a", [GAUSS])


def forge(path, body):
    """Append an entry whose chain is right and whose content is anything: the key is in the file."""
    key = chain_key(dict(query(path, "SELECT name, value FROM meta")))
    rows = [Row(*row) for row in query(path, "SELECT number, body, hash FROM entries ORDER BY number")]
    row = Row(len(rows) + 1, body, link(key, rows[-1].hash, body))
    tail = seal_tail(key, row.number, row.hash)
    edit(
        path,
        ("INSERT INTO entries VALUES (?, ?, ?)", row),
        ("UPDATE meta SET value = ? WHERE name = 'tail'", (tail,)),
    )


def test_an_unreadable_entry_voids_the_ledger_even_when_the_chain_holds(path):
    body = query(path, "SELECT body FROM entries WHERE number = 4")[0][0]
    forge(path, body)  # the control: the same entry, unchanged, is fine
    ledger = Ledger(path)
    ledger.verify()
    forge(path, body.replace('"noise_multiplier":4.0', '"noise_multiplier":NaN'))
    for use in (ledger.verify, ledger.datasets, lambda: ledger.charge("clinic-b", [GAUSS], label="fit")):
        with pytest.raises(LedgerTampered, match="entry 6 is not"):
            use()
