import numpy as np

from dptransfer.exact import chunks
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import ConfidenceTotal

from .neighbours import EMPTY, MAPS, WIDTH, of_neighbours, reach, stays_within

QUERY = ConfidenceTotal(MAPS["words"])


@of_neighbours()
def test_one_example_moves_the_two_sums_by_no_more_than_they_say(data, first, second):
    assert stays_within(QUERY, data, first, second)


def test_a_sure_row_and_one_that_says_nothing_reach_the_sensitivity():
    sure, nothing = ([1.0, 0.0, 0.0], 0), ([0.0, 0.0, 0.0], 0)
    assert 0.99 < reach(QUERY, sure, nothing, Relation.ADD_REMOVE) <= 1
    assert 0.99 < reach(QUERY, sure, nothing, Relation.REPLACE_ONE) <= 1


def test_the_mean_of_the_two_is_that_of_the_largest_probabilities_in_any_chunks(monkeypatch):
    x = np.random.default_rng(0).normal(size=(300, WIDTH)) / 20
    chances = np.exp(30 * x) / np.exp(30 * x).sum(axis=1, keepdims=True)
    for elements in (1, 64, 10**9):
        monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
        first, second = QUERY(x, np.zeros(300, dtype=np.int64))
        assert first + second == 300 * QUERY.grid
        assert abs(first / (first + second) - chances.max(axis=1).mean()) < 1e-3
    assert not QUERY(*EMPTY).any()


def test_a_person_counts_as_much_as_the_bound_says_however_many_rows_they_have():
    query = ConfidenceTotal(MAPS["words"], bound=Bound(Unit.PERSON, 2.0))
    x, y = np.tile([1.0, 0.0, 0.0], (40, 1)), np.zeros(40, dtype=np.int64)
    assert abs(query(x, y, np.zeros(40, dtype=np.int64)).sum() / query.grid - 2) < 1e-6
    assert abs(query(x[:1], y[:1], np.zeros(1, dtype=np.int64)).sum() / query.grid - 1) < 1e-6
