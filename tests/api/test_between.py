import numpy as np
import pytest

from dptransfer.api.between import NOBODY, equal_twins, near_twins


def by_all_pairs(points, others, reach):
    """The first within reach, by comparing all with all; of the same points, with those before."""
    found = []
    for place, point in enumerate(points):
        there = others[:place] if others is points else others
        close = np.flatnonzero(np.linalg.norm(there - point, axis=1) <= reach)
        found.append(int(close[0]) if len(close) else NOBODY)
    return found


@pytest.mark.parametrize("far", [0, 5000])
@pytest.mark.parametrize("within", [True, False])
def test_near_twins_are_those_of_all_pairs(within, far, monkeypatch):
    monkeypatch.setattr("dptransfer.api.between._TWIN_CHUNK", 16)  # so that many stand at the edge of one
    rng = np.random.default_rng(1)
    points = rng.integers(0, 15, (600, 3)) + far * np.arange(3)  # whole numbers: none is at the edge of reach
    others = points if within else rng.integers(0, 15, (400, 3)) + far * np.arange(3)
    expected = by_all_pairs(points, others, 1.5)
    assert near_twins(points, 1.5, None if within else others).tolist() == expected
    assert 20 < expected.count(NOBODY) < len(points) - 20  # there are some, and others


def test_many_points_in_one_place_are_twins_of_the_first():
    assert near_twins(np.ones((3000, 2)), 0.1).tolist() == [NOBODY, *[0] * 2999]


def test_nobody_has_twins_among_none():
    assert near_twins(np.zeros((2, 3)), 1.0, np.zeros((0, 3))).tolist() == [NOBODY] * 2
    assert near_twins(np.zeros((0, 3)), 1.0).tolist() == []


def test_an_empty_content_has_no_twin():
    assert equal_twins([b"", b"a", b""]).tolist() == [NOBODY] * 3
    assert equal_twins([b""], [b""]).tolist() == [NOBODY]
