import numpy as np

from dptransfer.base.arrays import array_or_none


def test_lists_of_unequal_length_are_no_array_and_nothing_is_told_of_them():
    assert array_or_none([[1.0], [2.0, 3.0]]) is None
    assert array_or_none([[1.0], [2.0]]).shape == (2, 1)


def test_an_array_is_not_copied():
    rows = np.eye(2)
    assert array_or_none(rows) is rows
