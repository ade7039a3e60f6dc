import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.privacy import Relation
from dptransfer.queries import CorrectCount

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, stays_within


def query(seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    return CorrectCount(
        MAPS["unit norm"],
        linear=rng.normal(size=(CLASSES, WIDTH)) * size,
        offset=rng.normal(size=CLASSES) * size,
        precision=np.abs(rng.normal(size=(CLASSES, WIDTH))) * size,
    )


@of_neighbours(seed=st.integers(0, 9), size=st.sampled_from([0.0, 1e-9, 1.0, 1e6]))
def test_one_example_moves_the_count_by_one_at_most(data, first, second, seed, size):
    assert stays_within(query(seed, size), data, first, second)


def east_or_west():
    linear = np.zeros((CLASSES, WIDTH))
    linear[0, 0], linear[1, 0] = 1.0, -1.0
    return CorrectCount(MAPS["unit norm"], linear, np.zeros(CLASSES))


def test_the_sensitivity_is_reached_under_either_relation():
    right, wrong = ([1.0, 0.0, 0.0], 0), ([1.0, 0.0, 0.0], 1)
    assert reach(east_or_west(), right, wrong, Relation.ADD_REMOVE) == 1
    assert reach(east_or_west(), right, wrong, Relation.REPLACE_ONE) == 1


def test_it_counts_what_plain_arithmetic_counts_in_any_chunks(monkeypatch):
    rng = np.random.default_rng(4)
    asked, x, y = query(3), rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    scores = asked.offset + unit @ asked.linear.T - 0.5 * (unit * unit) @ asked.precision.T
    expected = int((scores.argmax(axis=1) == y).sum())
    for elements in (1, 64, 10**9):
        monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
        assert asked(x, y) == expected * asked.grid
    assert asked(*EMPTY) == 0


def test_scores_that_differ_in_the_ninth_digit_are_told_apart():
    linear = np.zeros((CLASSES, WIDTH))
    linear[:2, 0] = 1.0, 1.0 + 1e-7
    asked = CorrectCount(MAPS["unit norm"], linear, np.zeros(CLASSES))
    x = np.array([[1.0, 0.0, 0.0]])
    assert asked(x, np.array([1])) == asked.grid
    assert asked(x, np.array([0])) == 0


@pytest.mark.parametrize("size", [1e-305, 1e150, 1e307])
def test_classifiers_of_any_finite_size_are_counted_and_others_refused(size):
    rng = np.random.default_rng(0)
    linear, precision = rng.normal(size=(3, 4)), np.abs(rng.normal(size=(3, 4)))
    rows, labels = rng.normal(size=(50, 4)), rng.integers(0, 3, 50)
    unit = UnitNorm().fit(4, None)
    plain = CorrectCount(unit, linear, np.zeros(3), precision)(rows, labels)
    assert (CorrectCount(unit, linear * size, np.zeros(3), precision * size)(rows, labels) == plain).all()
    CorrectCount(unit, linear, np.zeros(3), precision * size)(rows, labels)
    with pytest.raises(ArgumentError, match="finite"):
        CorrectCount(unit, linear, np.full(3, np.nan))(rows[:0], labels[:0])
