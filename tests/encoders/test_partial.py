import errno
import os

import numpy as np
import pytest

from dptransfer.encoders import extract as partial
from dptransfer.encoders.extract import PartialRows
from dptransfer.errors import DataError

ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)


def opened(tmp_path, **changes):
    settings = {"count": 10, "dimension": 2, "batch": 4, "restart": False} | changes
    return PartialRows(tmp_path / "a.emb", {"what": "toy"}, **settings)


@pytest.fixture
def half(tmp_path):
    job = opened(tmp_path)
    job.add(0, ROWS[:4], (1,))
    job.add(2, ROWS[8:], ())
    return tmp_path / "a.emb.partial"


def test_finished_batches_are_found_again_in_any_order(half, tmp_path):
    again = opened(tmp_path)
    assert again.finished == {0: (1,), 2: ()}
    again.add(1, ROWS[4:8], (6,))
    assert np.array_equal(again.rows(), ROWS)
    assert again.unreadable() == (1, 6)


def test_a_line_cut_short_by_a_kill_is_forgotten(half, tmp_path):
    journal = half / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-5])
    assert set(opened(tmp_path).finished) == {0}
    assert set(opened(tmp_path).finished) == {0}


def test_rows_that_do_not_match_their_checksum_are_done_again(half, tmp_path):
    data = bytearray((half / "rows.bin").read_bytes())
    data[3] ^= 1
    (half / "rows.bin").write_bytes(data)
    assert set(opened(tmp_path).finished) == {2}


def test_a_folder_without_a_whole_job_is_started_afresh(half, tmp_path):
    (half / "job.json").write_bytes(b"")
    assert opened(tmp_path).finished == {}


def test_a_full_disk_says_so_and_keeps_what_was_finished(half, tmp_path, monkeypatch):
    job = opened(tmp_path)

    def full(*args, **settings):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(partial, "write_synced", full)
    with pytest.raises(DataError, match="No space left on device"):
        job.add(1, ROWS[4:8], ())
    monkeypatch.undo()
    assert set(opened(tmp_path).finished) == {0, 2}


def test_unfinished_rows_are_the_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        opened(tmp_path)
        (folder,) = tmp_path.iterdir()
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
