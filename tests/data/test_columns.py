import json
from datetime import date

import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import find_texts, read_private, read_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

X = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)


def written(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def lists(kind=None):
    return pa.array(X.tolist(), type=kind or pa.list_(pa.float32()))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 3)]
)
def test_parquet_lists_of_any_kind_come_back(tmp_path, kind):
    table = read_table(written(tmp_path / "a.parquet", embedding=lists(kind), label=["a", "b"] * 3))
    assert np.array_equal(table.rows, X)
    assert table.labels.tolist() == ["a", "b"] * 3
    assert table.classes is None


def test_rows_without_labels_are_unlabelled(tmp_path):
    assert read_table(written(tmp_path / "a.parquet", x=lists())).labels is None


def test_an_empty_cell_becomes_a_row_of_nan(tmp_path):
    column = pa.array([X[0].tolist(), None, X[2].tolist()], type=pa.list_(pa.float32()))
    rows = read_table(written(tmp_path / "a.parquet", embedding=column)).rows
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, False]
    assert np.array_equal(rows[2], X[2])


def test_columns_that_cannot_be_rows_are_refused(tmp_path):
    for columns, message in (
        ({"embedding": pa.array([[1.0], [1.0, 2.0]])}, "one length"),
        ({"embedding": pa.array(["a", "b"])}, "lists of numbers"),
        ({"vector": lists()}, "found vector"),
        ({"x": lists(), "label": pa.array([1, None, 1, 1, 1, 1])}, "label"),
    ):
        with pytest.raises(DataError, match=message):
            read_table(written(tmp_path / "a.parquet", **columns))


def test_a_column_name_that_is_no_text_is_refused(tmp_path):
    path = written(tmp_path / "a.parquet", embedding=lists(), note=["a"] * 6)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"note", b"n\xffte"))
    with pytest.raises(DataError, match="must be complete"):
        read_table(path)


@pytest.mark.parametrize("names", [["a", ["b"]], [{}, "b"], [0.5, 1.5], [None, "b"], "ab", {"a": 1}, 7])
def test_recorded_class_names_that_are_none_are_refused(tmp_path, names):
    table = pa.table({"embedding": lists(), "label": [0, 1] * 3})
    told = json.dumps({"info": {"features": {"label": {"names": names}}}})
    pq.write_table(table.replace_schema_metadata({"huggingface": told}), tmp_path / "a.parquet")
    with pytest.raises(DataError):
        read_table(tmp_path / "a.parquet")


def test_a_hugging_face_folder_brings_its_class_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        embedding=datasets.Sequence(datasets.Value("float32")),
        label=datasets.ClassLabel(names=["cat", "dog"]),
    )
    plain = datasets.Dataset.from_dict({"embedding": X.tolist(), "label": [0, 1] * 3}, features=features)
    chosen = plain.select([5, 0])
    datasets.DatasetDict(train=plain, test=chosen).save_to_disk(tmp_path / "splits")
    plain.save_to_disk(tmp_path / "one")
    plain.to_parquet(tmp_path / "one.parquet")
    for name in ("one", "one.parquet"):
        table = read_table(tmp_path / name)
        assert np.array_equal(table.rows, X)
        assert (table.classes, table.labels.tolist()) == (("cat", "dog"), [0, 1] * 3)
    assert np.array_equal(read_table(tmp_path / "splits", Columns(split="test")).rows, X[[5, 0]])
    with pytest.raises(DataError, match="test, train"):
        read_table(tmp_path / "splits")
    with pytest.raises(DataError, match="no splits"):
        read_table(tmp_path / "one", Columns(split="train"))
    for file in (tmp_path / "one").glob("*.arrow"):
        file.unlink()
    with pytest.raises(DataError, match="load_from_disk"):
        read_table(tmp_path / "one")


