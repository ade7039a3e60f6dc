from pathlib import Path

import pytest

from dptransfer.data.columns import feature_names
from dptransfer.errors import DataError

HERE = Path("a.csv")


def test_the_order_of_features_is_that_of_their_names_and_not_of_the_file():
    one = ["f10", "f9", "f2", "x", "f02", "label"]
    assert feature_names(HERE, one, None) == feature_names(HERE, one[::-1], None)
    assert feature_names(HERE, one, "f*")[-2:] == ["f9", "f10"]


def test_labels_people_and_row_numbers_are_no_features():
    columns = ["label", "y", "labels", "patient", "__index_level_0__", "a"]
    assert feature_names(HERE, columns, None, ["patient"]) == ["a"]
    assert "patient" in feature_names(HERE, columns, None)
    assert feature_names(HERE, columns, "y,a", ["patient"]) == ["a", "y"]  # who names it wants it


def test_what_fits_no_column_or_two_of_one_name_is_refused():
    with pytest.raises(DataError, match=r"'g\*' must fit a column"):
        feature_names(HERE, ["f1"], "f*,g*")
    with pytest.raises(DataError, match="one name"):
        feature_names(HERE, ["f1", "f1"], None)


def test_names_of_any_length_and_script_have_an_order():
    names = ["f" + "9" * 5000, "f" + "1" * 5001, "f²", "", "é1"]
    assert sorted(feature_names(HERE, names, None)) == sorted(names)
    assert feature_names(HERE, names[:2], None) == names[:2]
