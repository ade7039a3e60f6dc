import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from contracts.rows import steady
from dptransfer.compute import class_similarity, similarity
from dptransfer.compute.similarity import GRID_NORM
from dptransfer.errors import ArgumentError
from dptransfer.features.lattice import unit_lattice

CLASSES = 4


def reference(private, labels, classes, public, low, high, precision="float16"):
    """The definition, in Python integers."""
    one = GRID_NORM[precision] ** 2
    result = np.zeros((len(public), classes), dtype=object)
    for j, candidate in enumerate(public.astype(object)):
        for row, label in zip(private.astype(object), labels, strict=True):
            result[j, label] += min(max(one + int(candidate @ row), low), high) - low
    return result


def problem(seed, count=60, candidates=25, width=12, norm=2047):
    rng = np.random.default_rng(seed)
    private = unit_lattice(rng.normal(size=(count, width)) + 0.4, norm)
    public = unit_lattice(rng.normal(size=(candidates, width)) + 0.4, norm)
    # The extremes: along an axis, one row gives the largest product, its opposite the smallest; a row may be
    # zero.
    corners = np.zeros((3, width), dtype=np.int64)
    corners[0, 0], corners[1, 0] = norm, -norm
    labels = rng.choice([0, 1, 3], size=count + 3)  # class 2 stays empty
    return np.vstack([private, corners]), labels, np.vstack([public, corners])


CAPS = {
    "open": (0, 2 * 2047**2),
    "wider than open": (-5, 2 * 2047**2 + 7),
    "low": (2047**2 + 10_001, 2 * 2047**2),
    "high": (0, 2047**2 - 999),
    "both": (2047**2 - 12_345, 2047**2 + 2_000_001),
    "one step": (2047**2, 2047**2 + 1),
}


@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
def test_scores_are_those_of_python_integers(caps):
    private, labels, public = problem(0)
    got = class_similarity(private, labels, CLASSES, public, *caps)
    assert (got == reference(private, labels, CLASSES, public, *caps)).all()
    assert not got[:, 2].any()


def test_scores_are_those_of_python_integers_on_the_small_grid():
    private, labels, public = problem(1, norm=127)
    for caps in ((0, 2 * 127**2), (127**2 - 900, 127**2 + 3_333)):
        got = class_similarity(private, labels, CLASSES, public, *caps, precision="int8")
        assert (got == reference(private, labels, CLASSES, public, *caps, precision="int8")).all()


def test_float32_would_not_be_exact_one_step_beyond_the_grid():
    row = np.full(4, 2**12 + 1, dtype=np.int64)  # squares of 25 bits: the comparison above can fail
    assert int((row.astype(np.float32) * row.astype(np.float32)).sum()) != int(row @ row)


@pytest.mark.parametrize("caps", [CAPS["open"], CAPS["both"]], ids=["linear", "capped"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("block", [1, 7, 2048])
def test_chunks_blocks_order_and_threads_do_not_change_an_integer(monkeypatch, caps, threads, block):
    private, labels, public = problem(2, count=300)
    want = class_similarity(private, labels, CLASSES, public, *caps)
    monkeypatch.setattr(similarity, "_PRIVATE_BLOCK", block)
    order = np.random.default_rng(3).permutation(len(private))
    with threadpool_limits(threads):
        for chunk in (None, 1, 5, 1000):
            got = class_similarity(private[order], labels[order], CLASSES, public, *caps, chunk=chunk)
            assert (got == want).all()


def test_the_closed_form_without_caps_is_the_capped_sum():
    private, labels, public = problem(4)
    one = 2047**2
    linear = class_similarity(private, labels, CLASSES, public, 0, 2 * one)
    capped = similarity._capped(private, labels, CLASSES, public, -one, one, None)
    assert (linear == capped).all()
    narrow = similarity._capped(private, labels, CLASSES, public, -one + 1, one, None)
    assert (linear != narrow).any()


@pytest.mark.parametrize("caps", CAPS.values(), ids=CAPS)
@pytest.mark.parametrize("private", [np.zeros((0, 3), dtype=np.int64)])
def test_no_private_rows_give_scores_of_zero(private, caps):
    public = np.array([[1, 2, 3], [0, 0, 2047]])
    got = class_similarity(private, np.zeros(0, dtype=np.int64), CLASSES, public, *caps)
    assert got.shape == (2, CLASSES)
    assert not got.any()


@steady
@given(st.data())
def test_one_more_row_raises_each_score_of_its_class_by_a_whole_number_in_the_range(data):
    private, labels, public = problem(data.draw(st.integers(0, 5)), count=8)
    one = 2047**2
    low = data.draw(st.integers(0, 2 * one - 1))
    high = data.draw(st.integers(low + 1, 2 * one))
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
    for caps in CAPS.values():
        scores = class_similarity(candidate, np.array([0]), 1, np.vstack([candidate, -candidate]), *caps)
        low, high = max(caps[0], 0), min(caps[1], 2 * 2047**2)
        assert scores[0, 0] - scores[1, 0] == high - low


def test_bad_arguments_are_refused():
    row, label = np.array([[1, 2]]), np.array([0])
    for bad in ({"precision": "float8"}, {"device": "abacus"}):
        with pytest.raises(ArgumentError):
            class_similarity(row, label, 1, row, 0, 10, **bad)
    with pytest.raises(ArgumentError, match="below"):
        class_similarity(row, label, 1, row, 10, 10)
