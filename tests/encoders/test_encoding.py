import errno
from pathlib import Path

import pytest

from dptransfer.encoders.encoding import note_problems, refuse_problems, same_place
from dptransfer.errors import DataError


def test_names_go_to_a_file_for_the_owners_eyes_and_not_into_the_message(tmp_path):
    with pytest.raises(DataError) as refusal:
        refuse_problems(["Jane Doe.png", "b\nc.png", "\udcff.png"], tmp_path / "p.emb", remedy="Repair them.")
    file = tmp_path / "p.emb.problems.txt"
    assert str(refusal.value) == (
        f"Images must be readable; some are not. Their names are in '{file}', for the owner's eyes. "
        "Repair them."
    )
    assert file.read_bytes() == b"Jane Doe.png\n'b\\nc.png'\n\xff.png\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_list_that_others_could_read_is_made_anew(tmp_path):
    file = tmp_path / "photos.problems.txt"
    file.write_text("old")
    file.chmod(0o644)
    assert note_problems(["new"], tmp_path / "photos") == file
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new\n", 0o600)


def test_without_problems_nothing_is_said_and_an_old_list_goes(tmp_path):
    (tmp_path / "p.emb.problems.txt").write_text("old")
    refuse_problems([], tmp_path / "p.emb", remedy="")
    assert list(tmp_path.iterdir()) == []
    refuse_problems([], tmp_path / "p.emb", remedy="")


def test_a_place_that_cannot_be_written_is_an_error_without_names(tmp_path):
    with pytest.raises(DataError, match="failed") as refusal:
        refuse_problems(["Jane Doe.png"], tmp_path / "missing" / "p.emb", remedy="")
    assert "Jane" not in str(refusal.value)


def test_one_place_holds_another_by_whatever_name(tmp_path):
    inner = tmp_path / "photos" / "cat"
    inner.mkdir(parents=True)
    (tmp_path / "photos.csv").touch()
    (tmp_path / "photos 2").mkdir()
    (tmp_path / "link").symlink_to(inner)
    photos = tmp_path / "photos"
    for one, other in (
        (photos, inner),
        (photos, tmp_path / "link"),
        (tmp_path, tmp_path / "photos.csv"),
        (photos, inner / ".."),
    ):
        assert same_place(one, other)
        assert same_place(other, one)
    for other in (tmp_path / "photos 2", tmp_path / "photos.csv", photos / "none"):
        assert not same_place(photos, other)


def test_on_a_disk_that_cannot_be_written_no_list_is_missed_where_nothing_is_to_be_listed(
    tmp_path, monkeypatch
):
    def refuse(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)  # such a disk refuses though there is no file
        assert note_problems([], tmp_path / "photos") is None
        with pytest.raises(DataError, match="Read-only"):
            note_problems(["a.png"], tmp_path / "photos")
    assert list(tmp_path.iterdir()) == []
