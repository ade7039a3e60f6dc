import pytest

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import TextList, find_texts


def test_a_csv_of_texts_and_labels_is_read(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"hello, you",greet\nbye,part\n')
    found = find_texts(tmp_path / "a.csv", classes=["part", "greet"])
    assert found.texts == ("hello, you", "bye")
    assert found.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="never inferred"):
        find_texts(tmp_path / "a.csv")
    assert find_texts(tmp_path / "a.csv", labelled=False) == TextList(("hello, you", "bye"))


def test_texts_may_be_in_another_column_and_in_a_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    (tmp_path / "a.csv").write_text("id,note,label\n7,hello,greet\n")
    assert find_texts(tmp_path / "a.csv", Columns(text="note"), labelled=False).texts == ("hello",)
    table = pyarrow.table({"note": ["hello", "bye"], "label": ["greet", "part"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    found = find_texts(tmp_path / "a.parquet", Columns(text="note"), classes=["part", "greet"])
    assert (found.texts, found.labels.tolist()) == (("hello", "bye"), [1, 0])
    with pytest.raises(DataError, match="in the column 'text'; there is none"):
        find_texts(tmp_path / "a.parquet", classes=["part", "greet"])
    for bad in ({"text": ["hello", None]}, {"text": [1, 2]}):
        pyarrow.parquet.write_table(pyarrow.table(bad), tmp_path / "b.parquet")
        with pytest.raises(DataError, match="filled with words"):
            find_texts(tmp_path / "b.parquet", labelled=False)


def test_a_plain_file_holds_one_text_per_line(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    assert find_texts(tmp_path / "a.txt").texts == ("one", "two")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "a.doc").touch()
    for name, message in (
        ("empty.txt", "holds none"),
        ("latin.txt", "UTF-8"),
        ("a.doc", "Unknown file type '.doc'"),
        ("none.txt", "must exist"),
    ):
        with pytest.raises(DataError, match=message):
            find_texts(tmp_path / name)


def test_printing_shows_no_text():
    assert "secret" not in repr(TextList(("secret",)))


def test_people_of_texts_come_from_a_column_or_a_file(tmp_path):
    (tmp_path / "a.csv").write_text("text,caller\nhello,7\nbye,8\nbye bye, 7\nso long\n")
    found = find_texts(tmp_path / "a.csv", Columns(person="caller"))
    assert found.people.tolist() == [0, 1, 0, 2]
    assert find_texts(tmp_path / "a.csv").people is None
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "callers.csv").write_text("example,person\n1,ann\n0,ann\n")
    assert find_texts(tmp_path / "a.txt", Columns(person=tmp_path / "callers.csv")).people.tolist() == [0, 0]
    with pytest.raises(DataError, match="no column"):
        find_texts(tmp_path / "a.txt", Columns(person="caller"))
    with pytest.raises(DataError, match="in the column 'patient'; the first line names none"):
        find_texts(tmp_path / "a.csv", Columns(person="patient"))


def test_people_of_texts_in_a_parquet_file_may_have_gaps(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {"text": list("abcd"), "caller": pa.array([2**60, None, 2**60 + 1, 2**60]), "on": [True] * 4}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert find_texts(tmp_path / "a.parquet", Columns(person="caller")).people.tolist() == [0, 1, 2, 0]
    with pytest.raises(DataError, match="in the column 'who'; found caller, on, text"):
        find_texts(tmp_path / "a.parquet", Columns(person="who"))
    with pytest.raises(DataError, match="got the type bool"):
        find_texts(tmp_path / "a.parquet", Columns(person="on"))


def test_the_labels_of_texts_may_be_in_a_column_of_any_name(tmp_path):
    (tmp_path / "a.csv").write_text("text,dx\nhello,greet\nbye,part\n")
    found = find_texts(tmp_path / "a.csv", Columns(label="dx"), classes=["part", "greet"])
    assert found.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="labels must be in the column 'nowhere'"):
        find_texts(tmp_path / "a.csv", Columns(label="nowhere"), classes=["part", "greet"])
    assert find_texts(tmp_path / "a.csv", Columns(label="nowhere"), labelled=False).labels is None
