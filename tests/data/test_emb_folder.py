import errno
import hashlib
import json
import os

import numpy as np
import pytest

from dptransfer.data import EncoderIdentity, PrivateEmbeddings, emb_folder
from dptransfer.data import atomic_files as on_disk
from dptransfer.data.emb_folder import RowMetadata, read_store, write_embeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import read_private

ENCODER = EncoderIdentity("toy", "0" * 64, "none")


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, rows):
    labels = ["cat", "dog"] * 5
    sources = [f"{i}.png" for i in range(10)]
    return write_embeddings(
        tmp_path / "a.emb",
        rows,
        RowMetadata(labels, classes=["cat", "dog", "eel"], encoder=ENCODER, sources=sources, name="zoo"),
    )


def test_what_is_written_is_read_back(folder, rows):
    table = read_store(folder)
    assert np.array_equal(table.rows, rows)
    assert table.rows.dtype == np.float32
    assert table.labels.tolist() == [0, 1] * 5
    assert table.classes == ("cat", "dog", "eel")
    assert (table.encoder, table.name, table.sources[3]) == (ENCODER, "zoo", "3.png")


def test_rows_are_memory_mapped(folder):
    assert isinstance(read_store(folder).rows, np.memmap)


def test_the_recorded_fingerprint_is_the_one_computed_from_memory(folder, rows):
    labels = ["cat", "dog"] * 5
    same = PrivateEmbeddings(rows, labels, classes=["cat", "dog", "eel"])
    other = PrivateEmbeddings(rows, labels[::-1], classes=["cat", "dog", "eel"])
    assert read_private(folder).fingerprint == same.fingerprint != other.fingerprint


def test_many_chunks_and_no_rows_both_survive(tmp_path):
    many = np.arange(3 * 9001, dtype=np.float64).reshape(-1, 3)
    assert np.array_equal(read_store(write_embeddings(tmp_path / "m.emb", many, dtype="float64")).rows, many)
    assert read_store(write_embeddings(tmp_path / "n.emb", np.zeros((0, 3)), RowMetadata([]))).rows.shape == (
        0,
        3,
    )


def test_whole_number_classes_are_kept_as_values(tmp_path):
    path = write_embeddings(tmp_path / "i.emb", np.eye(3), RowMetadata([30, 10, 30], classes=[10, 20, 30]))
    assert read_store(path).labels.tolist() == [30, 10, 30]
    assert read_private(path).labels.tolist() == [2, 0, 2]
    assert read_private(path, classes=[30, 20, 10]).labels.tolist() == [0, 2, 0]


def test_an_existing_folder_is_kept_unless_overwriting_is_asked_for(folder, rows):
    with pytest.raises(DataError, match="overwrite=True"):
        write_embeddings(folder, rows[:2])
    assert len(read_store(folder).rows) == 10
    write_embeddings(folder, rows[:2], overwrite=True)
    assert len(read_store(folder).rows) == 2
    assert [path.name for path in folder.parent.iterdir()] == ["a.emb"]


def test_a_link_is_not_overwritten(folder, rows):
    """The rows behind it would stay where they are, and their owner would think that they are gone."""
    link = folder.with_name("link.emb")
    link.symlink_to(folder)
    with pytest.raises(DataError, match="is a link"):
        write_embeddings(link, rows, overwrite=True)
    assert sorted(folder.parent.iterdir()) == [folder, link]
    assert link.is_symlink()


def test_a_folder_that_is_not_ours_is_never_overwritten(tmp_path, rows):
    (tmp_path / "b.emb").mkdir()
    (tmp_path / "b.emb" / "thesis.tex").touch()
    with pytest.raises(DataError, match="may be overwritten"):
        write_embeddings(tmp_path / "b.emb", rows, overwrite=True)
    assert (tmp_path / "b.emb" / "thesis.tex").exists()


@pytest.mark.parametrize("step", ["_write_array", "write_synced"])
def test_a_full_disk_leaves_the_old_folder_and_nothing_else(folder, rows, monkeypatch, step):
    def full(*args, **settings):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(emb_folder, step, full)
    with pytest.raises(DataError, match="No space left on device"):
        write_embeddings(folder, rows[:2], overwrite=True)
    monkeypatch.undo()
    assert [path.name for path in folder.parent.iterdir()] == ["a.emb"]
    assert len(read_store(folder).rows) == 10


