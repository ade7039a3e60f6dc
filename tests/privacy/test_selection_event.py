import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation, SelectionEvent

ADD = Relation.ADD_REMOVE


@pytest.mark.parametrize("bad", ["False", 1, 0, None, np.True_])
def test_bounded_range_is_true_or_false_and_nothing_like_it(bad):
    with pytest.raises(ArgumentError, match="bounded_range"):
        SelectionEvent(1.0, ADD, bad, "exponential")


def test_a_mechanism_has_a_name():
    with pytest.raises(ArgumentError, match="mechanism"):
        SelectionEvent(1.0, ADD, True, 7)


def test_a_selection_is_said_in_a_few_words_and_in_a_row():
    choice = SelectionEvent(0.5, ADD, True, "exponential")
    assert choice.words() == "epsilon 0.5"
    assert choice.table_row() == ("exponential, ε = 0.5", "bounded range")
    assert SelectionEvent(0.5, ADD, False, "laplace").table_row() == ("laplace, ε = 0.5", "pure ε")
