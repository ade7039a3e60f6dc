import math

import pytest

from dptransfer.accounting.safe_search import largest, largest_whole, smallest, smallest_root


@pytest.mark.parametrize("root", [1.5e-3, 1.0, math.pi, 9.9e8])
@pytest.mark.parametrize(("search", "side"), [(smallest, 1), (largest, -1)])
def test_what_is_returned_was_tried_and_the_next_one_further_fails(root, search, side):
    tried = {}

    def fits(x):
        tried[x] = side * x >= side * root
        return tried[x]

    found = search(fits, 1e-3, 1e9)
    assert tried[found]
    assert not fits(found * (1 - side * 2e-6))


def test_ends_that_decide_are_not_searched_further():
    assert smallest(lambda x: True, 0.5, 2.0) == 0.5
    assert largest(lambda x: True, 0.5, 2.0) == 2.0
    assert smallest(lambda x: False, 0.5, 2.0) is None
    assert largest(lambda x: False, 0.5, 2.0) is None


@pytest.mark.parametrize("root", [1.5e-3, 1.0, math.pi, 9.9e8])
@pytest.mark.parametrize("power", [0.2, 1, 7])
def test_smallest_root_returns_a_number_that_was_tried_and_needs_few(root, power):
    tried = {}

    def excess(x):
        tried[x] = (root / x) ** power - 1
        return tried[x]

    found = smallest_root(excess, 1e-3, 1e9, tolerance=1e-6)
    assert tried[found] <= 0
    assert root <= found <= root * (1 + 1e-6)
    assert len(tried) < 60


def test_smallest_root_is_quick_from_nearby_and_ends_decide():
    tried = []

    def excess(x):
        tried.append(x)
        return 3 * math.log(2.0 / x)

    assert smallest_root(excess, 1.8, 2.1, tolerance=1e-6) == pytest.approx(2.0, rel=1e-6)
    assert len(tried) <= 5
    assert smallest_root(lambda x: -1.0, 0.5, 2.0, tolerance=1e-6) == 0.5
    assert smallest_root(lambda x: 1.0, 0.5, 2.0, tolerance=1e-6) is None
    stairs = smallest_root(lambda x: math.copysign(1.0, 1.3 - x), 0.5, 2.0, tolerance=1e-6)
    assert 1.3 <= stairs <= 1.3 * (1 + 1e-6)


@pytest.mark.parametrize("most", [1, 2, 3, 28, 63, 64, 65, 1000])
def test_largest_whole_finds_every_number(most):
    assert largest_whole(lambda n: n <= most, 1000) == most
    assert largest_whole(lambda n: n <= most, 5) == min(most, 5)
    assert largest_whole(lambda n: False, most) is None
