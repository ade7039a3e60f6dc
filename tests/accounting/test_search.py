import math

import pytest

from dptransfer.accounting.search import largest, smallest


@pytest.mark.parametrize("root", [1.5e-3, 1.0, math.pi, 9.9e8])
def test_smallest_returns_a_number_that_was_tried_and_the_next_smaller_one_fails(root):
    tried = {}

    def fits(x):
        tried[x] = x >= root
        return tried[x]

    found = smallest(fits, 1e-3, 1e9)
    assert tried[found]
    assert not fits(found * (1 - 2e-6))


@pytest.mark.parametrize("root", [1.5e-3, 1.0, math.pi, 9.9e8])
def test_largest_returns_a_number_that_was_tried_and_the_next_larger_one_fails(root):
    tried = {}

    def fits(x):
        tried[x] = x <= root
        return tried[x]

    found = largest(fits, 1e-3, 1e9)
    assert tried[found]
    assert not fits(found * (1 + 2e-6))


def test_ends_that_decide_are_not_searched_further():
    assert smallest(lambda x: True, 0.5, 2.0) == 0.5
    assert largest(lambda x: True, 0.5, 2.0) == 2.0
    assert smallest(lambda x: False, 0.5, 2.0) is None
    assert largest(lambda x: False, 0.5, 2.0) is None
