import errno
import shutil

import pytest

from dptransfer.data import atomic_files as on_disk
from dptransfer.data import resumable as drafts
from dptransfer.data.atomic_files import claim
from dptransfer.data.resumable import (
    draft_folder,
    finish_placing,
    kept_on_disk,
    place_draft,
    remove_draft,
    require_seen,
    written_whole,
)
from dptransfer.errors import DataError


def test_the_same_request_goes_on_and_another_is_refused_or_begins_anew(tmp_path):
    folder, key = draft_folder(tmp_path / "a", {"rows": 1}, restart=False)
    (folder / "part").write_text("done")
    assert draft_folder(tmp_path / "a", {"rows": 1}, restart=False) == (folder, key)
    assert (folder / "part").exists()
    with pytest.raises(DataError, match="another unfinished job"):
        draft_folder(tmp_path / "a", {"rows": 2}, restart=False)
    _, other = draft_folder(tmp_path / "a", {"rows": 2}, restart=True)
    assert other != key
    assert not (folder / "part").exists()


def test_a_draft_is_the_owners_alone_and_loses_what_a_killed_run_was_writing(tmp_path):
    folder, _ = draft_folder(tmp_path / "a", {}, restart=False)
    (folder / ".rows.npy.0123.writing").touch()
    draft_folder(tmp_path / "a", {}, restart=False)
    assert [path.name for path in folder.iterdir()] == ["job.json"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "job.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("torn", [b"", b'{"key": "0123', b"[]", b"null", b"{}"])
def test_a_job_whose_marker_is_torn_has_not_begun(tmp_path, torn):
    folder, key = draft_folder(tmp_path / "a", {"rows": 1}, restart=False)
    (folder / "rows.bin").write_text("of nobody knows what")
    (folder / "job.json").write_bytes(torn)
    assert draft_folder(tmp_path / "a", {"rows": 1}, restart=False) == (folder, key)
    assert [path.name for path in tmp_path.rglob("*")] == ["a.partial", "job.json"]


def test_a_disk_without_a_byte_left_leaves_no_job_of_somebody_else(tmp_path, monkeypatch):
    def full(path, content, **how):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(drafts, "write_synced", full)
        with pytest.raises(DataError, match="No space left"):
            draft_folder(tmp_path / "a", {"rows": 1}, restart=False)
    with claim(tmp_path / "a"):
        draft_folder(tmp_path / "a", {"rows": 1}, restart=False)


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_no_draft_is_not_removed(tmp_path, restart):
    (tmp_path / "a.partial").mkdir()
    (tmp_path / "a.partial" / "letter").touch()
    with pytest.raises(DataError, match="something else"):
        draft_folder(tmp_path / "a", {}, restart=restart)
    assert (tmp_path / "a.partial" / "letter").exists()
    shutil.rmtree(tmp_path / "a.partial")
    (tmp_path / "a.partial").touch()
    with pytest.raises(DataError, match="something else"):
        draft_folder(tmp_path / "a", {}, restart=restart)
    assert (tmp_path / "a.partial").is_file()


def test_an_empty_folder_is_taken_for_a_draft(tmp_path):
    (tmp_path / "a.partial").mkdir(mode=0o755)
    folder, _ = draft_folder(tmp_path / "a", {}, restart=False)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_draft_is_removed_for_its_own_request_alone(tmp_path):
    folder, _ = draft_folder(tmp_path / "a", {"rows": 1}, restart=False)
    remove_draft(tmp_path / "a", {"rows": 2})
    assert folder.exists()
    remove_draft(tmp_path / "a", {"rows": 1})
    assert list(tmp_path.iterdir()) == []
    remove_draft(tmp_path / "a")


def test_a_draft_that_was_being_removed_when_its_process_died_is_no_draft_any_more(tmp_path, monkeypatch):
    folder, _ = draft_folder(tmp_path / "a", {}, restart=False)
    (folder / "rows.bin").touch()
    removals = []
    with monkeypatch.context() as killed:  # before anything in it is gone
        killed.setattr(on_disk, "remove", lambda path: removals.append(path.exists()))
        remove_draft(tmp_path / "a")
    assert removals == [False, True]
    assert not folder.exists()
    with claim(tmp_path / "a"):
        assert [path.name for path in tmp_path.iterdir()] == [".a.dptransfer.lock"]


def test_a_file_has_its_name_when_it_is_whole_and_not_before(tmp_path):
    with written_whole(tmp_path / "a") as stream:
        stream.write(b"all")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"all"
    with pytest.raises(TypeError), written_whole(tmp_path / "b") as stream:
        stream.write("no bytes")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_finished_draft_takes_its_place_without_its_marker(tmp_path):
    folder, _ = draft_folder(tmp_path / "a", {}, restart=False)
    (folder / "part").touch()
    place_draft(folder, tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "part"]


def test_the_rows_of_a_draft_go_with_its_marker_though_its_process_died_in_between(tmp_path):
    folder, _ = draft_folder(tmp_path / "a", {}, restart=False)
    draft_folder(tmp_path / "a.rows", {}, restart=False)
    folder.rename(tmp_path / "a")  # and killed
    finish_placing(tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]
    draft_folder(tmp_path / "a.rows", {}, restart=False)  # what is in no draft's name is left alone
    finish_placing(tmp_path / "a")
    assert (tmp_path / "a.rows.partial").exists()


def test_a_full_disk_is_one_sentence_with_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"No space left on device\. Free some space and run again"):
        with kept_on_disk(tmp_path):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path):
    require_seen(tmp_path)
    with pytest.raises(DataError, match="all machines share"):
        require_seen(tmp_path / "elsewhere")
