"""The secret key: beside the ledger, never in it, and without it nothing is recognised."""

import base64
import json
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data.embeddings import PrivateEmbeddings
from dptransfer.errors import LedgerError, RowsOnRecord
from dptransfer.ledger import Ledger
from dptransfer.ledger.row_key import commitment, key_path, make_key, read_key
from dptransfer.ledger.sketch import KEPT, Sketch, opened_sketch, sealed_sketch
from dptransfer.ledger.store import chain_key
from dptransfer.privacy import Budget

from .behind_its_back import edit, query
from .racers import GRANTED, charge_once
from .samples import GAUSS, Content, sketch_of

posix = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


def rows(seed, count=200):
    return np.random.default_rng(seed).normal(size=(count, 24))


def private(x, name=None):
    return PrivateEmbeddings(x, np.arange(len(x)) % 2, classes=[0, 1], name=name)


def members_told(path, candidates, keys):
    """How many rows somebody with these keys finds in the sketches of this file, each row by itself."""
    bodies = [json.loads(body) for (body,) in query(path, "SELECT body FROM entries")]
    sealed = [body[name] for body in bodies for name in ("sketch", "sources") if name in body]
    assert sealed
    found = []
    for key in keys:
        hashes = set()
        for text in sealed:
            with suppress(ValueError):
                hashes |= set(opened_sketch(text, key).hashes.tolist())
            plain = base64.b64decode(text)[16:]  # as it lies there
            hashes |= set(np.frombuffer(plain, dtype=">u8").tolist())
        rows = (set(sketch_of(candidates[n : n + 1], key).hashes.tolist()) for n in range(len(candidates)))
        found.append(sum(bool(hashes & row) for row in rows))
    return max(found)


def every_key_in(path):
    """All in the file that might serve as a key: values of `meta`, whole or in pieces, and hashes."""
    meta = dict(query(path, "SELECT name, value FROM meta"))
    texts = [piece for value in meta.values() for piece in value.split(":")]
    texts += [value for (value,) in query(path, "SELECT hash FROM entries")]
    found = [bytes.fromhex(text) for text in texts if len(text) == 64] + [bytes(32), chain_key(meta)]
    return [key for key in found if len(key) == 32]


def test_the_ledger_file_alone_tells_no_member_and_with_its_key_every_one(tmp_path):
    x, ledger = rows(0), Ledger(tmp_path / "ledger")
    ledger.charge(private(x, "clinic-a"), [GAUSS], label="fit")
    given = shutil.copy(ledger.path, tmp_path / "for-the-auditor")
    assert len(every_key_in(given)) >= 5
    assert members_told(given, x, every_key_in(given)) == 0
    key = bytes.fromhex(key_path(ledger.path).read_text())
    assert members_told(given, x, [key]) == 200
    assert members_told(given, rows(1), [key]) == 0


