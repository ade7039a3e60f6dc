import errno
import json
import os
import pickle

import numpy as np
import pytest

from dptransfer.base.progress import reported_to
from dptransfer.data import (
    EncoderIdentity,
    PublicEmbeddings,
    RowMetadata,
    ShardedRows,
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
PUBLIC = RowMetadata(public=True)
TOLD = {"labels": LABELS, "classes": ["cat", "dog"], "encoder": ENCODER, "name": "zoo"}


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def rewritten(folder, **changes):
    (folder / "manifest.json").write_text(json.dumps(manifest(folder) | changes))


def drafts(folder, rows, *where):
    folder.mkdir()
    files = [folder / f"draft{number}.npy" for number in range(len(where) + 1)]
    for file, part in zip(files, np.split(rows, where), strict=True):
        np.save(file, part)
    return files


@pytest.fixture
def folder(tmp_path):
    return write_embeddings(tmp_path / "a.emb", ROWS, PUBLIC, shard_rows=7)


@pytest.mark.parametrize("size", [1, 7, 22, 23, 100])
def test_rows_in_shards_are_read_back_and_have_the_fingerprints_of_one_array(tmp_path, size):
    one = write_embeddings(tmp_path / "one.emb", ROWS, RowMetadata(people=LABELS, **TOLD))
    many = write_embeddings(tmp_path / "many.emb", ROWS, RowMetadata(people=LABELS, **TOLD), shard_rows=size)
    assert manifest(one)["shards"] == [23]
    assert manifest(many)["shards"][:-1] == [size] * ((23 - 1) // size)
    for name in ("fingerprint", "rows_fingerprint"):
        assert manifest(one)[name] == manifest(many)[name]
    first, second = read_private(one), read_private(many)
    assert isinstance(second.rows, ShardedRows) == (size < 23)
    assert second.rows[:].tolist() == first.rows.tolist()
    assert (second.labels.tolist(), second.people.tolist()) == (first.labels.tolist(), first.people.tolist())
    assert (second.fingerprint, second.name) == (first.fingerprint, "zoo")
    assert second.facts == first.facts
    assert all(file.stat().st_mode & 0o077 == 0 for file in (many, *many.iterdir()))


def test_shards_that_are_moved_in_are_the_same_folder(tmp_path):
    """Nothing is copied: the files are what they were, under another name."""
    files = drafts(tmp_path / "drafts", ROWS, 7, 14, 21)
    inodes = [file.stat().st_ino for file in files]
    moved = finish_shards(tmp_path / "moved.emb", files, RowMetadata(people=LABELS, sources=LABELS, **TOLD))
    written = write_embeddings(
        tmp_path / "w.emb", ROWS, RowMetadata(people=LABELS, sources=LABELS, **TOLD), shard_rows=7
    )
    first, second = (manifest(one) | {"created": ""} for one in (moved, written))
    assert first == second
    assert [(moved / f"rows-{number:05}.npy").stat().st_ino for number in range(4)] == inodes
    assert list((tmp_path / "drafts").iterdir()) == []
    assert read_store(moved).rows[:].tolist() == ROWS.tolist()
    assert all(file.stat().st_mode & 0o077 == 0 for file in (moved, *moved.iterdir()))


@pytest.mark.parametrize("step", ["link_or_rename", "sync_folder"])
def test_shards_stay_where_they_are_if_they_cannot_be_moved_in(tmp_path, monkeypatch, step):
    files = drafts(tmp_path / "drafts", ROWS, 7)
    plain, asked = getattr(emb_folder, step), []

    def full_at_last(*given):
        asked.append(given)
        if len(asked) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(*given)

    monkeypatch.setattr(emb_folder, step, full_at_last)
    with pytest.raises(DataError, match="No space left"):
        finish_shards(tmp_path / "a.emb", files)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "drafts"]
    assert ShardedRows(files)[:].tolist() == ROWS.tolist()
    assert len(read_store(finish_shards(tmp_path / "a.emb", files)).rows) == 23


def test_a_disk_without_links_has_its_files_renamed(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    files = drafts(tmp_path / "drafts", ROWS, 7)
    monkeypatch.setattr(os, "link", refused)
    assert read_store(finish_shards(tmp_path / "a.emb", files)).rows[:].tolist() == ROWS.tolist()
    assert list((tmp_path / "drafts").iterdir()) == []


def test_shards_that_do_not_fit_are_not_moved_in(tmp_path):
    files = drafts(tmp_path / "drafts", ROWS, 7)
    odd = tmp_path / "drafts" / "odd.npy"
    np.save(odd, np.asfortranarray(ROWS))
    for given, told, rule in (
        ([*files, odd], {}, "row by row"),
        ([], {}, "at least one file"),
        ([files[0], *files], {}, "named twice"),
        (files, {"labels": [0]}, "one entry per example"),
        (files, {"people": LABELS, "public": True}, "nobody's data"),
    ):
        with pytest.raises((DataError, ArgumentError), match=rule):
            finish_shards(tmp_path / "a.emb", given, RowMetadata(**told))
    with pytest.raises(ArgumentError, match="scale"):
        finish_shards(tmp_path / "a.emb", files, scale=2.0)
    assert not (tmp_path / "a.emb").exists()
    assert len(list((tmp_path / "drafts").iterdir())) == 3


@pytest.mark.parametrize("scale", [None, 0.37])
def test_small_rows_stay_small_on_disk_and_are_floats_when_they_are_read(tmp_path, scale):
    given = SMALL.astype(np.float32) * np.float32(1 if scale is None else scale)
    told = {"dtype": "int8", "scale": scale}
    one = write_embeddings(tmp_path / "one.emb", SMALL, PUBLIC, **told)
    many = write_embeddings(tmp_path / "many.emb", SMALL, PUBLIC, shard_rows=7, **told)
    moved = finish_shards(tmp_path / "moved.emb", drafts(tmp_path / "d", SMALL, 10), PUBLIC, scale=scale)
    again = write_embeddings(tmp_path / "again.emb", read_store(many).rows, dtype="int8", shard_rows=4)
    floats = write_embeddings(tmp_path / "floats.emb", read_store(many).rows)
    for path in (one, many, moved, again):
        rows = read_store(path).rows
        assert (rows.stored, rows.dtype, rows.scale) == (np.int8, np.float32, scale or 1.0)
        assert rows[:].tolist() == given.tolist()
        assert manifest(path)["dtype"] == "int8"
        assert read_public(path, private_too=True).fingerprint == PublicEmbeddings(given).fingerprint
    assert np.load(many / "rows-00001.npy").tolist() == SMALL[7:14].tolist()
    assert read_store(floats).rows.tolist() == given.tolist()


def test_rows_that_are_not_small_are_not_made_so(tmp_path):
    for rows, told in ((ROWS, {"dtype": "int8"}), (SMALL[0], {"dtype": "int8"}), (ROWS, {"scale": 1.0})):
        with pytest.raises(ArgumentError, match="int8"):
            write_embeddings(tmp_path / "a.emb", rows, **told)
    with pytest.raises(ArgumentError, match="shard_rows"):
        write_embeddings(tmp_path / "a.emb", ROWS, shard_rows=0)
    assert list(tmp_path.iterdir()) == []


def test_no_rows_are_no_shards(tmp_path):
    for place, (dtype, scale) in enumerate([("float32", None), ("int8", 0.5)]):
        none = np.zeros((0, 3), dtype)
        path = write_embeddings(
            tmp_path / f"{place}.emb", none, RowMetadata([]), dtype=dtype, scale=scale, shard_rows=5
        )
        assert manifest(path)["shards"] == []
        assert read_store(path).rows.shape == (0, 3)


def test_a_pool_on_record_as_finite_is_not_read_again(tmp_path, folder, monkeypatch):
    private = write_embeddings(tmp_path / "private.emb", ROWS, shard_rows=7)
    wild = np.array(ROWS)
    wild[9, 1] = np.nan
    odd = write_embeddings(tmp_path / "odd.emb", wild, PUBLIC, shard_rows=7)
    assert [manifest(path)["finite"] for path in (folder, private, odd)] == [True, None, None]
    with pytest.raises(DataError, match=r"finite; row 2 of '.*rows-00001\.npy' is not"):
        read_public(odd)
    assert read_public(private, private_too=True).rows.finite is False

    def forbidden(*_, **__):
        raise AssertionError

    monkeypatch.setattr(ShardedRows, "read", forbidden)
    pool = read_public(folder)
    assert pickle.loads(pickle.dumps(pool)).record["fingerprint"] == PublicEmbeddings(ROWS).fingerprint


def flip(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "rule", "told_by"),
    [
        (lambda f: flip(f / "rows-00001.npy"), "checksum", "verifying"),
        (lambda f: (f / "rows-00001.npy").unlink(), "this is missing", "anybody"),
        (lambda f: (f / "rows-00001.npy").write_bytes(b"0" * 99), "damaged", "anybody"),
        (lambda f: np.save(f / "rows-00001.npy", ROWS[:6]), "as many rows", "anybody"),
        (lambda f: np.save(f / "rows-00001.npy", ROWS[:7, :2]), "one width", "anybody"),
        (lambda f: np.save(f / "rows-00001.npy", ROWS[:7].astype("f8")), "of one type", "anybody"),
        (lambda f: np.save(f / "rows-00004.npy", ROWS), "not in the manifest", "anybody"),
        (lambda f: np.save(f / "rows.npy", ROWS), "not in the manifest", "anybody"),
        (lambda f: rewritten(f, shards=[7, 7, 7]), "'shards'", "anybody"),
        (lambda f: rewritten(f, shards=[7, 7, 7, 2, 1]), "'shards'", "anybody"),
        (lambda f: rewritten(f, shards=[7, 7, 6, 3]), "as many rows", "anybody"),
        (lambda f: rewritten(f, shards=None), "'shards'", "anybody"),
        (lambda f: rewritten(f, version=2), "schema version 1", "anybody"),
        (lambda f: rewritten(f, public=None), "'public'", "anybody"),
        (lambda f: rewritten(f, dtype="int8"), "'scale'", "anybody"),
        (lambda f: rewritten(f, scale=2.0), "'scale'", "anybody"),
        (lambda f: rewritten(f, dtype="float64"), "shape and type", "anybody"),
    ],
)
def test_what_is_wrong_with_a_shard_is_told_in_one_line(folder, spoil, rule, told_by):
    spoil(folder)
    with pytest.raises(DataError, match=rule) as caught:
        read_public(folder)
    assert "\n" not in str(caught.value)
    if told_by == "verifying":
        assert len(read_store(folder, verify=False).rows) == 23
    else:
        with pytest.raises(DataError, match=rule):
            read_store(folder, verify=False)


@pytest.mark.parametrize(
    "name", ["../rows-00001.npy", "/etc/passwd", "rows-00001.npy/../x", "rows-1.npy", "rows-00001.npy\n"]
)
def test_a_path_that_leaves_the_folder_is_refused(folder, name):
    files = manifest(folder)["files"]
    rewritten(folder, files=files | {name: files["rows-00001.npy"]})
    with pytest.raises(DataError, match="the field 'files'") as caught:
        read_store(folder)
    assert "\n" not in str(caught.value)


def test_checksums_give_signs_of_life(folder):
    heard = []
    with reported_to(lambda *told: heard.append(told)):
        read_store(folder)
    assert heard == [(done, 4, "checksum") for done in (1, 2, 3, 4)]
