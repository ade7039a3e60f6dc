import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.data.columns import declared_labels
from dptransfer.errors import DataError
from dptransfer.sources import find_images, find_texts, read_private, read_public, read_table
from dptransfer.sources.open_columns import delimiter_of

TABLE = "f2,label,f10,patient,f1\n2,cat,10,ann,1\n2.5,dog,,bob,1e3\n-2,cat,10,ann,nan\n"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    return tmp_path / "a.csv"


def test_a_column_per_feature_gives_rows_in_the_order_of_names(table):
    read = read_table(table, Columns(person="patient"))
    assert np.array_equal(read.rows, [[1, 2, 10], [1000, 2.5, np.nan], [np.nan, -2, 10]], equal_nan=True)
    assert (read.labels.tolist(), read.people.tolist()) == (["cat", "dog", "cat"], [0, 1, 0])
    assert read_table(table, Columns(features="f1*")).rows.shape == (3, 2)


def test_private_rows_of_a_csv_need_classes_and_know_their_people(table):
    with pytest.raises(DataError, match="must be declared"):
        read_private(table, people="patient")
    private = read_private(table, Columns(features="f2"), people="patient", classes=["cat", "dog"])
    assert (private.labels.tolist(), private.people.tolist()) == ([0, 1, 0], [0, 1, 0])
    assert read_public(table, Columns(features="f2")).classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f1,f2\n1,secret\n", "must hold numbers or be empty"),
        ("f1,f2\n1\n", "fill every column"),
        ("0.5,0.25\n1,2\n", "with words"),
        ("label\ncat\n", "no column"),
        ("f1,f2\n", "no examples"),
        ("", "with words"),
        ('f1,f2\n"1,2\n', "must be a CSV"),
        ("f1;label\n0,25;secret\n", "decimal point"),
        ("f1,diagnosis\n1,secret\n", "--label-column NAME"),
    ],
)
def test_what_is_no_table_of_features_is_refused_without_a_word_of_it(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message) as refusal:
        read_table(tmp_path / "a.csv")
    assert "secret" not in str(refusal.value)
    assert "0.25" not in str(refusal.value)


def test_a_column_of_people_that_is_not_there_is_refused(table):
    with pytest.raises(DataError, match="column 'who'"):
        read_table(table, Columns(person="who"))


def test_whole_numbers_are_matched_however_they_are_written(tmp_path):
    words = ["1", "1.0", " 2 ", "2.00"]
    assert declared_labels(tmp_path, words, [1, 2]).positions.tolist() == [0, 0, 1, 1]
    assert declared_labels(tmp_path, ["1.0", "1"], ["1", "1.0"]).positions.tolist() == [1, 0]
    with pytest.raises(DataError, match="at least one"):
        declared_labels(tmp_path, ["1.5"], [1, 2])
    (tmp_path / "a.csv").write_text("f1,label\n0,1.0\n1,0\n")
    assert read_private(tmp_path / "a.csv", classes=[0, 1]).labels.tolist() == [1, 0]


def test_labels_may_be_in_a_column_of_any_name_which_is_then_no_feature(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("f1,grade,f2,label\n1,3,2,7\n4,5,6,7\n")
    private = read_private(path, Columns(label="grade", features="*"), classes=[3, 5])
    assert private.labels.tolist() == [0, 1]
    assert private.rows.tolist() == [[1, 2, 7], [4, 6, 7]]  # 'label' was asked for, 'grade' says the class
    assert read_private(path, Columns(label="grade"), classes=[3, 5]).rows.tolist() == [[1, 2], [4, 6]]
    assert read_public(path, Columns(label="nowhere")).labels is None  # a pool need not have it
    with pytest.raises(DataError, match="under 'nowhere'"):
        read_private(path, Columns(label="nowhere"), classes=[3, 5])


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("path,label", ","),
        ("path;label", ";"),
        ("path\tlabel", "\t"),
        ("path", ","),
        ("", ","),
        ("a;b,c", ","),  # of equals the comma
        ("a;b\tc", ";"),  # and then the semicolon
        ("a,b;c;d", ";"),
        ('"a;b;c",label', ","),  # what is in quotes is part of a name
        ('"unfinished;a,b', ","),
    ],
)
def test_the_first_line_alone_says_what_separates_columns(line, mark):
    assert delimiter_of(line) == mark


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_tables_with_any_delimiter_are_read_alike(tmp_path, mark, start):
    def written(name, *lines):
        text = "\n".join(mark.join(line) for line in lines)
        (tmp_path / name).write_text(start + text + "\n", encoding="utf-8")
        return tmp_path / name

    rows = written("rows.csv", ("f1", "label", "f2"), ("0.5", "cat", "1"), ("2", "dog", ""))
    read = read_private(rows, classes=["cat", "dog"])
    assert np.array_equal(read.rows, [[0.5, 1], [2, np.nan]], equal_nan=True)
    assert read.labels.tolist() == [0, 1]
    paths = written("paths.csv", ("path", "label", "who"), ("a.png", "dog", "x"), ("b.png", "cat", ""))
    found = find_images(paths, Columns(person="who"), classes=["cat", "dog"])
    assert [path.name for path in found.paths] == ["a.png", "b.png"]
    assert (found.labels.tolist(), found.people.tolist()) == ([1, 0], [0, 1])
    texts = written("texts.csv", ("text", "label"), ('"so, so; so\tso"', "cat"))
    assert find_texts(texts, classes=["cat", "dog"]).texts == ("so, so; so\tso",)


def test_paths_may_be_in_a_column_of_any_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("photo;label\na.png;cat\n")
    assert find_images(path, Columns(path="photo"), classes=["cat"]).paths == (tmp_path / "a.png",)
    path.write_text("path,photo\na.png,b.png\n")
    assert find_images(path, Columns(path="photo")).paths == (tmp_path / "b.png",)
    path.write_text("path,label\na.png,cat\n")  # one name for all tables: a pool need not have it
    assert find_images(path, Columns(path="photo"), classes=["cat"]).paths == (tmp_path / "a.png",)
    path.write_text("file,label\na.png,cat\n")
    with pytest.raises(DataError, match="'photo'"):
        find_images(path, Columns(path="photo"))


def test_the_advice_for_a_first_line_keeps_labels_and_people(tmp_path):
    (tmp_path / "a.csv").write_text("file,diagnosis\na.png,cat\n")
    with pytest.raises(DataError, match=r"path,label,patient_id.*--path-column"):
        find_images(tmp_path / "a.csv", Columns(person="patient_id"))
    with pytest.raises(DataError, match=r"text,label, .*--text-column"):
        find_texts(tmp_path / "a.csv")
    with pytest.raises(DataError, match="path,diagnosis"):
        find_images(tmp_path / "a.csv", Columns(label="diagnosis"))
