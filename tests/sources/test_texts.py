import pytest

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import TextList, find_texts

CLASSES = ["part", "greet"]


@pytest.fixture
def csv(tmp_path):
    def written(text, name="a.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def test_a_csv_of_texts_and_labels_is_read(csv):
    path = csv('text,label\n"hello, you",greet\nbye,part\n')
    found = find_texts(path, classes=CLASSES)
    assert (found.texts, found.labels.tolist()) == (("hello, you", "bye"), [1, 0])
    assert "hello" not in repr(found)
    with pytest.raises(DataError, match="never inferred"):
        find_texts(path)
    assert find_texts(path, labelled=False) == TextList(("hello, you", "bye"))


def test_texts_and_labels_may_be_in_other_columns_and_in_a_parquet_file(csv, parquet):
    for path in (
        csv("id,note,dx\n7,hello,greet\n8,bye,part\n"),
        parquet(note=["hello", "bye"], dx=["greet", "part"]),
    ):
        found = find_texts(path, Columns(text="note", label="dx"), classes=CLASSES)
        assert (found.texts, found.labels.tolist()) == (("hello", "bye"), [1, 0])
        nowhere = Columns(text="note", label="nowhere")
        assert find_texts(path, nowhere, labelled=False).labels is None
        for columns, rule in ((Columns(), "column 'text'"), (nowhere, "column 'nowhere'")):
            with pytest.raises(DataError, match=rule):
                find_texts(path, columns, classes=CLASSES)
    for bad in (["hello", None], [1, 2]):
        with pytest.raises(DataError, match="filled with words"):
            find_texts(parquet(text=bad), labelled=False)


def test_a_plain_file_holds_one_text_per_line(csv):
    assert find_texts(csv("one\n\ntwo\n", "a.txt")).texts == ("one", "two")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "a.doc").touch()
    for name, word in (
        ("empty.txt", "none"),
        ("latin.txt", "UTF-8"),
        ("a.doc", "'.doc'"),
        ("no.txt", "exist"),
    ):
        with pytest.raises(DataError, match=word):
            find_texts(tmp_path / name)


def test_people_of_texts_come_from_a_column_or_a_file(csv, parquet):
    path = csv("text,caller\nhello,7\nbye,8\nbye bye, 7\nso long\n")
    assert find_texts(path, Columns(person="caller")).people.tolist() == [0, 1, 0, 2]
    assert find_texts(path).people is None
    plain, callers = csv("one\ntwo\n", "a.txt"), csv("example,person\n1,ann\n0,ann\n", "callers.csv")
    assert find_texts(plain, Columns(person=callers)).people.tolist() == [0, 0]
    gaps = parquet(text=list("abcd"), caller=[2**60, None, 2**60 + 1, 2**60], on=[True] * 4)
    assert find_texts(gaps, Columns(person="caller")).people.tolist() == [0, 1, 2, 0]
    for file, person, rule in (
        (plain, "caller", "no column"),
        (path, "patient", "column 'patient'"),
        (path, "dicom", "got 'dicom'"),
        (gaps, "who", "found caller"),
        (gaps, "on", "type bool"),
    ):
        with pytest.raises(DataError, match=rule):
            find_texts(file, Columns(person=person))
