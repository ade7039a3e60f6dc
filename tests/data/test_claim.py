import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from dptransfer.data import atomic_files as claims
from dptransfer.data.atomic_files import claim, remove, replaced_name, unfinished_name
from dptransfer.errors import DataError

HOLDING = """
import sys
from pathlib import Path
from dptransfer.data.atomic_files import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the claim on `out`."""
    command = [sys.executable, "-c", HOLDING, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        yield other
        other.kill()


def test_one_process_at_a_time_writes_to_a_place_and_what_it_writes_is_left_alone(tmp_path, holder):
    unfinished_name(tmp_path / "out").write_text("half")
    replaced_name(tmp_path / "out").write_text("former")
    with pytest.raises(DataError, match="One process at a time"), claim(tmp_path / "out"):
        pass
    assert unfinished_name(tmp_path / "out").read_text() == "half"
    assert replaced_name(tmp_path / "out").read_text() == "former"
    with claim(tmp_path / "other"):
        pass
    holder.communicate("")
    with claim(tmp_path / "out"):
        assert not unfinished_name(tmp_path / "out").exists()


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with claim(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_claim_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    out = tmp_path / "out"
    unfinished_name(out).mkdir()
    (unfinished_name(out) / "rows").touch()
    out.mkdir()
    replaced_name(out).mkdir()
    (replaced_name(out) / "rows").touch()
    for name in (".out.writing", ".other.dptransfer.writing", "out.partial"):
        (tmp_path / name).touch()
    with claim(out):
        assert not unfinished_name(out).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".other.dptransfer.writing",
        ".out.writing",
        "out",
        "out.partial",
    ]
    assert list(out.iterdir()) == []


def test_what_was_moved_aside_when_a_process_was_killed_is_moved_back(tmp_path):
    replaced_name(tmp_path / "out").mkdir()
    (replaced_name(tmp_path / "out") / "rows").touch()
    with claim(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "rows").exists()


def test_who_has_the_claim_may_claim_again_by_whatever_name_and_another_thread_may_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    refused = []

    def other():
        with pytest.raises(DataError, match="One process at a time"), claim(tmp_path / "a" / "out"):
            pass
        refused.append(True)

    with claim(tmp_path / "a" / "out"):
        with claim(tmp_path / "link" / "out"):
            unfinished_name(tmp_path / "a" / "out").touch()
        with claim(tmp_path / "a" / "out"):
            assert unfinished_name(tmp_path / "a" / "out").exists()  # it is of whoever has the claim
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert refused == [True]
    with claim(tmp_path / "a" / "out"):
        assert not unfinished_name(tmp_path / "a" / "out").exists()


def test_folders_above_are_made_and_go_again_where_nothing_was_written(tmp_path):
    with claim(tmp_path / "new" / "parents" / "out"):
        assert (tmp_path / "new" / "parents").is_dir()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), claim(tmp_path / "new" / "out"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with claim(tmp_path / "new" / "parents" / "out"):
        (tmp_path / "new" / "kept").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "kept"]


def test_a_lock_that_its_holder_has_just_removed_is_no_claim(tmp_path, monkeypatch):
    lock, tried = claims.try_lock, []

    def removed_at_first(handle):
        tried.append(lock(handle))
        if len(tried) == 1:
            (tmp_path / ".out.dptransfer.lock").unlink()
        return tried[-1]

    monkeypatch.setattr(claims, "try_lock", removed_at_first)
    with claim(tmp_path / "out"):
        assert (tmp_path / ".out.dptransfer.lock").exists()
    assert tried == [True, True]


def test_a_place_that_cannot_be_written_is_an_error_in_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="can be written"), claim(tmp_path / "file" / "out"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("out", [".", "..", "/", "a/.."])
def test_what_has_no_name_of_its_own_is_not_claimed(out):
    with pytest.raises(DataError, match="name"), claim(claims.Path(out)):
        pass


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="a system without such a flag")
@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path, folder):
    there = tmp_path / folder / "other"
    (tmp_path / ".out.dptransfer.lock").symlink_to(there)
    with pytest.raises(DataError, match="written"), claim(tmp_path / "out"):
        pass
    assert not there.exists()


@pytest.mark.skipif(os.name != "posix", reason="the locks of POSIX")
@pytest.mark.parametrize(
    ("code", "free"), [(errno.EWOULDBLOCK, False), (errno.ENOSYS, True), (errno.ENOLCK, True)]
)
def test_a_disk_that_knows_no_locks_lets_everybody_in(tmp_path, monkeypatch, code, free):
    def refusing(handle, how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refusing)
    with open(tmp_path / "file", "w") as file:
        assert claims.try_lock(file.fileno()) is free


def test_what_is_removed_may_be_a_file_a_folder_a_link_or_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").touch()
    for name in ("link", "file", "none"):
        remove(tmp_path / name)
    assert (tmp_path / "folder" / "kept").exists()
    remove(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