def test_a_failed_last_step_leaves_the_old_folder(folder, rows, monkeypatch):
    def refuses(fresh, target):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(on_disk, "_exchanged", refuses)
    with pytest.raises(DataError, match="Input/output"):
        write_embeddings(folder, rows[:2], overwrite=True)
    monkeypatch.undo()
    assert [path.name for path in folder.parent.iterdir()] == ["a.emb"]
    assert len(read_store(folder).rows) == 10


def flip_a_byte(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("name", ["rows-00000.npy", "labels.npy", "sources.json"])
def test_a_changed_file_is_found_by_its_checksum(folder, name):
    flip_a_byte(folder / name)
    with pytest.raises(DataError, match="checksum"):
        read_store(folder)


def test_checksums_can_be_skipped(folder):
    flip_a_byte(folder / "rows-00000.npy")
    assert len(read_store(folder, verify=False).rows) == 10


@pytest.mark.parametrize("name", ["rows-00000.npy", "labels.npy", "sources.json", "manifest.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        read_store(folder)


def test_rows_cut_short_are_refused_even_without_checksums(folder):
    data = (folder / "rows-00000.npy").read_bytes()
    (folder / "rows-00000.npy").write_bytes(data[:-8])
    with pytest.raises(DataError, match="cut short"):
        read_store(folder, verify=False)


def test_a_shape_other_than_the_manifest_says_is_refused(folder):
    np.save(folder / "rows-00000.npy", np.zeros((10, 5), np.float32))
    with pytest.raises(DataError, match="shape"):
        read_store(folder, verify=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 4}, "Upgrade dptransfer"),
        ({"version": 0}, "version"),
        ({"dimension": "4"}, "dimension"),
        ({"surprise": 1}, "surprise"),
        ({"files": {"../../etc/passwd": "0"}}, "files"),
    ],
)
def test_a_manifest_of_another_schema_is_refused(folder, change, message):
    file = folder / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=message):
        read_store(folder)


def test_a_manifest_that_is_not_json_is_refused(folder):
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="JSON"):
        read_store(folder)


