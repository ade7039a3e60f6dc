from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.errors import ArgumentError
from dptransfer.features.lattice import unit_lattice
from dptransfer.queries import SimilarityScores, similarity
from dptransfer.queries.similarity import GRID_NORM, grid_rows

from .neighbours import CLASSES, EMPTY, MAPS, POOL, data_sets, examples, with_example


def scores_query(lowest=0.0, highest=2.0, precision="float16", features="unit norm"):
    blank = SimilarityScores(
        MAPS[features], np.zeros((0, MAPS[features].dimension), int), CLASSES, lowest, highest, precision
    )
    return replace(blank, candidates=MAPS[features].lattice(POOL.rows, blank.norm))


caps = st.sampled_from([(0.0, 2.0), (0.0, 1.0), (1.0, 2.0), (0.97, 1.4), (1.0, 1.000001)])


def moves_only_up_and_within_the_range(query, data, example):
    """What the selections rely on: the new example's class rises by [0, range], the others stay."""
    moved = query(*with_example(data, example)).astype(object) - query(*data).astype(object)
    own = moved[:, example[1]]
    others = np.delete(moved, example[1], axis=1)
    return bool((own >= 0).all() and (own <= query.score_range).all() and not others.any())


@pytest.mark.parametrize("name", ["unit norm", "public map"])
@steady
@given(data=data_sets(), example=examples, caps=caps, precision=st.sampled_from(["float16", "int8"]))
def test_adding_an_example_raises_the_scores_of_its_class_within_the_range(
    name, data, example, caps, precision
):
    if precision == "int8" and caps[1] - caps[0] < 1e-3:
        precision = "float16"  # those caps are closer than a step of the small grid
    assert moves_only_up_and_within_the_range(scores_query(*caps, precision, name), data, example)


@steady
@given(data=data_sets(), first=examples, second=examples, caps=caps)
def test_replacing_an_example_moves_each_score_by_at_most_the_range(data, first, second, caps):
    query = scores_query(*caps)
    moved = query(*with_example(data, second)).astype(object) - query(*with_example(data, first)).astype(
        object
    )
    assert (np.abs(moved) <= query.score_range).all()
    if first[1] != second[1]:
        assert (moved[:, first[1]] <= 0).all()
        assert (moved[:, second[1]] >= 0).all()


@pytest.mark.parametrize("limits", [(0.0, 2.0), (0.5, 1.5), (1.0, 1.3)])
def test_the_range_is_reached(limits):
    query = replace(scores_query(*limits), candidates=unit_lattice(np.array([[1.0, 0, 0]]), 2047))
    moved = query(*with_example(EMPTY, ([1.0, 0.0, 0.0], 0))) - query(*EMPTY)
    assert 0.99 * query.score_range <= moved[0, 0] <= query.score_range


def test_the_check_catches_a_range_that_is_too_small_and_scores_that_are_not_monotone(monkeypatch):
    query = replace(scores_query(), candidates=unit_lattice(np.array([[1.0, 0, 0]]), 2047))
    example = ([1.0, 0.0, 0.0], 0)
    assert moves_only_up_and_within_the_range(query, EMPTY, example)
    with monkeypatch.context() as patch:
        patch.setattr(SimilarityScores, "score_range", property(lambda self: int(1.98 * self.norm**2)))
        assert not moves_only_up_and_within_the_range(query, EMPTY, example)
    centred = replace(query, features=NotMonotone())
    assert not moves_only_up_and_within_the_range(
        centred, (np.eye(3), np.array([0, 0, 0])), ([1.0, 0.0, 0.0], 1)
    )


class NotMonotone:
    """A planted bug: rows are mapped relative to the others."""

    dimension = input_dimension = 3

    def lattice(self, rows, norm):
        return unit_lattice(rows - rows.mean(axis=0), norm)


def test_candidates_beyond_the_grid_are_refused():
    """Without caps the range of a score rests on their norm."""
    with pytest.raises(ArgumentError, match="2047"):
        replace(scores_query(), candidates=np.array([[2047, 1, 0]]))
    for overflowing in (2**32, -(2**62), -(2**63)):  # their squares wrap round to small numbers
        with pytest.raises(ArgumentError, match="2047"):
            replace(scores_query(), candidates=np.array([[overflowing, 0, 0]], dtype=np.int64))
    replace(scores_query(), candidates=np.array([[2047, 0, 0]]))


@pytest.mark.parametrize("limits", [(-0.1, 1.0), (0.0, 2.1), (1.0, 1.0), (1.2, 1.1), (1.0, 1.0 + 1e-9)])
def test_bad_caps_are_refused(limits):
    with pytest.raises(ArgumentError, match="caps"):
        scores_query(*limits)


@pytest.mark.parametrize(("precision", "size"), [("float16", 2), ("int8", 1)])
def test_grid_rows_are_the_mapped_rows_in_the_smallest_type(monkeypatch, precision, size):
    features, norm = MAPS["public map"], GRID_NORM[precision]
    want = features.lattice(POOL.rows, norm)
    monkeypatch.setattr(similarity, "_MAPPED_ELEMENTS", 7)
    got = grid_rows(features, POOL.rows, precision)
    assert got.itemsize == size
    assert (got == want).all()


@pytest.mark.parametrize("dtype", [np.int16, np.int64])
def test_candidates_of_any_integer_type_give_the_same_scores(dtype):
    query = scores_query(0.9, 1.5)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    other = replace(query, candidates=query.candidates.astype(dtype))
    assert (query(x, y) == other(x, y)).all()


def test_an_unknown_device_is_refused():
    with pytest.raises(ArgumentError, match="device"):
        replace(scores_query(), device="abacus")


def test_row_order_does_not_change_a_score():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    order = rng.permutation(80)
    for limits in ((0.0, 2.0), (0.9, 1.5)):
        query = scores_query(*limits)
        assert (query(x, y) == query(x[order], y[order])).all()
