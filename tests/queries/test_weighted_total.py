from dataclasses import dataclass

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.privacy import Relation
from dptransfer.queries import WeightedTotal

from .neighbours import CLASSES, MAPS, WIDTH, of_neighbours, reach, stays_within

WEIGHTS = np.array([1.0, 0.3, 0.0])
UNIT = MAPS["unit norm"]
UNCENTRED = {name: MAPS[name].uncentred_rows for name in ("public map", "rooted public map")}


@pytest.mark.parametrize("name", [*MAPS, *(f"before {name}" for name in UNCENTRED)])
@of_neighbours()
def test_it_stays_within_its_sensitivity(name, data, first, second):
    features = MAPS[name] if name in MAPS else UNCENTRED[name.removeprefix("before ")]
    assert stays_within(WeightedTotal(features, WEIGHTS), data, first, second)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_sensitivity_is_reached(relation):
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    assert 0.99 <= reach(WeightedTotal(UNIT, WEIGHTS), right, left, relation) <= 1


@dataclass(frozen=True, eq=False)
class Doubled(WeightedTotal):
    """A planted bug: every row counts twice."""

    def _weighted(self, rows, labels):
        weighted = super()._weighted(rows, labels)
        return lambda places: 2 * weighted(places)


def test_the_check_can_fail():
    right = [1.0, 0.0, 0.0], 0
    assert reach(Doubled(UNIT, WEIGHTS), right, right, Relation.ADD_REMOVE) > 1


def test_rows_count_by_the_weight_of_their_class(monkeypatch):
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 2 * WIDTH)
    assert len(WEIGHTS) == CLASSES
    rows = np.array([[3.0, 4.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0], [np.nan, 1.0, 1.0]])
    query = WeightedTotal(UNIT, WEIGHTS)
    total = query(rows, np.array([0, 1, 2, 0])) / query.grid
    assert total == pytest.approx([0.6, 0.8 + 0.3, 0.0], abs=1e-8)
    assert query.contribution_norms(rows, np.array([0, 1, 2, 0])) == pytest.approx([1, 0.3, 0, 0], abs=1e-8)
    assert query(rows[:0], np.zeros(0, dtype=np.int64)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("weights", [[1.0, 1.1, 0.5], [-0.1, 1.0, 1.0], [np.nan, 1.0, 1.0]])
def test_weights_that_the_sensitivity_does_not_cover_are_refused(weights):
    with pytest.raises(ArgumentError, match="Weights"):
        WeightedTotal(UNIT, np.array(weights))


@pytest.mark.parametrize("count_weight", [0.25, 1.0])
@of_neighbours()
def test_with_a_count_it_stays_within_its_sensitivity(count_weight, data, first, second):
    assert stays_within(WeightedTotal(UNIT, np.array([1.0, 0.3, 0.001]), count_weight), data, first, second)


@pytest.mark.parametrize("relation", list(Relation))
def test_with_a_count_the_sensitivity_is_reached(relation):
    right, left = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
    assert 0.99 <= reach(WeightedTotal(UNIT, WEIGHTS, 0.5), right, left, relation) <= 1


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_weights_of_fewer_bits_are_the_same_weights(kind):
    rows, labels, weights = np.eye(WIDTH), np.arange(WIDTH) % CLASSES, np.array([1.0, 0.25, 0.0])
    few, many = (WeightedTotal(UNIT, one, 0.5)(rows, labels) for one in (weights.astype(kind), weights))
    assert few.tolist() == many.tolist()


def test_what_is_counted_are_the_weights():
    rows = np.array([[3.0, 4.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 0.0]])
    labels = np.array([0, 1, 1])
    total = WeightedTotal(UNIT, WEIGHTS, 0.5)
    assert total(rows, labels) / total.grid == pytest.approx([0.6, 0.8 + 0.6, 0.0, 0.5 * 1.6], abs=1e-8)


@pytest.mark.parametrize("count_weight", [-0.5, 1.5, 1 / 3, float("nan")])
def test_a_count_weight_that_is_no_multiple_of_a_step_is_refused(count_weight):
    with pytest.raises(ArgumentError, match="count_weight"):
        WeightedTotal(UNIT, WEIGHTS, count_weight)
