"""What `--classes` and `--class-counts` declare."""

from pathlib import Path

import pytest

from dptransfer.cli.declared import class_list, class_sizes
from dptransfer.errors import ArgumentError


def test_classes_are_a_number_a_list_or_a_file(tmp_path):
    assert class_list("3") == (0, 1, 2)
    assert class_list(" cat, dog ") == ("cat", "dog")
    assert class_list("4,7") == (4, 7)
    file = tmp_path / "classes.txt"
    file.write_text("cat\r\ndog\r\n\r\n", encoding="utf-8-sig")
    assert class_list(str(file)) == ("cat", "dog")


@pytest.mark.parametrize("text", ["cat,,dog", "cat, ,dog", ",cat,dog", "cat,dog,"])
def test_an_empty_name_in_a_list_is_refused(text):
    """Left out silently, it would move the classes after it, and labels may be places in the list."""
    with pytest.raises(ArgumentError, match="must name every class"):
        class_list(text)


@pytest.mark.parametrize("text", ["\ncat\ndog\n", "cat\n  \ndog\n"])
def test_a_blank_line_between_names_is_refused(tmp_path, text):
    file = Path(tmp_path / "classes.txt")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="blank line"):
        class_list(str(file))


@pytest.mark.parametrize("text", ["", "cat", "-3", "0", "1", "1000001"])
def test_what_declares_no_classes_is_refused(text):
    with pytest.raises(ArgumentError, match="--classes"):
        class_list(text)


def test_a_file_in_another_encoding_is_refused(tmp_path):
    file = tmp_path / "classes.txt"
    file.write_bytes("é\nb\n".encode("latin-1"))
    with pytest.raises(ArgumentError, match="Save it as UTF-8"):
        class_list(str(file))


def test_class_counts_are_whole_numbers():
    assert class_sizes(None) is None
    assert class_sizes("120, 80") == (120, 80)
    with pytest.raises(ArgumentError, match="--class-counts"):
        class_sizes("120;80")
