"""What `--classes` and `--set data.FIELD=VALUE` declare."""

from pathlib import Path

import pytest

from dptransfer.cli.options import ABOUT_DATA, SIZES, class_list, settings_of
from dptransfer.errors import ArgumentError


def test_classes_are_a_number_a_list_or_a_file(tmp_path):
    assert class_list("3") == (0, 1, 2)
    assert class_list(" cat, dog ") == ("cat", "dog")
    assert class_list("4,7") == (4, 7)
    assert class_list("007,8") == ("007", "8")
    file = tmp_path / "classes.txt"
    file.write_text("café\r\n dog \r\n\r\n", encoding="utf-8-sig")
    assert class_list(str(file)) == ("café", "dog")


@pytest.mark.parametrize("text", ["cat,,dog", "cat, ,dog", ",cat,dog", "cat,dog,"])
def test_an_empty_name_in_a_list_is_refused(text):
    """Left out silently, it would move the classes after it, and labels may be places in the list."""
    with pytest.raises(ArgumentError, match="name every class"):
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
    with pytest.raises(ArgumentError, match="it as UTF-8"):
        class_list(str(file))


def test_settings_are_of_the_method_or_with_data_in_front_of_the_data():
    texts = ["k = 5", "pace.reach=2=3", "data.size=900", "data.class_counts=120, 80", "data.labels=y.npy"]
    told = ["data.new_data_set=true", "data.split=7"]
    assert settings_of([*texts, *told], ABOUT_DATA) == (
        {"k": "5", "pace.reach": "2=3"},
        {"size": 900, "class_counts": (120, 80), "labels": Path("y.npy"), "new_data_set": True, "split": "7"},
    )
    assert settings_of(None, SIZES) == ({}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data.class_counts=120;80", "'class_counts' must be of the type tuple"),
        ("data.size=many", "'size' must be of the type int"),
        ("data.sise=5", "one of size, class_counts, person_bound, rows_per_person here; got 'sise'"),
        (
            "data.labels=y.npy",
            "one of size, class_counts, person_bound, rows_per_person here",
        ),  # a plan reads no data
        ("data.size", "--set takes field=value"),
        ("=5", "--set takes field=value"),
    ],
)
def test_settings_that_are_none_are_refused(text, said):
    with pytest.raises(ArgumentError, match=said):
        settings_of([text], SIZES)
