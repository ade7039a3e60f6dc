import numpy as np
import pytest
from safetensors.numpy import save_file

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import read_table
from dptransfer.sources.readers import read_labels

X = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
Y = np.array([0, 1, 0, 1, 0, 1])


def test_npy_holds_rows_and_is_memory_mapped(tmp_path):
    np.save(tmp_path / "x.npy", X)
    table = read_table(tmp_path / "x.npy")
    assert np.array_equal(table.rows, X)
    assert isinstance(table.rows, np.memmap)
    assert table.labels is None


@pytest.mark.parametrize(("rows", "labels"), [("x", "y"), ("features", "labels"), ("embeddings", "label")])
def test_npz_is_read_under_each_documented_name(tmp_path, rows, labels):
    np.savez(tmp_path / "a.npz", **{rows: X, labels: Y, "classes": np.array(["cat", "dog"])})
    table = read_table(tmp_path / "a.npz")
    assert np.array_equal(table.rows, X)
    assert table.labels.tolist() == Y.tolist()
    assert table.classes == ("cat", "dog")


def test_npz_with_unknown_names_says_what_it_found(tmp_path):
    np.savez(tmp_path / "a.npz", foo=X)
    with pytest.raises(DataError, match="found foo"):
        read_table(tmp_path / "a.npz")


def packed(path, *splits):
    scale, offset = np.array([0.5, 1, 2], np.float32), np.array([0, -1, 3], np.float32)
    arrays = {"scale": scale, "offset": offset, "classes": np.array(["cat", "dog"])}
    for place, split in enumerate(splits):
        arrays[f"q_{split}"] = np.full((4, 3), place + 2, np.uint8)
        arrays[f"y_{split}"] = np.array([0, 1, 1, 0], np.int16)
    np.savez(path, **arrays)
    return path


def test_rows_packed_as_small_integers_are_scaled_back(tmp_path):
    path = packed(tmp_path / "p.npz", "train", "test")
    assert read_table(path, Columns(split="train")).rows[0].tolist() == [1, 1, 7]
    assert read_table(path, Columns(split="test")).rows[0].tolist() == [1.5, 2, 9]
    assert read_table(path, Columns(split="test")).rows.dtype == np.float32
    assert read_table(path, Columns(split="test")).labels_are_positions


def test_one_of_several_splits_must_be_chosen(tmp_path):
    path = packed(tmp_path / "p.npz", "train", "test")
    with pytest.raises(DataError, match="test, train"):
        read_table(path)
    with pytest.raises(DataError, match="split='dev'"):
        read_table(path, Columns(split="dev"))
    assert len(read_table(packed(tmp_path / "q.npz", "train")).rows) == 4


def test_plain_rows_can_come_in_splits_too(tmp_path):
    np.savez(tmp_path / "s.npz", x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2])
    assert len(read_table(tmp_path / "s.npz", Columns(split="test")).labels) == 2


def test_a_split_is_refused_where_there_are_none(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "a.npz", x=X)
    for name in ("x.npy", "a.npz"):
        with pytest.raises(DataError, match="no splits"):
            read_table(tmp_path / name, Columns(split="train"))


def test_python_objects_are_never_unpickled(tmp_path):
    poison = np.array([{"a": 1}, None], dtype=object)
    np.savez(tmp_path / "a.npz", x=X, y=poison)
    np.save(tmp_path / "b.npy", poison)
    with pytest.raises(DataError, match="never unpickled"):
        read_table(tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"b\.npy"):
        read_table(tmp_path / "b.npy")


def test_safetensors_come_back_with_their_class_list(tmp_path):
    save_file({"x": X, "y": Y}, tmp_path / "a.safetensors", metadata={"classes": '["cat", "dog"]'})
    table = read_table(tmp_path / "a.safetensors")
    assert np.array_equal(table.rows, X)
    assert table.classes == ("cat", "dog")


def test_torch_files_hold_a_tensor_or_a_dict(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.tensor(X), tmp_path / "x.pt")
    torch.save(
        {"x": torch.tensor(X).bfloat16(), "y": torch.tensor(Y), "classes": ["a", "b"]}, tmp_path / "d.pt"
    )
    assert np.array_equal(read_table(tmp_path / "x.pt").rows, X)
    table = read_table(tmp_path / "d.pt")
    assert np.allclose(table.rows, X, atol=0.02)
    assert table.labels.tolist() == Y.tolist()
    assert table.classes == ("a", "b")


