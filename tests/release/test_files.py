import errno
import io
import os
from pathlib import Path

import pytest

from dptransfer.data import atomic_files as on_disk
from dptransfer.errors import ReleaseError
from dptransfer.release import bundle, read_release, require_target, write_release
from dptransfer.release.bundle import LARGEST_FILE, read_file

from .models import FILES, make_model


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def full_disk(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


FAILURES = {
    "the disk fills up at a file": lambda patch: patch.setattr(os, "fsync", full_disk),
    "the last flush fails": lambda patch: patch.setattr(on_disk, "sync_folder", full_disk),
    "a file cannot be opened": lambda patch: patch.setattr(bundle, "write_synced", full_disk),
    "the rename fails": lambda patch: patch.setattr(on_disk, "put_in_place", full_disk),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_write_leaves_nothing_behind(failure, tmp_path, monkeypatch):
    model = make_model()
    with monkeypatch.context() as patch:
        FAILURES[failure](patch)
        with pytest.raises(ReleaseError, match="No space left"):
            write_release(model, tmp_path / "new" / "parents" / "r")
    assert list(tmp_path.iterdir()) == []
    write_release(model, tmp_path / "new" / "parents" / "r")
    assert [path.name for path in (tmp_path / "new" / "parents").iterdir()] == ["r"]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_overwrite_keeps_the_old_release(failure, tmp_path, monkeypatch):
    path = make_model().save(tmp_path / "r")
    before = contents(path)
    with monkeypatch.context() as patch:
        FAILURES[failure](patch)
        with pytest.raises(ReleaseError):
            make_model(head="euclidean").save(path, overwrite=True)
    assert contents(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_a_failure_between_the_two_renames_puts_the_old_release_back(tmp_path, monkeypatch):
    path = make_model().save(tmp_path / "r")
    before = contents(path)
    rename, renamed = Path.rename, []

    def second_fails(self, target):
        renamed.append(self)
        if len(renamed) == 2:
            full_disk()
        return rename(self, target)

    monkeypatch.setattr(on_disk, "_exchanged", lambda *names: False)  # as where two names cannot be exchanged
    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(ReleaseError):
        make_model(head="euclidean").save(path, overwrite=True)
    assert contents(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_every_file_and_both_directories_are_flushed_to_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    path = make_model().save(tmp_path / "r")
    for entry in (*path.iterdir(), path, tmp_path):
        assert entry.stat().st_ino in flushed
    assert len(flushed) == len(FILES) + 2


def test_an_interrupted_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "write_synced", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_model().save(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_target_is_refused_and_replaced_on_request(tmp_path):
    path = make_model().save(tmp_path / "r")
    before = contents(path)
    with pytest.raises(ReleaseError, match="exists"):
        make_model(head="euclidean").save(path)
    assert contents(path) == before
    make_model(head="euclidean").save(path, overwrite=True)
    assert read_release(path).head.kind == "euclidean"
    assert set(contents(path)) == set(FILES)
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_overwriting_never_deletes_what_is_not_a_release(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "link").symlink_to(tmp_path)
    for target in (tmp_path, tmp_path / "thesis.txt", tmp_path / "link"):
        with pytest.raises(ReleaseError):
            make_model().save(target, overwrite=True)
        with pytest.raises(ReleaseError):
            require_target(target, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    require_target(tmp_path / "free")


def test_links_out_of_the_directory_are_refused_and_links_within_are_read(tmp_path):
    path = make_model().save(tmp_path / "r")
    outside = tmp_path / "outside.safetensors"
    (path / "model.safetensors").rename(outside)
    (path / "model.safetensors").symlink_to(outside)
    with pytest.raises(ReleaseError, match="ordinary files inside"):
        read_release(path)
    (path / "model.safetensors").unlink()
    outside.rename(path / "elsewhere")
    (path / "model.safetensors").symlink_to("elsewhere")
    read_release(path)


@pytest.mark.parametrize("kind", ["loop", "dangling", "pipe"])
def test_links_that_lead_nowhere_and_pipes_are_refused(kind, tmp_path):
    path = make_model().save(tmp_path / "r")
    card = path / "CARD.md"
    card.unlink()
    if kind == "pipe":
        os.mkfifo(card)
    else:
        card.symlink_to("CARD.md" if kind == "loop" else "nowhere")
    with pytest.raises(ReleaseError):
        read_release(path)


@pytest.mark.parametrize("name", FILES)
def test_an_oversized_file_is_refused_before_it_is_read(name, tmp_path, monkeypatch):
    path = make_model().save(tmp_path / "r")
    os.truncate(path / name, bundle.LARGEST_FILE[name] + 1)  # sparse: it takes no space

    plainly = Path.open

    def opened(self, *args, **options):
        assert self != path / name, "an oversized file was opened"
        return plainly(self, *args, **options)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(ReleaseError, match="at most"):
        read_release(path)


def test_other_users_may_read_a_release_as_the_umask_says(tmp_path):
    old = os.umask(0o022)
    try:
        path = make_model().save(tmp_path / "r")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o755
    assert (path / "release.json").stat().st_mode & 0o777 == 0o644


def test_reading_makes_room_for_the_file_and_not_for_the_largest_one(tmp_path, monkeypatch):
    """A read reserves what it is asked for: 8 GiB, if that is the limit, which `ulimit -v` may forbid."""
    for name in LARGEST_FILE:
        (tmp_path / name).write_bytes(b"0123456789")
    asked = []

    class Counted(io.FileIO):
        def read(self, size=-1):
            asked.append(size)
            return super().read(size)

    monkeypatch.setattr(bundle, "open_file", lambda directory, name: Counted(directory / name))
    for name in LARGEST_FILE:
        assert read_file(tmp_path, name) == b"0123456789"
    assert asked == [11] * len(LARGEST_FILE)


@pytest.mark.parametrize("found", [b"", b"01234", b"01234567890"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, found):
    (tmp_path / "CARD.md").write_bytes(b"0123456789")

    class Changing(io.BytesIO):
        def fileno(self):
            return descriptor

    with (tmp_path / "CARD.md").open("rb") as file:
        descriptor = file.fileno()
        monkeypatch.setattr(bundle, "open_file", lambda directory, name: Changing(found))
        with pytest.raises(ReleaseError, match="stay as it is"):
            read_file(tmp_path, "CARD.md")
