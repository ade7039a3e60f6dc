import errno
import hashlib
import json
import os
import pickle

import numpy as np
import pytest

from dptransfer.data import (
    EncoderIdentity,
    PublicEmbeddings,
    RowMetadata,
    ShardedRows,
    atomic_files,
    emb_folder,
    finish_shards,
    read_store,
    write_embeddings,
)
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import read_private, read_public

ENCODER = EncoderIdentity("toy", "0" * 64, "none")
ROWS = np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
SMALL = np.random.default_rng(0).integers(-128, 128, size=(23, 3)).astype(np.int8)
LABELS = ["cat", "dog", "dog"] * 7 + ["cat", "cat"]
FILES = [f"{number}.png" for number in range(23)]
PUBLIC = RowMetadata(public=True)
TOLD = {"labels": LABELS, "classes": ["cat", "dog"], "encoder": ENCODER, "name": "zoo"}
IDS = ["secret-b", "secret-a", None, "secret-b"]


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def rewritten(folder, **changes):
    (folder / "manifest.json").write_text(json.dumps(manifest(folder) | changes))


def with_checksum(folder, name, content):
    """The folder with another file, and the checksum that goes with it."""
    (folder / name).write_bytes(content)
    rewritten(folder, files=manifest(folder)["files"] | {name: hashlib.sha256(content).hexdigest()})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def is_owners(folder):
    return all(file.stat().st_mode & 0o077 == 0 for file in (folder, *folder.iterdir()))


