import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.errors import ArgumentError
from dptransfer.exact.capped_similarity import ClassSimilarity
from dptransfer.exact.lattice import unit_lattice

from .problems import CAPS, CLASSES, ONE, class_similarity, expected, problem, weights_for


@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
def test_scores_are_those_of_python_integers(caps):
    private, labels, public = problem(0)
    got = class_similarity(private, labels, CLASSES, public, *caps)
    assert got.dtype == np.int64
    assert (got == expected(private, labels, CLASSES, public, *caps)).all()
    assert not got[:, 2].any()


def test_scores_are_those_of_python_integers_on_the_small_grid():
    private, labels, public = problem(1, norm=127)
    for caps in ((0, 2 * 127**2), (127**2 - 900, 127**2 + 3_333)):
        got = class_similarity(private, labels, CLASSES, public, *caps, precision="int8")
        assert (got == expected(private, labels, CLASSES, public, *caps, precision="int8")).all()


@pytest.mark.parametrize("kind", ["some", "all different"])
@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
def test_weighted_scores_are_those_of_python_integers(caps, kind):
    private, labels, public = problem(8)
    weights = weights_for(len(private), kind)
    got = class_similarity(private, labels, CLASSES, public, *caps, weights=weights)
    assert got.dtype == np.int64
    assert (got == expected(private, labels, CLASSES, public, *caps, weights=weights)).all()


def test_a_weight_of_one_is_no_weight():
    private, labels, public = problem(9)
    for caps in CAPS.values():
        given = (private, labels, CLASSES, public, *caps)
        once = class_similarity(*given, weights=np.ones(len(private), dtype=np.int64))
        assert (once == class_similarity(*given)).all()


def test_float32_would_not_be_exact_one_step_beyond_the_grid():
    row = np.full(4, 2**12 + 1, dtype=np.int64)  # squares of 25 bits: the comparison above can fail
    assert int((row.astype(np.float32) * row.astype(np.float32)).sum()) != int(row @ row)


@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
@pytest.mark.parametrize(("rows", "candidates"), [(0, 2), (3, 0), (0, 0)])
def test_no_private_rows_or_no_candidates_are_ordinary(rows, candidates, caps):
    private, public = np.ones((rows, 3), dtype=np.int16), np.ones((candidates, 3), dtype=np.int16)
    got = class_similarity(private, np.zeros(rows, dtype=np.int64), CLASSES, public, *caps)
    assert got.shape == (candidates, CLASSES)
    assert (got == expected(private, [0] * rows, CLASSES, public, *caps)).all()


@steady
@given(st.data())
def test_one_more_row_raises_each_score_of_its_class_by_a_whole_number_in_the_range(data):
    private, labels, public = problem(data.draw(st.integers(0, 5)), count=8)
    low = data.draw(st.integers(0, 2 * ONE - 1))
    high = data.draw(st.integers(low + 1, 2 * ONE))
    new = unit_lattice(np.array([data.draw(st.lists(st.floats(-3, 3), min_size=12, max_size=12))]), 2047)
    label = data.draw(st.integers(0, CLASSES - 1))
    before = class_similarity(private, labels, CLASSES, public, low, high)
    after = class_similarity(np.vstack([private, new]), np.append(labels, label), CLASSES, public, low, high)
    moved = after - before
    assert (moved >= 0).all()
    assert (moved <= high - low).all()
    assert not np.delete(moved, label, axis=1).any()


def test_the_range_is_reached():
    candidate = np.array([[2047, 0]])
    for low, high in CAPS.values():
        if low >= 2 * ONE or high <= 0:
            continue  # caps that no product reaches: every row counts the same
        scores = class_similarity(candidate, np.array([0]), 1, np.vstack([candidate, -candidate]), low, high)
        assert scores[0, 0] - scores[1, 0] == min(high, 2 * ONE) - max(low, 0)


def test_bad_arguments_are_refused_with_what_to_do():
    row, label = np.array([[1, 2]]), np.array([0])
    with pytest.raises(ArgumentError, match="precision"):
        ClassSimilarity(row, label, 1, 0, 10, precision="float8")
    with pytest.raises(ArgumentError, match="below"):
        ClassSimilarity(row, label, 1, 10, 10)
    with pytest.raises(ArgumentError, match="same features"):
        class_similarity(row, label, 1, np.array([[1, 2, 3]]), 0, 10)
    with pytest.raises(ArgumentError, match="labels"):
        class_similarity(row, np.array([0, 1]), 2, row, 0, 10)
    with pytest.raises(ArgumentError, match="weights"):
        class_similarity(row, label, 1, row, 0, 10, weights=np.array([1, 1]))