def test_the_ledger_file_alone_tells_neither_how_many_rows_there_are_nor_how_many_are_shared(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for name, count in (("few", 3), ("some", 200), ("more", 200), ("many", 2 * KEPT)):
        x = rows(0, count)
        ledger.charge(private(x, name), [GAUSS], label="fit", new_data_set=True)
    texts = [json.loads(body)["sketch"] for (body,) in query(ledger.path, "SELECT body FROM entries")]
    assert len({len(text) for text in texts}) == 1
    words = [set(np.frombuffer(base64.b64decode(text), dtype=">u8").tolist()) for text in texts]
    assert all(not one & other for n, one in enumerate(words) for other in words[:n])
    found = [opened_sketch(text, ledger._store.key) for text in texts]  # so the checks above can fail
    assert [len(one.hashes) for one in found] == [3, 200, 200, KEPT]
    assert found[1] == found[2]


@pytest.mark.parametrize("size", [1, 2, KEPT - 1, KEPT])
def test_a_sketch_is_opened_with_its_key_alone_and_as_it_was(size):
    sketch, key = Sketch(range(5, 5 + size)), b"k" * 32
    text = sealed_sketch(sketch, key)
    assert opened_sketch(text, key) == sketch
    assert sealed_sketch(sketch, key) != text
    assert repr(sketch) == "Sketch()"
    for bad in (text[:-8], text[4:], text + "AAAA", "", "?" + text[1:]):
        with pytest.raises(ValueError, match=r".*"):
            opened_sketch(bad, key)
    with pytest.raises(ValueError, match="ascending"):
        opened_sketch(text, b"l" * 32)
    content = bytearray(base64.b64decode(text))
    content[16 + 8 * size + 3] ^= 1  # the last hash
    if size < KEPT:
        content[-1] ^= 1
        with pytest.raises(ValueError, match="ascending"):
            opened_sketch(base64.b64encode(content).decode(), key)


def test_sketches_are_opened_once_the_key_is_back(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.charge(private(rows(0), "clinic-a"), [GAUSS], label="fit")
    kept = shutil.move(key_path(ledger.path), tmp_path / "kept")
    again = Ledger(ledger.path)
    assert [entry.sketch for entry in again.history()] == [None]
    shutil.move(kept, key_path(ledger.path))
    with pytest.raises(RowsOnRecord):
        again.charge(private(rows(0), "clinic-b"), [GAUSS], label="fit")


def test_the_ledger_file_alone_does_not_tell_which_data_set_it_is(tmp_path):
    import hmac

    ledger = Ledger(tmp_path / "ledger")
    receipt = ledger.charge(Content("ab" * 32), [GAUSS], label="fit")
    text = b"content:" + b"ab" * 32
    assert receipt.dataset not in {
        hmac.digest(key, text, "sha256").hex() for key in every_key_in(ledger.path)
    }
    key = bytes.fromhex(key_path(ledger.path).read_text())
    assert receipt.dataset == hmac.digest(key, text, "sha256").hex()


def test_the_key_is_in_no_byte_of_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.charge(private(rows(0)), [GAUSS], label="fit")
    text = key_path(ledger.path).read_bytes().strip()
    content = ledger.path.read_bytes()
    assert text not in content
    assert bytes.fromhex(text.decode()) not in content
    assert commitment(bytes.fromhex(text.decode())).encode() in content  # so the checks above can fail


@posix
def test_the_key_is_its_owners_alone_from_its_first_byte(tmp_path, monkeypatch):
    modes = []
    real = os.link

    def link(draft, place):
        modes.append(stat.S_IMODE(Path(draft).stat().st_mode))
        real(draft, place)

    monkeypatch.setattr(os, "link", link)
    before = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "ledger")
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]
    assert stat.S_IMODE(key_path(ledger.path).stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize(("mode", "after"), [(0o644, 0o640), (0o604, 0o600), (0o606, 0o600), (0o640, 0o640)])
def test_a_key_that_everybody_can_read_is_closed_and_said(path, mode, after, caplog):
    key_path(path).chmod(mode)
    Ledger(path).charge("clinic-b", [GAUSS], label="fit")
    assert stat.S_IMODE(key_path(path).stat().st_mode) == after
    assert [record.levelname for record in caplog.records] == ["WARNING"] * (mode != after)


@posix
def test_a_key_that_cannot_be_closed_is_said(path, monkeypatch, caplog):
    key_path(path).chmod(0o644)

    def refuse(place, mode):
        raise PermissionError(place)

    monkeypatch.setattr(Path, "chmod", refuse)
    Ledger(path).charge("clinic-b", [GAUSS], label="fit")
    assert "could not" in caplog.text


def without(path):
    key_path(path).unlink()


def of_another(path):
    other = Ledger(path.with_name("other"))
    shutil.copy(key_path(other.path), key_path(path))


def no_key(path):
    key_path(path).write_text("no key at all")


damages = pytest.mark.parametrize("damage", [without, of_another, no_key])


@damages
def test_without_its_own_key_nothing_is_charged_and_everything_is_read(path, damage):
    intact = Ledger(path)
    told = intact.datasets(), intact.history(), intact.head, intact.history("Clinic-A")
    before = path.read_bytes()
    damage(path)
    ledger = Ledger(path)
    assert (ledger.datasets(), ledger.history(), ledger.head, ledger.history("Clinic-A")) == told
    ledger.verify(known_head=told[2])
    assert ledger.find("clinic-b").name == "clinic-b"
    assert ledger.budget_of("CLINIC-A") == Budget(epsilon=5.0, delta=1e-5)
    assert (ledger.budget_of("nobody"), ledger.privacy_spent("nobody"), ledger.history("nobody")) == (
        None,
        None,
        [],
    )
    for refused in (
        lambda: ledger.charge("clinic-a", [GAUSS], label="fit"),
        lambda: ledger.charge("clinic-a", [], label="public alone"),
        lambda: ledger.charge("new", [GAUSS], label="fit"),
        lambda: ledger.charge(private(rows(0), "clinic-a"), [GAUSS], label="fit"),
        lambda: ledger.charge(ledger.find("clinic-a"), [GAUSS], label="fit"),
        lambda: ledger.set_budget("clinic-a", Budget(epsilon=9.0, delta=1e-5)),
        lambda: ledger.set_budget("new", Budget(epsilon=9.0, delta=1e-5)),
        lambda: ledger.history(Content("ab" * 32)),
        lambda: ledger.require_unrelated(rows(0)),
    ):
        with pytest.raises(LedgerError, match="key"):
            refused()
    assert path.read_bytes() == before
    intact.charge("clinic-a", [GAUSS], label="fit")  # whoever had read the key goes on


@damages
def test_a_charge_whose_key_is_lost_meanwhile_can_be_closed(path, damage):
    receipt = Ledger(path).charge("clinic-a", [GAUSS], label="fit")
    damage(path)
    Ledger(path).complete(receipt)


def test_the_commitment_cannot_be_exchanged_with_the_key(path):
    of_another(path)
    other = query(path.with_name("other"), "SELECT value FROM meta WHERE name = 'row_key'")[0][0]
    edit(path, ("UPDATE meta SET value = ? WHERE name = 'row_key'", (other,)))
    with pytest.raises(LedgerError, match="does not follow"):
        Ledger(path)


def test_a_key_without_a_ledger_becomes_that_of_the_next(tmp_path, monkeypatch):
    """As a crash between the two files leaves it."""
    path = tmp_path / "ledger"
    with monkeypatch.context() as patch:
        patch.setattr("dptransfer.ledger.store.initialise", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Ledger(path)
    assert list(tmp_path.iterdir()) == [key_path(path)]
    left = key_path(path).read_text()
    Ledger(path).charge("clinic-a", [GAUSS], label="fit")
    assert key_path(path).read_text() == left
    assert sorted(tmp_path.iterdir()) == [path, key_path(path)]


def test_something_else_in_the_place_of_the_key_is_left_alone(tmp_path):
    path = tmp_path / "ledger"
    key_path(path).write_text("my diary")
    with pytest.raises(LedgerError, match="something else"):
        Ledger(path)
    assert key_path(path).read_text() == "my diary"
    assert not path.exists()


@pytest.mark.parametrize("links", [True, False])
def test_a_key_that_another_process_made_first_is_taken(tmp_path, monkeypatch, links):
    path, real, theirs = tmp_path / "ledger", os.link, "ab" * 32 + "\n"

    def link(draft, place):
        if not Path(place).exists():
            Path(place).write_text(theirs)
        if not links:
            raise PermissionError
        real(draft, place)

    monkeypatch.setattr(os, "link", link)
    assert make_key(path) == b"\xab" * 32
    assert key_path(path).read_text() == theirs
    assert list(tmp_path.iterdir()) == [key_path(path)]


def test_processes_that_make_one_ledger_at_once_share_one_key(tmp_path, processes):
    path, start = tmp_path / "ledger", processes.Barrier(8)
    children = [
        processes.Process(target=charge_once, args=(path, f"clinic-{n % 2}", start)) for n in range(8)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [GRANTED] * 8
    assert [(one.charges) for one in Ledger(path).datasets()] == [4, 4]
    meta = dict(query(path, "SELECT name, value FROM meta"))
    assert commitment(read_key(path, meta["row_key"])) == meta["row_key"]
    assert sorted(tmp_path.iterdir()) == [path, key_path(path)]


def test_drafts_of_killed_processes_go_when_the_key_is_asked_for(tmp_path):
    for left in (".l.sqlite.key-abc", ".l.sqlite.key-def"):
        (tmp_path / left).write_text("half of a")
    (tmp_path / ".other.key-abc").touch()
    key = make_key(tmp_path / "l.sqlite")
    assert {path.name for path in tmp_path.iterdir()} == {"l.sqlite.key", ".other.key-abc"}
    (tmp_path / ".l.sqlite.key-ghi").hardlink_to(tmp_path / "l.sqlite.key")
    assert make_key(tmp_path / "l.sqlite") == key
    assert not (tmp_path / ".l.sqlite.key-ghi").exists()
