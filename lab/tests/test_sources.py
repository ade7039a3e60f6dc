import numpy as np
import pytest

from dptransfer.data import write_embeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer_lab.sources import data_set, public_pool
from dptransfer_lab.study import DataSet, Source

from .samples import write_toy


def entry(source, **more):
    return DataSet(name="toy", source={"made": source}, **more)


def test_packed_rows_are_decoded_once_and_mapped(toy, monkeypatch):
    stored = data_set(entry("toy.npz"), "made", [toy])
    arrays = stored.open()
    assert isinstance(arrays["rows"], np.memmap)
    assert arrays["rows"].shape == (240, 12)
    assert arrays["test_labels"].shape == (120,)
    assert stored.classes == tuple(f"class {place}" for place in range(4))
    monkeypatch.setattr("dptransfer_lab.sources._read_data", None)  # a second reading would fail
    assert data_set(entry("toy.npz"), "made", [toy]) == stored


def test_a_file_that_changes_is_read_again(toy):
    before = data_set(entry("toy.npz"), "made", [toy])
    write_toy(toy, seed=9)
    after = data_set(entry("toy.npz"), "made", [toy])
    assert before.fingerprint != after.fingerprint
    assert not (before.open()["rows"] == after.open()["rows"]).all()


def test_an_unfinished_cache_folder_is_made_again(toy, cache):
    stored = data_set(entry("toy.npz"), "made", [toy])
    rows = next(iter(cache.glob("bench/*/rows.npy")))
    for file in cache.glob("bench/*/set.json"):
        file.write_text("{")
    assert data_set(entry("toy.npz"), "made", [toy]) == stored
    assert rows.exists()


def test_emb_folders_and_a_held_out_share(toy):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 6)), np.repeat(["a", "b"], 50)
    write_embeddings(toy / "all.emb", x, y, classes=["a", "b"])
    stored = data_set(entry("all.emb", test_share=0.2), "made", [toy])
    arrays = stored.open()
    assert np.bincount(arrays["test_labels"]).tolist() == [10, 10]
    assert len(arrays["rows"]) == 80
    joined = np.concatenate([arrays["rows"], arrays["test_rows"]])
    assert {row.tobytes() for row in joined} == {row.tobytes() for row in x.astype(np.float32)}
    write_embeddings(toy / "test.emb", x[:30], y[:30], classes=["a", "b"])
    named = data_set(entry({"train": "all.emb", "test": "test.emb"}), "made", [toy]).open()
    assert (len(named["rows"]), len(named["test_rows"])) == (100, 30)


def test_a_balanced_test_set_on_request(toy):
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.array([0] * 40 + [1] * 20)
    np.savez(toy / "skew.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    plain = data_set(entry("skew.npz"), "made", [toy]).open()
    cut = data_set(entry("skew.npz", balanced_test=True), "made", [toy]).open()
    assert np.bincount(plain["test_labels"]).tolist() == [40, 20]
    assert np.bincount(cut["test_labels"]).tolist() == [20, 20]


def test_a_pool_that_can_be_mapped_is_not_copied(toy, cache):
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    write_embeddings(toy / "pool.emb", rows)
    stored = public_pool(Source(train="pool.emb"), "made", [toy])
    assert stored.files["rows"] == str((toy / "pool.emb" / "rows.npy").resolve())
    packed = public_pool(Source(train="pool.npz"), "made", [toy])
    assert packed.files["rows"].startswith(str(cache))
    assert (stored.open()["rows"] == rows).all()


def test_paths_are_looked_for_in_order(toy, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_toy(other, seed=5)
    first = data_set(entry("toy.npz"), "made", [toy, other])
    second = data_set(entry("toy.npz"), "made", [other, toy])
    assert first.fingerprint != second.fingerprint
    with pytest.raises(DataError, match="DPTRANSFER_DATA"):
        data_set(entry("missing.npz"), "made", [toy, other])


def test_rows_without_labels_are_no_data_set(toy):
    with pytest.raises(DataError, match="must have labels"):
        data_set(entry("pool.npz"), "made", [toy])


def test_the_demo_data_need_no_file(tmp_path):
    stored = data_set(DataSet(name="d", source={"pixels": "demo"}), "pixels", [tmp_path])
    arrays = stored.open()
    assert arrays["rows"].shape == (1447, 64)
    assert np.bincount(arrays["test_labels"]).tolist() == [35] * 10
    with pytest.raises(ArgumentError, match=r"one of pixels.*got 'clip'"):
        data_set(DataSet(name="d", source={"clip": "demo"}), "clip", [tmp_path])