def flip(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.fixture
def folder(tmp_path):
    return write_embeddings(tmp_path / "a.emb", ROWS, RowMetadata(sources=FILES, **TOLD))


@pytest.fixture
def shards(tmp_path):
    return write_embeddings(tmp_path / "shards.emb", ROWS, PUBLIC, shard_rows=7)


@pytest.fixture
def drafts(tmp_path):
    def drafted(rows=ROWS, *where):
        (tmp_path / "drafts").mkdir()
        files = [tmp_path / "drafts" / f"draft{number}.npy" for number in range(len(where) + 1)]
        for file, part in zip(files, np.split(rows, where), strict=True):
            np.save(file, part)
        return files

    return drafted


def test_what_is_written_is_read_back_mapped(folder):
    table = read_store(folder)
    assert isinstance(table.rows, np.memmap)
    assert (table.rows.dtype, table.rows.tolist()) == (np.float32, ROWS.tolist())
    assert (table.labels.tolist(), table.classes) == ([int(one == "dog") for one in LABELS], ("cat", "dog"))
    assert (table.encoder, table.name, table.sources) == (ENCODER, "zoo", tuple(FILES))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_rows_in_shards_are_read_back_and_have_the_fingerprints_of_one_array(tmp_path, size):
    one = write_embeddings(tmp_path / "one.emb", ROWS, RowMetadata(people=LABELS, **TOLD))
    many = write_embeddings(tmp_path / "many.emb", ROWS, RowMetadata(people=LABELS, **TOLD), shard_rows=size)
    assert manifest(one)["shards"] == [23]
    assert manifest(many)["shards"][:-1] == [size] * ((23 - 1) // size)
    assert manifest(one)["rows_fingerprint"] == manifest(many)["rows_fingerprint"]
    first, second = read_private(one), read_private(many)
    assert isinstance(second.rows, ShardedRows) == (size < 23)
    assert second.rows[:].tolist() == first.rows.tolist()
    assert (second.labels.tolist(), second.people.tolist()) == (first.labels.tolist(), first.people.tolist())
    assert (second.fingerprint, second.name, second.facts) == (first.fingerprint, "zoo", first.facts)
    assert is_owners(many)


def test_many_chunks_and_no_rows_survive(tmp_path):
    many = np.arange(3 * 9001, dtype=np.float64).reshape(-1, 3)
    assert np.array_equal(read_store(write_embeddings(tmp_path / "m.emb", many, dtype="float64")).rows, many)
    for place, (dtype, scale) in enumerate([("float32", None), ("int8", 0.5)]):
        none, how = np.zeros((0, 3), dtype), {"dtype": dtype, "scale": scale, "shard_rows": 5}
        path = write_embeddings(tmp_path / f"{place}.emb", none, RowMetadata([]), **how)
        assert (manifest(path)["shards"], read_store(path).rows.shape) == ([], (0, 3))


def test_whole_number_classes_are_kept_as_values(tmp_path):
    path = write_embeddings(tmp_path / "i.emb", np.eye(3), RowMetadata([30, 10, 30], classes=[10, 20, 30]))
    assert read_store(path).labels.tolist() == [30, 10, 30]
    assert read_private(path).labels.tolist() == [2, 0, 2]
    assert read_private(path, classes=[30, 20, 10]).labels.tolist() == [0, 2, 0]


def test_only_a_folder_of_ours_is_overwritten_and_only_when_that_is_asked_for(folder, tmp_path):
    """The rows behind a link would stay where they are, and their owner would think that they are gone."""
    with pytest.raises(DataError, match="overwrite=True"):
        write_embeddings(folder, ROWS[:2])
    link, other = tmp_path / "link.emb", tmp_path / "b.emb"
    link.symlink_to(folder)
    other.mkdir()
    (other / "thesis.tex").touch()
    for place in (link, other):
        with pytest.raises(DataError, match="only an"):
            write_embeddings(place, ROWS, overwrite=True)
    assert link.is_symlink()
    assert (names(other), len(read_store(folder).rows)) == (["thesis.tex"], 23)
    write_embeddings(folder, ROWS[:2], overwrite=True)
    assert (len(read_store(folder).rows), names(tmp_path)) == (2, ["a.emb", "b.emb", "link.emb"])


@pytest.mark.parametrize(
    ("module", "step"),
    [(emb_folder, "_write_array"), (emb_folder, "write_synced"), (atomic_files, "_exchanged")],
)
def test_a_full_disk_leaves_the_old_folder_and_nothing_else(folder, monkeypatch, module, step):
    def full(*args, **settings):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, step, full)
        with pytest.raises(DataError, match="No space left"):
            write_embeddings(folder, ROWS[:2], overwrite=True)
    assert names(folder.parent) == ["a.emb"]
    assert len(read_store(folder).rows) == 23


def test_shards_that_are_moved_in_are_the_same_folder(tmp_path, drafts):
    """Nothing is copied: the files are what they were, under another name."""
    files, told = drafts(ROWS, 7, 14, 21), RowMetadata(people=LABELS, sources=LABELS, **TOLD)
    inodes = [file.stat().st_ino for file in files]
    moved = finish_shards(tmp_path / "moved.emb", files, told)
    written = write_embeddings(tmp_path / "w.emb", ROWS, told, shard_rows=7)
    first, second = (manifest(one) | {"created": ""} for one in (moved, written))
    assert first == second
    assert [(moved / f"rows-{number:05}.npy").stat().st_ino for number in range(4)] == inodes
    assert names(tmp_path / "drafts") == []
    assert read_store(moved).rows[:].tolist() == ROWS.tolist()
    assert is_owners(moved)


@pytest.mark.parametrize("step", ["link_or_rename", "sync_folder"])
def test_shards_stay_where_they_are_if_they_cannot_be_moved_in(tmp_path, drafts, monkeypatch, step):
    files, plain, asked = drafts(ROWS, 7), getattr(emb_folder, step), []

    def full_at_last(*given):
        asked.append(given)
        if len(asked) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(*given)

    monkeypatch.setattr(emb_folder, step, full_at_last)
    with pytest.raises(DataError, match="No space left"):
        finish_shards(tmp_path / "a.emb", files)
    assert names(tmp_path) == ["drafts"]
    assert ShardedRows(files)[:].tolist() == ROWS.tolist()
    assert len(read_store(finish_shards(tmp_path / "a.emb", files)).rows) == 23


def test_a_disk_without_links_has_its_files_renamed(tmp_path, drafts, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    files = drafts(ROWS, 7)
    monkeypatch.setattr(os, "link", refused)
    assert read_store(finish_shards(tmp_path / "a.emb", files)).rows[:].tolist() == ROWS.tolist()
    assert names(tmp_path / "drafts") == []


def test_shards_that_do_not_fit_are_not_moved_in(tmp_path, drafts):
    files = drafts(ROWS, 7)
    odd = tmp_path / "drafts" / "odd.npy"
    np.save(odd, np.asfortranarray(ROWS))
    for given, told, how, rule in (
        ([*files, odd], {}, {}, "row by row"),
        ([], {}, {}, "at least one file"),
        ([files[0], *files], {}, {}, "named twice"),
        (files, {"labels": [0]}, {}, "one entry"),
        (files, {"people": LABELS, "public": True}, {}, "nobody's data"),
        (files, {}, {"scale": 2.0}, "scale"),
    ):
        with pytest.raises((DataError, ArgumentError), match=rule):
            finish_shards(tmp_path / "a.emb", given, RowMetadata(**told), **how)
    assert names(tmp_path) == ["drafts"]
    assert len(names(tmp_path / "drafts")) == 3


@pytest.mark.parametrize("scale", [None, 0.37])
def test_small_rows_stay_small_on_disk_and_are_floats_when_they_are_read(tmp_path, drafts, scale):
    given = SMALL.astype(np.float32) * np.float32(1 if scale is None else scale)
    told = {"dtype": "int8", "scale": scale}
    one = write_embeddings(tmp_path / "one.emb", SMALL, PUBLIC, **told)
    many = write_embeddings(tmp_path / "many.emb", SMALL, PUBLIC, shard_rows=7, **told)
    moved = finish_shards(tmp_path / "moved.emb", drafts(SMALL, 10), PUBLIC, scale=scale)
    again = write_embeddings(tmp_path / "again.emb", read_store(many).rows, dtype="int8", shard_rows=4)
    for path in (one, many, moved, again):
        rows = read_store(path).rows
        assert (rows.stored, rows.dtype, rows.scale) == (np.int8, np.float32, scale or 1.0)
        assert rows[:].tolist() == given.tolist()
        assert manifest(path)["dtype"] == "int8"
        assert read_public(path, private_too=True).fingerprint == PublicEmbeddings(given).fingerprint
    assert np.load(many / "rows-00001.npy").tolist() == SMALL[7:14].tolist()
    floats = write_embeddings(tmp_path / "floats.emb", read_store(many).rows)
    assert read_store(floats).rows.tolist() == given.tolist()


@pytest.mark.parametrize(
    ("rows", "told", "how"),
    [
        (ROWS[0], {}, {}),
        (ROWS, {"labels": LABELS}, {}),
        (ROWS, {"labels": ["eel"] * 23, "classes": ["cat", "dog"]}, {}),
        (ROWS, {"sources": ["a"]}, {}),
        (ROWS, {"people": IDS}, {}),
        (ROWS, {"people": LABELS, "public": True}, {}),
        (ROWS, {}, {"dtype": "int8"}),
        (ROWS, {}, {"scale": 1.0}),
        (ROWS, {}, {"shard_rows": 0}),
    ],
)
def test_what_does_not_fit_is_refused_and_not_written(tmp_path, rows, told, how):
    with pytest.raises((DataError, ArgumentError)) as caught:
        write_embeddings(tmp_path / "a.emb", rows, RowMetadata(**told), **how)
    assert "secret" not in str(caught.value)
    assert names(tmp_path) == []
    with pytest.raises(DataError, match="end in"):
        write_embeddings(tmp_path / "x", ROWS)


def test_a_pool_on_record_as_finite_is_not_read_again(tmp_path, shards, monkeypatch):
    private = write_embeddings(tmp_path / "private.emb", ROWS, shard_rows=7)
    wild = np.array(ROWS)
    wild[9, 1] = np.nan
    odd = write_embeddings(tmp_path / "odd.emb", wild, PUBLIC, shard_rows=7)
    assert [manifest(path)["finite"] for path in (shards, private, odd)] == [True, None, None]
    with pytest.raises(DataError, match=r"row 2 .*rows-00001"):
        read_public(odd)
    assert read_public(private, private_too=True).rows.finite is False

    def forbidden(*_, **__):
        raise AssertionError

    monkeypatch.setattr(ShardedRows, "read", forbidden)
    pool = read_public(shards)
    assert pickle.loads(pickle.dumps(pool)).record["fingerprint"] == PublicEmbeddings(ROWS).fingerprint


def saved(name, array):
    return lambda folder: np.save(folder / name, array)


def changed(**fields):
    return lambda folder: rewritten(folder, **fields)


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda f: (f / "rows-00001.npy").unlink(), "is missing"),
        (lambda f: (f / "manifest.json").unlink(), "manifest"),
        (lambda f: os.truncate(f / "rows-00001.npy", 200), "cut short"),
        (saved("rows-00001.npy", ROWS[:6]), "as many rows"),
        (saved("rows-00004.npy", ROWS), "not in the manifest"),
        (lambda f: (f / "manifest.json").write_text("{"), "JSON"),
        (changed(shards=[7, 7, 7, 2, 1]), "'shards'"),
        (changed(shards=[7, 7, 6, 3]), "as many rows"),
        (changed(version=4), "Upgrade"),
        (changed(public=None), "'public'"),
        (changed(dtype="int8"), "'scale'"),
        (changed(scale=2.0), "'scale'"),
        (changed(dimension=4), "shape and type"),
        (changed(surprise=1), "'surprise'"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told_in_one_line_though_nobody_looks_at_checksums(
    shards, spoil, rule
):
    spoil(shards)
    for read in (read_public, lambda path: read_store(path, verify=False)):
        with pytest.raises(DataError, match=rule) as caught:
            read(shards)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["rows-00000.npy", "labels.npy", "sources.json"])
def test_a_changed_file_is_found_by_its_checksum_unless_that_is_skipped(folder, name):
    flip(folder / name)
    with pytest.raises(DataError, match="checksum"):
        read_store(folder)
    if name == "rows-00000.npy":
        assert len(read_store(folder, verify=False).rows) == 23


@pytest.mark.parametrize("name", ["../rows-00001.npy", "rows-00001.npy/../x", "labels.npy\n"])
def test_a_path_that_leaves_the_folder_is_refused(folder, name):
    files = manifest(folder)["files"]
    rewritten(folder, files=files | {name: files["rows-00000.npy"]})
    with pytest.raises(DataError, match="'files'") as caught:
        read_store(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("public", [False, True])
def test_nobody_else_can_read_private_rows_at_any_moment(tmp_path, monkeypatch, public):
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
        write_embeddings(tmp_path / "a.emb", ROWS, RowMetadata([0] * 23, sources=FILES, public=public))
    finally:
        os.umask(before)
    assert seen == ({0o077, 0o066} if public else {0})


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': ((9, 4), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (9, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000, 4), }",
        b"{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,), }",
    ],
)
@pytest.mark.parametrize("name", ["rows-00000.npy", "labels.npy"])
def test_a_damaged_header_is_refused_in_words_whatever_numpy_makes_of_it(folder, name, header):
    padded = header + b"\n"
    whole = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(144)
    with_checksum(folder, name, whole)
    with pytest.raises(DataError, match="must be"):
        read_store(folder)


