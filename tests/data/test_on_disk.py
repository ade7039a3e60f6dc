import errno
import os

import pytest

from dptransfer.data import on_disk
from dptransfer.data.on_disk import replaced_whole, write_synced


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


@pytest.mark.parametrize("failing", [(os, "fsync"), (on_disk, "sync_folder"), (on_disk.Path, "rename")])
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
