from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.errors import RelationMismatch
from dptransfer.exact import chunks
from dptransfer.privacy import Relation
from dptransfer.queries import RecentredSums

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, squared_gap, stays_within

REPLACE = (Relation.REPLACE_ONE,)


def query(centres=None, radii=None, features="unit norm"):
    fitted = MAPS[features]
    centres = np.zeros((CLASSES, fitted.dimension)) if centres is None else np.asarray(centres)
    return RecentredSums(fitted, centres, np.ones(CLASSES) if radii is None else np.asarray(radii))


released = st.lists(
    st.lists(st.floats(-1e9, 1e9), min_size=WIDTH, max_size=WIDTH), min_size=CLASSES, max_size=CLASSES
)
radii = st.lists(st.floats(1e-6, 1e9), min_size=CLASSES, max_size=CLASSES)


@of_neighbours(centres=released, radii=radii)
def test_sums_around_any_centres_stay_within_their_sensitivity(data, first, second, centres, radii):
    """Also when the label changes: one row leaves a class, one joins another, √2 at most."""
    assert stays_within(query(centres, radii), data, first, second, REPLACE)


def test_the_sensitivity_is_reached():
    first, second = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    for centres in (np.zeros((CLASSES, WIDTH)), np.full((CLASSES, WIDTH), [0.0, 0.01, 0.0])):
        assert 0.99 <= reach(query(centres, [0.5] * CLASSES), first, second, Relation.REPLACE_ONE) <= 1


def test_without_the_clip_the_check_fails(monkeypatch):
    from dptransfer.queries import class_sums as recentred_sums

    first, second = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    small = query(radii=[0.5] * CLASSES)
    assert stays_within(small, EMPTY, first, second, REPLACE)
    monkeypatch.setattr(
        recentred_sums, "clipped_lattice", lambda rows, norm, clip: np.trunc(rows * norm).astype(np.int64)
    )
    assert not stays_within(small, EMPTY, first, second, REPLACE)


def test_rows_are_shifted_scaled_and_clipped():
    centres = np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    answer = query(centres, [2.0, 0.5, 1.0])(np.array([[3.0, 0, 0], [0, 4.0, 0]]), np.array([0, 1])) / 2**30
    assert np.allclose(answer, [[0.25, 0, 0], [0, 1.0, 0], [0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize("elements", [1, 8, 10**9])
def test_chunks_and_row_order_do_not_change_an_integer(monkeypatch, elements):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, WIDTH)), rng.integers(0, CLASSES, 200)
    around = query(rng.normal(size=(CLASSES, WIDTH)), [0.7, 1.3, 2.1])
    wanted = around(x, y)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    order = rng.permutation(200)
    assert (around(x[order], y[order]) == wanted).all()
    assert squared_gap(replace(around, radii=np.array([0.7, 1.3, 2.2])), (x, y), (x[1:], y[1:])) > 0


def test_it_has_no_sensitivity_under_add_remove():
    with pytest.raises(RelationMismatch, match="replac"):
        query().l2_sensitivity(Relation.ADD_REMOVE)