def test_no_row_makes_writing_warn_or_fail_whatever_the_caller_told_numpy(tmp_path):
    signalling = np.full(4, 0x7FF0000000000001, dtype=np.uint64).view(np.float64)
    hard = np.vstack([np.full(4, 1e300), np.full(4, 1e-300), np.full(4, np.nan), signalling])
    with np.errstate(all="raise"):
        written = read_store(write_embeddings(tmp_path / "h.emb", hard, dtype="float32")).rows
    assert np.isfinite(written).all(axis=1).tolist() == [False, True, False, False]


def test_people_are_kept_as_numbers_for_the_owner_alone(tmp_path):
    plain = write_embeddings(tmp_path / "a.emb", np.eye(4), RowMetadata([0, 1, 1, 0]))
    path = write_embeddings(tmp_path / "p.emb", np.eye(4), RowMetadata([0, 1, 1, 0], people=IDS))
    assert read_store(path).people.tolist() == np.load(path / "people.npy").tolist() == [0, 1, 2, 0]
    assert read_store(plain).people is None
    assert (path / "people.npy").stat().st_mode & 0o777 == 0o600
    assert not any(b"secret" in file.read_bytes() for file in path.iterdir())
    first, second = manifest(plain), manifest(path)
    digest = hashlib.sha256((path / "people.npy").read_bytes()).hexdigest()
    assert second["files"].pop("people.npy") == digest
    second["created"] = first["created"]
    assert first == second  # fingerprints among them: one data set


def test_people_on_disk_are_one_whole_number_per_row(tmp_path):
    path = write_embeddings(tmp_path / "p.emb", np.eye(4), RowMetadata(people=IDS))
    for stored in (np.zeros(3, int), np.zeros(4, dtype=np.int32)):
        np.save(path / "people.npy", stored)
        with pytest.raises(DataError, match="one int64"):
            read_store(path, verify=False)