class Poison:
    def __reduce__(self):
        return (print, ("a pickle was run",))


def test_a_torch_file_that_would_run_code_is_refused(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    torch.save({"x": Poison()}, tmp_path / "p.pt")
    with pytest.raises(DataError, match="weights_only"):
        read_table(tmp_path / "p.pt")
    assert capsys.readouterr().out == ""
    torch.load(tmp_path / "p.pt", weights_only=False)  # the poison works where it is let in
    assert "a pickle was run" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.safetensors", "a.parquet", "a.pt"])
def test_a_damaged_file_is_an_error_of_ours_that_names_it(tmp_path, name):
    if name == "a.pt":
        pytest.importorskip("torch")
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(b"not what it says")
    with pytest.raises(DataError, match=name):
        read_table(tmp_path / name)


def test_unknown_and_missing_files_are_refused(tmp_path):
    (tmp_path / "a.mat").touch()
    (tmp_path / "folder").mkdir()
    for name, message in (("a.mat", "'.mat'"), ("folder", "none of"), ("nothing.npz", "must exist")):
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / name)


def test_rows_of_another_shape_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", X[0])
    np.savez(tmp_path / "y.npz", x=X, y=Y[:3])
    for name in ("x.npy", "y.npz"):
        with pytest.raises(DataError, match=name):
            read_table(tmp_path / name)


def test_labels_have_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    assert read_labels(tmp_path / "y.npy").tolist() == Y.tolist()
    with pytest.raises(DataError, match=r"numpy\.save"):
        read_labels(tmp_path / "y.csv")


def test_printing_a_table_shows_no_value(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    assert repr(read_table(tmp_path / "a.npz")) == "RawTable(dimension 3, labelled)"


def test_no_packed_row_makes_reading_warn_or_fail_whatever_the_caller_told_numpy(tmp_path):
    q = np.array([[0, 1], [255, 255]], np.uint8)
    np.savez(tmp_path / "h.npz", q_all=q, scale=np.array([np.inf, 3e38]), offset=np.array([0.0, 1e-40]))
    with np.errstate(all="raise"):
        rows = read_table(tmp_path / "h.npz").rows
    assert not np.isfinite(rows).all()


def test_archives_may_have_ids_of_people_under_any_name(tmp_path):
    ids = np.array(["b", "a", "", "b", "", "a"])
    np.savez(
        tmp_path / "a.npz", x=X, y=Y, patient=ids, on=ids == "a", part=ids[:3], square=np.stack([ids, ids])
    )
    assert read_table(tmp_path / "a.npz", Columns(person="patient")).people.tolist() == [0, 1, 2, 0, 3, 1]
    assert read_table(tmp_path / "a.npz").people is None
    for name, rule in (
        ("who", "column 'who'; found on, part, patient"),
        ("on", "type bool"),
        ("part", "one entry"),
    ):
        with pytest.raises(DataError, match=rule):
            read_table(tmp_path / "a.npz", Columns(person=name))
    with pytest.raises(DataError, match="one entry per example"):
        read_table(tmp_path / "a.npz", Columns(person="square"))
    np.savez(tmp_path / "s.npz", x_train=X, x_test=X[:2], who_train=ids, who_test=ids[:2], one=ids)
    assert read_table(tmp_path / "s.npz", Columns(person="who", split="test")).people.tolist() == [0, 1]
    trained = read_table(tmp_path / "s.npz", Columns(person="one", split="train"))
    assert trained.people.tolist() == [0, 1, 2, 0, 3, 1]
    save_file({"x": X, "who": np.array([3, 3, 1, 2, 1, 1])}, tmp_path / "a.safetensors")
    assert read_table(tmp_path / "a.safetensors", Columns(person="who")).people.tolist() == [0, 0, 1, 2, 1, 1]


def test_rows_alone_have_no_column_of_people(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(DataError, match=r"column 'who'; there are no columns\. Name a .csv or .npy file"):
        read_table(tmp_path / "x.npy", Columns(person="who"))


def test_an_archive_may_call_its_labels_anything(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=np.eye(2), dx_train=[1, 0], y_train=[5, 5])
    assert read_table(tmp_path / "a.npz", Columns(label="dx")).labels.tolist() == [1, 0]
    assert read_table(tmp_path / "a.npz").labels.tolist() == [5, 5]
