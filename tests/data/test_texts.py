import pytest

from dptransfer.data import TextList, find_texts
from dptransfer.errors import DataError


def test_a_csv_of_texts_and_labels_is_read(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"hello, you",greet\nbye,part\n')
    found = find_texts(tmp_path / "a.csv", classes=["part", "greet"])
    assert found.texts == ("hello, you", "bye")
    assert found.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="never inferred"):
        find_texts(tmp_path / "a.csv")
    assert find_texts(tmp_path / "a.csv", labelled=False) == TextList(("hello, you", "bye"))


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
        ("a.doc", "Convert"),
        ("none.txt", "must exist"),
    ):
        with pytest.raises(DataError, match=message):
            find_texts(tmp_path / name)


def test_printing_shows_no_text():
    assert "secret" not in repr(TextList(("secret",)))
