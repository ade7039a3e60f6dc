import errno

import pytest

from dptransfer.data import atomic_files
from dptransfer.data.atomic_files import (
    claim,
    draft_folder,
    finish_placing,
    kept_on_disk,
    place_draft,
    remove_draft,
    require_seen,
    written_whole,
)
from dptransfer.errors import DataError


def draft(out, rows=1, *, restart=False):
    return draft_folder(out, {"rows": rows}, restart=restart)


def everything(folder):
    return [path.name for path in folder.rglob("*")]


def test_the_same_request_goes_on_and_another_is_refused_or_begins_anew(tmp_path):
    folder, key = draft(tmp_path / "a")
    (folder / "part").write_text("done")
    (folder / ".rows.npy.0123.writing").touch()  # by a run that was killed
    assert draft(tmp_path / "a") == (folder, key)
    assert sorted(everything(folder)) == ["job.json", "part"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "job.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(DataError, match="another unfinished job"):
        draft(tmp_path / "a", 2)
    _, other = draft(tmp_path / "a", 2, restart=True)
    assert other != key
    assert not (folder / "part").exists()


@pytest.mark.parametrize("torn", [b"", b'{"key": "0123', b"[]"])
def test_a_job_whose_marker_is_torn_has_not_begun(tmp_path, torn):
    folder, key = draft(tmp_path / "a")
    (folder / "rows.bin").write_text("of nobody knows what")
    (folder / "job.json").write_bytes(torn)
    assert draft(tmp_path / "a") == (folder, key)
    assert everything(tmp_path) == ["a.partial", "job.json"]


def test_a_disk_without_a_byte_left_leaves_no_job_of_somebody_else(tmp_path, monkeypatch):
    def full(path, content, **how):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "write_synced", full)
        with pytest.raises(DataError, match="No space left"):
            draft(tmp_path / "a")
    with claim(tmp_path / "a"):
        draft(tmp_path / "a")


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_no_draft_is_not_removed_and_an_empty_folder_is_one(tmp_path, restart):
    (tmp_path / "a.partial").mkdir()
    (tmp_path / "a.partial" / "letter").touch()
    (tmp_path / "b.partial").touch()
    for name in ("a", "b"):
        with pytest.raises(DataError, match="something else"):
            draft(tmp_path / name, restart=restart)
    assert (tmp_path / "a.partial" / "letter").exists()
    assert (tmp_path / "b.partial").is_file()
    (tmp_path / "c.partial").mkdir(mode=0o755)
    assert draft(tmp_path / "c", restart=restart)[0].stat().st_mode & 0o777 == 0o700


def test_a_draft_that_was_being_removed_when_its_process_died_is_no_draft_any_more(tmp_path, monkeypatch):
    folder, _ = draft(tmp_path / "a")
    (folder / "rows.bin").touch()
    removals = []
    with monkeypatch.context() as killed:  # before anything in it is gone
        killed.setattr(atomic_files, "remove", lambda path: removals.append(path.exists()))
        remove_draft(tmp_path / "a")
    assert removals == [False, True]
    assert not folder.exists()
    with claim(tmp_path / "a"):
        assert everything(tmp_path) == [".a.dptransfer.lock"]


def test_a_file_has_its_name_when_it_is_whole_and_not_before(tmp_path):
    with written_whole(tmp_path / "a") as stream:
        stream.write(b"all")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"all"
    with pytest.raises(TypeError), written_whole(tmp_path / "b") as stream:
        stream.write("no bytes")
    assert everything(tmp_path) == ["a"]


def test_a_finished_draft_takes_its_place_without_its_marker(tmp_path):
    folder, _ = draft(tmp_path / "a")
    (folder / "part").touch()
    place_draft(folder, tmp_path / "a")
    assert everything(tmp_path) == ["a", "part"]


def test_the_rows_of_a_draft_go_with_its_marker_though_its_process_died_in_between(tmp_path):
    folder, _ = draft(tmp_path / "a")
    draft(tmp_path / "a.rows")
    folder.rename(tmp_path / "a")  # and killed
    finish_placing(tmp_path / "a")
    assert everything(tmp_path) == ["a"]
    draft(tmp_path / "a.rows")  # what is in no draft's name is left alone
    finish_placing(tmp_path / "a")
    assert (tmp_path / "a.rows.partial").exists()


def test_a_full_disk_and_a_worker_that_does_not_see_the_folder_are_said_in_words(tmp_path):
    with pytest.raises(DataError, match="No space left"), kept_on_disk(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    require_seen(tmp_path)
    with pytest.raises(DataError, match="machines share"):
        require_seen(tmp_path / "elsewhere")
