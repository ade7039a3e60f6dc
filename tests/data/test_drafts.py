import errno

import pytest

from dptransfer.data.drafts import draft_folder, kept_on_disk, put_in_place, require_seen, written_whole
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
    put_in_place(folder, tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "part"]


def test_a_full_disk_is_one_sentence_with_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"No space left on device\. Free some space and run again"):
        with kept_on_disk(tmp_path):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path):
    require_seen(tmp_path)
    with pytest.raises(DataError, match="all machines share"):
        require_seen(tmp_path / "elsewhere")
