import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from dptransfer.data import atomic_files
from dptransfer.data.atomic_files import (
    claim,
    draft_folder,
    finish_placing,
    kept_on_disk,
    make_owner_folder,
    others_may_look,
    owner_only,
    place_draft,
    remove_draft,
    replaced_whole,
    require_seen,
    unfinished_name,
    write_synced,
    write_whole,
    written_whole,
)
from dptransfer.errors import DataError

HOLDING = """
import sys
from pathlib import Path
from dptransfer.data.atomic_files import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
posix = pytest.mark.skipif(os.name != "posix", reason="modes and locks are those of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def beside(out, ending):
    return out.with_name(f".{out.name}.dptransfer.{ending}")


def full_disk(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


def put(target, content):
    with replaced_whole(target) as folder:
        write_synced(folder / "a", content)


def claimed(out):
    with claim(out):
        pass


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
    beside(tmp_path / "out", "old").write_text("former")
    with pytest.raises(DataError, match="One process"):
        claimed(tmp_path / "out")
    assert unfinished_name(tmp_path / "out").read_text() == "half"
    assert beside(tmp_path / "out", "old").read_text() == "former"
    claimed(tmp_path / "other")
    holder.communicate("")
    with claim(tmp_path / "out"):
        assert not unfinished_name(tmp_path / "out").exists()


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    claimed(tmp_path / "out")
    assert names(tmp_path) == []


def test_a_claim_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for left in (unfinished_name(out), beside(out, "old")):
        left.mkdir()
        (left / "rows").touch()
    others = [".other.dptransfer.writing", ".out.writing", "out.partial"]
    for name in others:
        (tmp_path / name).touch()
    with claim(out):
        assert not unfinished_name(out).exists()
    assert names(tmp_path) == sorted(["out", *others])
    assert names(out) == []


def test_what_was_moved_aside_when_a_process_was_killed_is_moved_back(tmp_path):
    beside(tmp_path / "out", "old").mkdir()
    (beside(tmp_path / "out", "old") / "rows").touch()
    claimed(tmp_path / "out")
    assert (tmp_path / "out" / "rows").exists()


def test_who_has_the_claim_may_claim_again_by_whatever_name_and_another_thread_may_not(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    out, refused = tmp_path / "a" / "out", []

    def other():
        with pytest.raises(DataError, match="One process"):
            claimed(out)
        refused.append(True)

    with claim(out):
        with claim(tmp_path / "link" / "out"):
            unfinished_name(out).touch()
        with claim(out):
            assert unfinished_name(out).exists()  # it is of whoever has the claim
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert refused == [True]
    with claim(out):
        assert not unfinished_name(out).exists()


def test_folders_above_are_made_and_go_again_where_nothing_was_written(tmp_path):
    with claim(tmp_path / "new" / "parents" / "out"):
        assert (tmp_path / "new" / "parents").is_dir()
    assert names(tmp_path) == []
    with pytest.raises(KeyboardInterrupt), claim(tmp_path / "new" / "out"):
        raise KeyboardInterrupt
    assert names(tmp_path) == []
    with claim(tmp_path / "new" / "parents" / "out"):
        (tmp_path / "new" / "kept").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "kept"]


def test_a_lock_that_its_holder_has_just_removed_is_no_claim(tmp_path, monkeypatch):
    lock, tried = atomic_files.try_lock, []

    def removed_at_first(handle):
        tried.append(lock(handle))
        if len(tried) == 1:
            (tmp_path / ".out.dptransfer.lock").unlink()
        return tried[-1]

    monkeypatch.setattr(atomic_files, "try_lock", removed_at_first)
    with claim(tmp_path / "out"):
        assert (tmp_path / ".out.dptransfer.lock").exists()
    assert tried == [True, True]


@pytest.mark.parametrize("out", ["file/out", ".", "a/.."])
def test_a_place_that_cannot_be_written_or_has_no_name_is_an_error_in_words(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="written"):
        claimed(atomic_files.Path(out))
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="a system without such a flag")
def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    there = tmp_path / "other"
    (tmp_path / ".out.dptransfer.lock").symlink_to(there)
    with pytest.raises(DataError, match="written"):
        claimed(tmp_path / "out")
    assert not there.exists()


@posix
@pytest.mark.parametrize(
    ("code", "free"), [(errno.EWOULDBLOCK, False), (errno.ENOSYS, True), (errno.ENOLCK, True)]
)
def test_a_disk_that_knows_no_locks_lets_everybody_in(tmp_path, monkeypatch, code, free):
    def refusing(handle, how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refusing)
    with open(tmp_path / "file", "w") as file:
        assert atomic_files.try_lock(file.fileno()) is free


@pytest.mark.parametrize(
    "failing", [(os, "fsync"), (atomic_files, "sync_folder"), (atomic_files, "put_in_place")]
)
def test_what_fails_leaves_the_old_folder_or_nothing(failing, tmp_path, monkeypatch):
    put(tmp_path / "f", b"one")
    with monkeypatch.context() as patch:
        patch.setattr(*failing, full_disk)
        for target in (tmp_path / "f", tmp_path / "new" / "parents" / "f"):
            with pytest.raises(OSError, match="No space"):
                put(target, b"two")
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f" / "a").read_bytes() == b"one"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_another_whole_and_nothing_is_left(tmp_path, monkeypatch, at_once):
    """Whether names are exchanged at once, as this machine can or cannot."""
    if not at_once:
        monkeypatch.setattr(atomic_files, "_exchanged", lambda one, other: False)
    elif sys.platform != "linux":
        pytest.skip("names are exchanged at once on Linux")
    (tmp_path / "f").mkdir()
    for content in (b"one", b"two"):
        put(tmp_path / "f", content)
        put(tmp_path / "new" / "f", content)
        assert (tmp_path / "f" / "a").read_bytes() == (tmp_path / "new" / "f" / "a").read_bytes() == content
        assert names(tmp_path) == ["f", "new"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it takes two steps")
def test_on_linux_there_is_no_moment_without_either(tmp_path, monkeypatch):
    put(tmp_path / "f", b"one")
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.Path, "rename", full_disk)
        patch.setattr(atomic_files.Path, "replace", full_disk)
        put(tmp_path / "f", b"two")
    assert (tmp_path / "f" / "a").read_bytes() == b"two"


def test_where_it_takes_two_steps_a_failure_moves_the_old_folder_back(tmp_path, monkeypatch):
    put(tmp_path / "f", b"one")
    monkeypatch.setattr(atomic_files, "_exchanged", lambda one, other: False)
    rename = atomic_files.Path.rename

    def failing(path, target):
        return full_disk() if path.name.endswith(".writing") else rename(path, target)

    monkeypatch.setattr(atomic_files.Path, "rename", failing)
    with pytest.raises(OSError, match="No space"):
        put(tmp_path / "f", b"two")
    assert (tmp_path / "f" / "a").read_bytes() == b"one"
    assert names(tmp_path) == ["f"]


def test_a_file_is_there_whole_and_replaced_when_asked(tmp_path):
    write_whole(tmp_path / "a", b"one", opener=owner_only)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("a", "link"):
        with pytest.raises(FileExistsError):
            write_whole(tmp_path / name, b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    write_whole(tmp_path / "a", b"two", overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"two"
    assert names(tmp_path) == ["a", "link"]


@contextmanager
def umask(mode):
    before = os.umask(mode)
    try:
        yield
    finally:
        os.umask(before)


@posix
@pytest.mark.parametrize("mode", [0, 0o077])
def test_what_is_made_is_the_owners_alone_whatever_the_umask(tmp_path, mode):
    folder = tmp_path / "folder"
    with umask(mode):
        make_owner_folder(folder)
        with open(folder / "file", "w", opener=owner_only):
            assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o600  # already, while it is empty
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        make_owner_folder(folder)
    for open_mode, open_to_others in ((0o700, False), (0o750, True), (0o701, True)):
        folder.chmod(open_mode)
        assert others_may_look(folder) is open_to_others


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
