import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.data.table_files import delimiter_of
from dptransfer.data.tables import declared_labels
from dptransfer.errors import DataError
from dptransfer.sources import find_images, find_texts, read_private, read_public, read_table

TABLE = "f2,label,f10,patient,f1\n2,cat,10,ann,1\n2.5,dog,,bob,1e3\n-2,cat,10,ann,nan\n"
CAT_DOG = {"classes": ["cat", "dog"]}


@pytest.fixture
def csv(tmp_path):
    def written(text):
        (tmp_path / "a.csv").write_text(text)
        return tmp_path / "a.csv"

    return written


def test_a_column_per_feature_gives_rows_in_the_order_of_names(csv):
    table = csv(TABLE)
    read = read_table(table, Columns(person="patient"))
    assert np.array_equal(read.rows, [[1, 2, 10], [1000, 2.5, np.nan], [np.nan, -2, 10]], equal_nan=True)
    assert (read.labels.tolist(), read.people.tolist()) == (["cat", "dog", "cat"], [0, 1, 0])
    assert read_table(table, Columns(features="f1*")).rows.shape == (3, 2)
    private = read_private(table, Columns(features="f2"), people="patient", **CAT_DOG)
    assert (private.labels.tolist(), private.people.tolist()) == ([0, 1, 0], [0, 1, 0])
    assert read_public(table, Columns(features="f2")).classes == ("cat", "dog")
    with pytest.raises(DataError, match="must be declared"):
        read_private(table, people="patient")
    with pytest.raises(DataError, match="column 'who'"):
        read_table(table, Columns(person="who"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f1,f2\n1,secret\n", "must hold numbers"),
        ("0.5,0.25\n1,2\n", "with words"),
        ("label\ncat\n", "no column"),
        ('f1,f2\n"1,2\n', "must be a CSV"),
        ("f1;label\n0,25;secret\n", "decimal point"),
        ("f1,diagnosis\n1,secret\n", "--label-column NAME"),
    ],
)
def test_what_is_no_table_of_features_is_refused_without_a_word_of_it(csv, text, message):
    with pytest.raises(DataError, match=message) as refusal:
        read_table(csv(text))
    assert not any(word in str(refusal.value) for word in ("secret", "0.25"))


def test_whole_numbers_are_matched_however_they_are_written(csv, tmp_path):
    for words, classes, found in (
        (["1", "1.0", " 2 ", "2.00"], [1, 2], [0, 0, 1, 1]),
        (["1.0", "1"], ["1", "1.0"], [1, 0]),
    ):
        assert declared_labels(tmp_path, words, classes).positions.tolist() == found
    with pytest.raises(DataError, match="at least one"):
        declared_labels(tmp_path, ["1.5"], [1, 2])
    assert read_private(csv("f1,label\n0,1.0\n1,0\n"), classes=[0, 1]).labels.tolist() == [1, 0]


def test_labels_may_be_in_a_column_of_any_name_which_is_then_no_feature(csv):
    path = csv("f1,grade,f2,label\n1,3,2,7\n4,5,6,7\n")
    private = read_private(path, Columns(label="grade", features="*"), classes=[3, 5])
    assert private.labels.tolist() == [0, 1]
    assert private.rows.tolist() == [[1, 2, 7], [4, 6, 7]]  # 'label' was asked for, 'grade' says the class
    assert read_private(path, Columns(label="grade"), classes=[3, 5]).rows.tolist() == [[1, 2], [4, 6]]
    assert read_public(path, Columns(label="nowhere")).labels is None  # a pool need not have it
    with pytest.raises(DataError, match="under 'nowhere'"):
        read_private(path, Columns(label="nowhere"), classes=[3, 5])


@pytest.mark.parametrize(
    ("mark", "lines"),
    [
        (",", ("path,label", "path", "", "a;b,c", '"a;b;c",label', '"unfinished;a,b')),  # quotes are a name
        (";", ("path;label", "a;b\tc", "a,b;c;d")),  # of equals the comma, and then the semicolon
        ("\t", ("path\tlabel",)),
    ],
)
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_the_first_line_says_what_separates_columns_and_all_are_read_alike(tmp_path, mark, lines, start):
    assert {delimiter_of(line) for line in lines} == {mark}

    def written(name, *lines):
        text = "\n".join(mark.join(line) for line in lines)
        (tmp_path / name).write_text(start + text + "\n", encoding="utf-8")
        return tmp_path / name

    rows = written("rows.csv", ("f1", "label", "f2"), ("0.5", "cat", "1"), ("2", "dog", ""))
    read = read_private(rows, **CAT_DOG)
    assert np.array_equal(read.rows, [[0.5, 1], [2, np.nan]], equal_nan=True)
    assert read.labels.tolist() == [0, 1]
    paths = written("paths.csv", ("path", "label", "who"), ("a.png", "dog", "x"), ("b.png", "cat", ""))
    found = find_images(paths, Columns(person="who"), **CAT_DOG)
    assert [path.name for path in found.paths] == ["a.png", "b.png"]
    assert (found.labels.tolist(), found.people.tolist()) == ([1, 0], [0, 1])
    texts = written("texts.csv", ("text", "label"), ('"so, so; so\tso"', "cat"))
    assert find_texts(texts, **CAT_DOG).texts == ("so, so; so\tso",)


def test_paths_may_be_in_a_column_of_any_name(csv, tmp_path):
    photo = Columns(path="photo")
    for text, name in (
        ("photo;label\na.png;cat\n", "a.png"),
        ("path,photo,label\na.png,b.png,cat\n", "b.png"),
        ("path,label\na.png,cat\n", "a.png"),  # one name for all tables: a pool need not have it
    ):
        assert find_images(csv(text), photo, classes=["cat"]).paths == (tmp_path / name,)
    with pytest.raises(DataError, match="'photo'"):
        find_images(csv("file,label\na.png,cat\n"), photo)


@pytest.mark.parametrize(
    ("find", "columns", "line"),
    [
        (find_images, Columns(person="patient_id"), "path,label,patient_id"),
        (find_images, Columns(label="diagnosis"), "path,diagnosis"),
        (find_texts, Columns(), "text,label"),
    ],
)
def test_the_advice_for_a_first_line_keeps_labels_and_people(csv, find, columns, line):
    with pytest.raises(DataError, match=f"{line}.*-column"):
        find(csv("file,dx\na.png,cat\n"), columns)
