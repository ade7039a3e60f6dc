import errno
import os
import sys

import pytest

from dptransfer.data import atomic_files as on_disk
from dptransfer.data.atomic_files import owner_only, put_in_place, replaced_whole, write_synced, write_whole


def full_disk(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


def put(target, content):
    with replaced_whole(target) as folder:
        write_synced(folder / "a", content)


def test_a_folder_is_there_whole_and_replaced_whole(tmp_path):
    put(tmp_path / "new" / "f", b"one")
    put(tmp_path / "new" / "f", b"two")
    assert (tmp_path / "new" / "f" / "a").read_bytes() == b"two"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["f"]


@pytest.mark.parametrize("failing", [(os, "fsync"), (on_disk, "sync_folder"), (on_disk, "put_in_place")])
def test_what_fails_leaves_the_old_folder_or_nothing(failing, tmp_path, monkeypatch):
    put(tmp_path / "f", b"one")
    with monkeypatch.context() as patch:
        patch.setattr(*failing, full_disk)
        for target in (tmp_path / "f", tmp_path / "new" / "parents" / "f"):
            with pytest.raises(OSError, match="No space left"):
                put(target, b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f" / "a").read_bytes() == b"one"


def test_an_interrupted_block_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), replaced_whole(tmp_path / "f"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over_by_accident(tmp_path):
    write_synced(tmp_path / "a", b"one")
    with pytest.raises(FileExistsError):
        write_synced(tmp_path / "a", b"two")
    write_synced(tmp_path / "a", b"two", mode="ab")
    assert (tmp_path / "a").read_bytes() == b"onetwo"


@pytest.fixture(params=["exchanged", "in two steps"])
def steps(request, monkeypatch):
    """Whether names are exchanged at once, as this machine can or cannot."""
    if request.param == "in two steps":
        monkeypatch.setattr(on_disk, "_exchanged", lambda one, other: False)
    elif sys.platform != "linux":
        pytest.skip("names are exchanged at once on Linux")


@pytest.mark.usefixtures("steps")
def test_a_folder_takes_the_place_of_another_and_nothing_is_left(tmp_path):
    put(tmp_path / "f", b"one")
    put(tmp_path / "f", b"two")
    assert (tmp_path / "f" / "a").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.usefixtures("steps")
def test_a_folder_takes_the_place_of_an_empty_one_and_of_none_that_is_a_file(tmp_path):
    (tmp_path / "f").mkdir()
    put(tmp_path / "f", b"one")
    assert (tmp_path / "f" / "a").read_bytes() == b"one"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it takes two steps")
def test_on_linux_there_is_no_moment_without_either(tmp_path, monkeypatch):
    put(tmp_path / "f", b"one")
    with monkeypatch.context() as patch:
        patch.setattr(on_disk.Path, "rename", full_disk)
        patch.setattr(on_disk.Path, "replace", full_disk)
        put(tmp_path / "f", b"two")
    assert (tmp_path / "f" / "a").read_bytes() == b"two"


def test_where_it_takes_two_steps_a_failure_moves_the_old_folder_back(tmp_path, monkeypatch):
    put(tmp_path / "f", b"one")
    monkeypatch.setattr(on_disk, "_exchanged", lambda one, other: False)
    rename = on_disk.Path.rename

    def failing(path, target):
        if path.name.endswith(".writing"):
            full_disk()
        return rename(path, target)

    monkeypatch.setattr(on_disk.Path, "rename", failing)
    with pytest.raises(OSError, match="No space left"):
        put(tmp_path / "f", b"two")
    assert (tmp_path / "f" / "a").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is asked")
def test_what_the_disk_refuses_is_an_error_and_what_it_does_not_know_takes_two_steps(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    with pytest.raises(FileNotFoundError):
        on_disk._exchanged(tmp_path / "a", tmp_path / "none")
    for code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        monkeypatch.setattr("ctypes.get_errno", lambda code=code: code)
        assert not on_disk._exchanged(tmp_path / "a", tmp_path / "none")


def test_a_file_is_there_whole_and_replaced_when_asked(tmp_path):
    write_whole(tmp_path / "a", b"one", opener=owner_only)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    write_whole(tmp_path / "a", b"two", overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"two"
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "link", b"three")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link"]


def test_a_file_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "new" / "a", b"one")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_given_on_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(on_disk, "sync_folder", flushed.append)
    (tmp_path / "fresh").touch()
    put_in_place(tmp_path / "fresh", tmp_path / "a")
    assert flushed == [tmp_path]
