import numpy as np
import pytest

from dptransfer.data import RowMetadata, write_embeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer_lab.sources import data_set, public_pool
from dptransfer_lab.study import DataSet, Source

from .samples import write_toy


def entry(source, **more):
    return DataSet(name="toy", source={"made": source}, **more)


def stored_set(folder, source="toy.npz", **more):
    return data_set(entry(source, **more), "made", [folder])


def test_packed_rows_are_decoded_once_and_mapped(toy, monkeypatch):
    stored = stored_set(toy)
    arrays = stored.open()
    assert isinstance(arrays["rows"], np.memmap)
    assert arrays["rows"].shape == (240, 12)
    assert arrays["test_labels"].shape == (120,)
    assert stored.classes == tuple(f"class {place}" for place in range(4))
    monkeypatch.setattr("dptransfer_lab.sources._read_data", None)  # a second reading would fail
    assert stored_set(toy) == stored


def test_a_file_that_changes_is_read_again(toy):
    before = stored_set(toy)
    write_toy(toy, seed=9)
    after = stored_set(toy)
    assert before.fingerprint != after.fingerprint
    assert not (before.open()["rows"] == after.open()["rows"]).all()


def test_emb_folders_and_a_held_out_share(toy):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 6)), np.repeat(["a", "b"], 50)
    write_embeddings(toy / "all.emb", x, RowMetadata(y, classes=["a", "b"]))
    stored = stored_set(toy, "all.emb", test_share=0.2)
    arrays = stored.open()
    assert np.bincount(arrays["test_labels"]).tolist() == [10, 10]
    assert len(arrays["rows"]) == 80
    joined = np.concatenate([arrays["rows"], arrays["test_rows"]])
    assert {row.tobytes() for row in joined} == {row.tobytes() for row in x.astype(np.float32)}
    write_embeddings(toy / "test.emb", x[:30], RowMetadata(y[:30], classes=["a", "b"]))
    named = stored_set(toy, {"train": "all.emb", "test": "test.emb"}).open()
    assert (len(named["rows"]), len(named["test_rows"])) == (100, 30)


def test_a_balanced_test_set_on_request(toy):
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.array([0] * 40 + [1] * 20)
    np.savez(toy / "skew.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    plain = stored_set(toy, "skew.npz").open()
    cut = stored_set(toy, "skew.npz", balanced_test=True).open()
    assert np.bincount(plain["test_labels"]).tolist() == [40, 20]
    assert np.bincount(cut["test_labels"]).tolist() == [20, 20]


def test_a_pool_that_can_be_mapped_is_not_copied(toy, cache):
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    write_embeddings(toy / "pool.emb", rows, RowMetadata(public=True))
    stored = public_pool(Source(train="pool.emb"), "made", [toy])
    assert stored.files["rows"] == str((toy / "pool.emb" / "rows-00000.npy").resolve())
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


def test_the_demo_data_need_no_file(tmp_path):
    stored = data_set(DataSet(name="d", source={"pixels": "demo"}), "pixels", [tmp_path])
    arrays = stored.open()
    assert arrays["rows"].shape == (1447, 64)
    assert np.bincount(arrays["test_labels"]).tolist() == [35] * 10
    with pytest.raises(ArgumentError, match="got 'clip'"):
        data_set(DataSet(name="d", source={"clip": "demo"}), "clip", [tmp_path])


def test_people_come_by_the_name_of_their_array(toy):
    arrays = stored_set(toy, people="g").open()
    assert np.bincount(arrays["people"]).tolist() == [6] * 40
    assert np.bincount(arrays["test_people"]).tolist() == [6] * 20
    plain = stored_set(toy)
    assert "people" not in plain.open()
    assert plain.fingerprint != stored_set(toy, people="g").fingerprint


def test_missing_labels_and_people_are_refused(toy):
    with pytest.raises(DataError, match="must have labels"):
        stored_set(toy, "pool.npz")
    for name in ("patient", "g_test"):  # the second is there in part: all 240 rows need somebody
        with pytest.raises(DataError, match="people must"):
            stored_set(toy, people=name)
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    np.savez(toy / "half.npz", x_train=x, y_train=y, g_train=y, x_test=x, y_test=y)
    with pytest.raises(DataError, match="'g'"):
        stored_set(toy, "half.npz", people="g")  # the test part has none


def test_emb_folders_bring_their_people_and_a_held_out_share_keeps_them_whole(toy):
    rng = np.random.default_rng(0)
    x, y, g = rng.normal(size=(300, 3)), rng.integers(0, 3, size=300), rng.integers(0, 60, size=300)
    y[g == 7] = 2
    x[:, 0] = g  # so that rows tell whose they are
    write_embeddings(toy / "all.emb", x, RowMetadata(y, classes=[0, 1, 2], people=g))
    arrays = stored_set(toy, "all.emb", test_share=0.2).open()
    kept, held = (set(arrays[name][:, 0]) for name in ("rows", "test_rows"))
    assert not kept & held
    assert kept | held == set(g.astype(np.float32))
    assert 0.2 <= len(arrays["test_rows"]) / 300 <= 0.25
    for rows, people in (("rows", "people"), ("test_rows", "test_people")):
        assert len(set(zip(arrays[rows][:, 0], arrays[people], strict=True))) == len(set(arrays[people]))
    write_embeddings(toy / "test.emb", x[:30], RowMetadata(y[:30], classes=[0, 1, 2]))
    named = stored_set(toy, {"train": "all.emb", "test": "test.emb"}).open()
    assert sorted(named["test_people"]) == list(range(30))  # each somebody's only row


def test_holding_out_whole_persons_empties_no_class(toy):
    """The only rows of class 2 are one person's, who stays whatever is drawn."""
    y = np.array([0, 1] * 20 + [2, 2])
    write_embeddings(
        toy / "rare.emb", np.eye(42), RowMetadata(y, classes=[0, 1, 2], people=[*range(40), 99, 99])
    )
    arrays = stored_set(toy, "rare.emb", test_share=0.9).open()
    assert set(arrays["labels"]) == {0, 1, 2}
    assert set(arrays["test_labels"]) == {0, 1}
    write_embeddings(toy / "one.emb", np.eye(42), RowMetadata(y, classes=[0, 1, 2], people=[5] * 42))
    with pytest.raises(DataError, match="Name a test file"):
        stored_set(toy, "one.emb")


def test_a_pool_of_several_files_is_their_rows_one_after_the_other(toy):
    write_embeddings(toy / "more.emb", np.ones((30, 12), dtype=np.float32), RowMetadata(public=True))
    joined = public_pool(Source(train="pool.npz", more=("more.emb",)), "made", [toy])
    rows = joined.open()["rows"]
    assert rows.shape == (230, 12)
    assert (rows[:200] == public_pool(Source(train="pool.npz"), "made", [toy]).open()["rows"]).all()
    assert (rows[200:] == 1).all()
    write_embeddings(toy / "wide.emb", np.ones((30, 13)), RowMetadata(public=True))
    with pytest.raises(DataError, match="one dimension"):
        public_pool(Source(train="pool.npz", more=("wide.emb",)), "made", [toy])
    with pytest.raises(DataError, match=r"gone.npz"):
        public_pool(Source(train="pool.npz", more=("gone.npz",)), "made", [toy])