def test_a_column_tells_whose_each_row_is(tmp_path):
    ids = pa.array(["b", "a", None, "b", "", "a"]).dictionary_encode()
    path = written(tmp_path / "a.parquet", x=lists(), label=[0, 1] * 3, patient=ids, odd=lists())
    assert read_table(path, Columns(person="patient")).people.tolist() == [0, 1, 2, 0, 3, 1]
    assert read_table(path).people is None
    path = written(tmp_path / "b.parquet", x=lists(), patient=ids, odd=lists())
    assert read_table(path, Columns(person="patient")).people.tolist() == [0, 1, 2, 0, 3, 1]
    with pytest.raises(DataError, match="column 'who'; found odd, patient, x"):
        read_table(path, Columns(person="who"))
    with pytest.raises(DataError, match="got the type list"):
        read_table(path, Columns(person="odd"))


def test_a_column_per_feature_gives_rows_in_the_order_of_names(tmp_path):
    columns = {
        "f10": [10, None, 10],
        "f2": pa.array([2.0, 2.5, -2.0], type=pa.float32()),
        "label": [1.0, 0.0, 1.0],
        "word": ["a", "b", "c"],
        "seen": [True, False, None],
        "who": [7, 8, 7],
        "__index_level_0__": [5, 6, 7],
    }
    table = read_table(written(tmp_path / "a.parquet", **columns), Columns(person="who"))
    expected = [[2, 10, 1], [2.5, np.nan, 0], [-2, 10, np.nan]]
    assert np.array_equal(table.rows, expected, equal_nan=True)
    assert (table.labels.tolist(), table.people.tolist()) == ([1.0, 0.0, 1.0], [0, 1, 0])
    assert read_private(tmp_path / "a.parquet", classes=[0, 1], people="who").labels.tolist() == [1, 0, 1]
    assert read_table(tmp_path / "a.parquet", Columns(features="f*")).rows.shape == (3, 2)
    with pytest.raises(DataError, match="'word' must fit a column of numbers"):
        read_table(tmp_path / "a.parquet", Columns(features="word"))


def test_features_are_named_for_tables_alone(tmp_path):
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match="columns of features are those of"):
        read_table(tmp_path / "a.npy", Columns(features="f*"))


def test_the_column_of_labels_may_have_any_name(tmp_path):
    path = written(tmp_path / "a.parquet", x=[[1.0], [2.0]], dx=["b", "a"], note=["hi", "ho"])
    assert read_private(path, Columns(label="dx"), classes=["a", "b"]).labels.tolist() == [1, 0]
    notes = find_texts(path, Columns(text="note", label="dx"), classes=["a", "b"])
    assert notes.labels.tolist() == [1, 0]
    assert find_texts(path, Columns(text="note")).labels is None


def test_features_that_are_named_one_by_one_come_in_that_order_and_a_list_column_needs_no_names(tmp_path):
    path = written(tmp_path / "a.parquet", b=[1.0, 2.0], x=[3.0, 4.0], note=["p", "q"])
    found = read_table(path, Columns(features=["x", "b"]))
    assert (found.columns, found.rows.tolist()) == (("x", "b"), [[3, 1], [4, 2]])
    with pytest.raises(DataError, match="'note'"):
        read_table(path, Columns(features=["x", "note"]))
    path = written(tmp_path / "b.parquet", x=[[1.0, 2.0]])
    assert read_table(path, Columns(features=["p", "q"])).columns is None


@pytest.mark.parametrize(
    "labels",
    [[["a"], ["b"]] * 3, [["a"], ["a", "b"]] * 3, [{"name": "a"}] * 6, [b"a"] * 6, [date(2026, 1, 1)] * 6],
)
def test_labels_that_are_no_words_or_numbers_are_refused_by_their_type(tmp_path, labels):
    path = written(tmp_path / "a.parquet", embedding=lists(), text=["so"] * 6, label=labels)
    for door in (read_table, find_texts):
        with pytest.raises(DataError, match="one word or number"):
            door(path)


def test_labels_of_a_dictionary_or_another_column_are_fine(tmp_path):
    words = pa.array(["a", "b"] * 3).dictionary_encode()
    path = written(tmp_path / "a.parquet", embedding=lists(), label=[["x"]] * 6, grade=words)
    assert read_table(path, Columns(label="grade")).labels.tolist() == ["a", "b"] * 3