def test_arguments_that_do_not_fit_are_refused(tmp_path, rows):
    out = tmp_path / "x.emb"
    for bad in (
        lambda: write_embeddings(tmp_path / "x", rows),
        lambda: write_embeddings(out, rows[0]),
        lambda: write_embeddings(out, rows.astype(str)),
        lambda: write_embeddings(out, rows, RowMetadata(["cat"] * 10)),
        lambda: write_embeddings(out, rows, RowMetadata([0])),
        lambda: write_embeddings(out, rows, RowMetadata(["eel"] * 10, classes=["cat", "dog"])),
        lambda: write_embeddings(out, rows, RowMetadata(sources=["a"])),
    ):
        with pytest.raises(DataError):
            bad()
    with pytest.raises(ArgumentError):
        write_embeddings(out, rows, dtype="int8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("public", [False, True])
def test_nobody_else_can_read_private_rows_at_any_moment(tmp_path, rows, monkeypatch, public):
    """The modes are looked at whenever a file has been flushed, and at the end."""
    seen, flush = set(), os.fsync

    def look(descriptor):
        flush(descriptor)
        folders = [path for path in tmp_path.iterdir() if path.is_dir()]
        inside = [path for folder in folders for path in (folder, *folder.iterdir())]
        seen.update(path.stat().st_mode & 0o077 for path in inside)

    monkeypatch.setattr(os, "fsync", look)
    before = os.umask(0)
    try:
        labels = [0] * len(rows)
        write_embeddings(
            tmp_path / "a.emb", rows, RowMetadata(labels, sources=["x"] * len(rows), public=public)
        )
    finally:
        os.umask(before)
    assert seen == ({0o077, 0o066} if public else {0})


def with_checksum(folder, name, content):
    """The folder with another file, and the checksum that goes with it."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': ((9, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (9, 4), }[",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (9, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (10**15, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        b"{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,), }",
        b"(" * 200,
        b"'" * 3,
        b"\xff\x00",
    ],
)
@pytest.mark.parametrize("name", ["rows-00000.npy", "labels.npy"])
def test_a_damaged_header_is_refused_in_words_whatever_numpy_makes_of_it(folder, name, header):
    padded = header + b"\n"
    whole = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(144)
    with_checksum(folder, name, whole)
    with pytest.raises(DataError, match="must be"):
        read_store(folder)


def test_lists_nested_without_end_are_refused(folder):
    with_checksum(folder, "sources.json", b"[" * 100_000)
    with pytest.raises(DataError, match="one source per row"):
        read_store(folder)
    (folder / "manifest.json").write_bytes(b"[" * 100_000)
    with pytest.raises(DataError, match="must be JSON"):
        read_store(folder)


def test_no_row_makes_writing_warn_or_fail_whatever_the_caller_told_numpy(tmp_path):
    signalling = np.full(4, 0x7FF0000000000001, dtype=np.uint64).view(np.float64)
    hard = np.vstack([np.full(4, 1e300), np.full(4, 1e-300), np.full(4, np.nan), signalling])
    with np.errstate(all="raise"):
        written = read_store(write_embeddings(tmp_path / "h.emb", hard, dtype="float32")).rows
    assert np.isfinite(written).all(axis=1).tolist() == [False, True, False, False]


IDS = ["secret-b", "secret-a", None, "secret-b"]


def test_people_are_kept_as_numbers_for_the_owner_alone(tmp_path):
    path = write_embeddings(tmp_path / "p.emb", np.eye(4), RowMetadata([0, 1, 1, 0], people=IDS))
    assert read_store(path).people.tolist() == np.load(path / "people.npy").tolist() == [0, 1, 2, 0]
    assert (path / "people.npy").stat().st_mode & 0o777 == 0o600
    assert not any(b"secret" in file.read_bytes() for file in path.iterdir())
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert manifest["files"]["people.npy"] == hashlib.sha256((path / "people.npy").read_bytes()).hexdigest()


def test_a_folder_without_people_is_what_it_was_before_there_were_any(tmp_path):
    plain = write_embeddings(tmp_path / "a.emb", np.eye(4), RowMetadata([0, 1, 1, 0]))
    whose = write_embeddings(tmp_path / "b.emb", np.eye(4), RowMetadata([0, 1, 1, 0], people=IDS))
    first, second = (json.loads((path / "manifest.json").read_text()) for path in (plain, whose))
    assert (first["version"], read_store(plain).people) == (1, None)
    del second["files"]["people.npy"]
    for name in ("created", "version"):
        del first[name], second[name]
    assert list(first.items()) == list(second.items())  # fingerprints among them: one data set


def test_people_that_do_not_fit_the_rows_are_not_written(tmp_path):
    for people in (IDS[:3], [True] * 4, np.zeros((4, 1))):
        with pytest.raises(DataError, match=r"^people must") as caught:
            write_embeddings(tmp_path / "p.emb", np.eye(4), RowMetadata(people=people))
        assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="nobody's data; people were given"):
        write_embeddings(tmp_path / "p.emb", np.eye(4), RowMetadata(people=IDS, public=True))
    assert not (tmp_path / "p.emb").exists()


@pytest.mark.parametrize(
    "stored", [np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int32), np.zeros((4, 1), int)]
)
def test_people_on_disk_are_one_whole_number_per_row(tmp_path, stored):
    path = write_embeddings(tmp_path / "p.emb", np.eye(4), RowMetadata(people=IDS))
    np.save(path / "people.npy", stored)
    with pytest.raises(DataError, match="the file has changed"):
        read_store(path)
    with pytest.raises(DataError, match="one int64 person per row"):
        read_store(path, verify=False)
    (path / "people.npy").unlink()
    with pytest.raises(DataError, match="this is missing"):
        read_store(path)


def test_people_that_the_manifest_does_not_list_are_refused(tmp_path):
    path = write_embeddings(tmp_path / "p.emb", np.eye(4))
    np.save(path / "people.npy", np.zeros(4, dtype=np.int64))
    with pytest.raises(DataError, match="is there but not in the manifest"):
        read_store(path)
