"""What holds of every query, by name; and what each row alone contributes to answers."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dptransfer.data import ShardedRows
from dptransfer.exact import chunks, sums
from dptransfer.privacy import EACH_ROW, Bound, Relation, Unit
from dptransfer.queries import EvaluationCounts, RecentredSums, SimilarityScores, SoftmaxGradient, similarity
from dptransfer.queries.query import contribution_norms, contribution_ranges, largest_contribution, one_by_one
from dptransfer.queries.similarity import GridPool
from dptransfer.testing.query_rules import check_query

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH
from .test_people import QUERIES, asked
from .test_similarity import scores_query

UNIT = MAPS["unit norm"]
ABOUT_ROWS = {name: make(EACH_ROW) for name, make in QUERIES.items()} | {
    "around centres": RecentredSums(UNIT, np.full((CLASSES, WIDTH), 0.1), np.array([0.7, 1.3, 2.1])),
    "evaluation of directions": EvaluationCounts(
        MAPS["pooled"], np.eye(CLASSES, MAPS["pooled"].dimension), np.zeros(CLASSES), directions=True
    ),
    "scores": scores_query(),
    "capped scores": scores_query(0.9, 1.5),
}


@pytest.mark.parametrize("name", ABOUT_ROWS)
def test_every_query_about_rows_keeps_the_rules(name):
    relations = (Relation.REPLACE_ONE,) if name == "around centres" else tuple(Relation)
    check_query(ABOUT_ROWS[name], width=WIDTH, classes=CLASSES, relations=relations, cases=30)


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_about_persons_keeps_the_rules(name):
    """Its sensitivity is tried by the tests of people, on more neighbours than these."""
    check_query(asked(name), width=WIDTH, classes=CLASSES, skip=["neighbours stay within the sensitivity"])


@pytest.mark.parametrize("name", ABOUT_ROWS)
@pytest.mark.parametrize("elements", [1, 64, 4096, 10**9])
def test_order_chunks_and_threads_do_not_change_an_integer_and_a_row_adds_what_it_adds_alone(
    monkeypatch, name, elements
):
    query, rng = ABOUT_ROWS[name], np.random.default_rng(0)
    x, y, order = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300), rng.permutation(300)
    wanted = sum(query(x[i : i + 1], y[i : i + 1]) for i in range(300))
    assert wanted.any()
    for module in (sums, chunks):
        monkeypatch.setattr(module, "_CHUNK_ELEMENTS", elements)
    for cores in (1, 2, 5):
        monkeypatch.setattr(chunks, "usable_cores", lambda cores=cores: cores)
        with threadpool_limits(min(cores, 2)):
            assert (query(x[order], y[order]) == wanted).all()
    assert not query(*EMPTY).any()


GRADIENTS = {name: query for name, query in ABOUT_ROWS.items() if isinstance(query, SoftmaxGradient)}


@pytest.mark.parametrize("name", [name for name, query in GRADIENTS.items() if query.projection is None])
def test_torch_rows_give_the_same_integers(name):
    torch = pytest.importorskip("torch")
    query, rng = GRADIENTS[name], np.random.default_rng(2)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    there = torch.from_numpy(UNIT.lattice(x, 2**16)).double(), torch.from_numpy(y)
    assert (query(*there) == query(x, y)).all()


# What rows contribute

RNG = np.random.default_rng(4)
ROWS, LABELS = RNG.normal(size=(30, WIDTH)), RNG.integers(0, CLASSES, 30)
ROWS[3], ROWS[7] = 0.0, np.nan
LIMITS = pytest.mark.parametrize("caps", [(0.0, 2.0), (0.8, 1.3)])


def ranges_alone(query):
    return one_by_one(lambda x, y: np.ptp(query(x, y)[:, y[0]]) / query.score_range, ROWS, LABELS)


@pytest.mark.parametrize("name", [name for name in ABOUT_ROWS if "scores" not in name])
def test_what_all_rows_contribute_at_once_is_what_each_contributes_alone(name):
    query = ABOUT_ROWS[name]
    alone = one_by_one(lambda x, y: np.linalg.norm(query(x, y).astype(float)) / query.grid, ROWS, LABELS)
    at_once = contribution_norms(query, ROWS, LABELS)
    assert at_once == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert len(contribution_norms(query, ROWS[:0], LABELS[:0])) == 0
    assert 0.8 * largest_contribution(query) < at_once.max() <= largest_contribution(query) * (1 + 1e-12)
    if name != "around centres":  # which has no sensitivity under it
        assert largest_contribution(query) == query.l2_sensitivity(Relation.ADD_REMOVE)


@LIMITS
def test_ranges_of_scores_at_once_are_those_of_each_row_alone(caps):
    query = scores_query(*caps)
    alone = ranges_alone(query)
    assert contribution_ranges(query, ROWS, LABELS) == pytest.approx(alone, rel=1e-12, abs=1e-15)
    assert alone[3] == 0.0  # a row of zeros is equally similar to all
    assert 0.3 < alone.max() <= 1


@LIMITS
def test_a_stored_candidate_that_is_too_long_counts_in_ranges_as_it_is_scored(caps, tmp_path):
    stored = np.array([[127, 0, 0], [127, 100, 0]], dtype=np.int8)
    np.save(tmp_path / "pool.npy", stored)
    pool = GridPool(UNIT, ShardedRows([tmp_path / "pool.npy"]), "int8")
    query = SimilarityScores(UNIT, pool, 3, *caps, precision="int8")
    rows, labels = np.concatenate([np.eye(WIDTH), -np.eye(WIDTH)]), np.zeros(6, dtype=np.int64)
    alone = one_by_one(lambda x, y: np.ptp(query(x, y)[:, 0]) / query.score_range, rows, labels)
    assert contribution_ranges(query, rows, labels) == pytest.approx(alone)
    assert (alone[0] > 0.4) == (caps == (0.0, 2.0))  # though both have the same product


def test_a_query_without_a_fast_route_is_asked_row_by_row():
    class Doubled:
        grid = 2

        def __call__(self, rows, labels):
            return np.rint(2 * rows.sum(axis=0)).astype(np.int64)

    class Scores:
        score_range = 10

        def __call__(self, rows, labels):
            return np.column_stack([rows[0], 5 - rows[0]]).astype(np.int64)

    rows = np.array([[3.0, 4.0], [0.0, 1.0]])
    assert contribution_norms(Doubled(), rows, np.zeros(2, int)).tolist() == [5.0, 1.0]
    assert contribution_ranges(Scores(), rows, np.array([0, 1])).tolist() == [0.1, 0.1]


@LIMITS
def test_ranges_of_a_person_add_up_over_classes_and_stay_within_one(caps, monkeypatch):
    query = replace(scores_query(*caps), bound=Bound(Unit.PERSON))
    people = np.arange(len(ROWS)) // 5 + 1_000
    monkeypatch.setattr(similarity, "MAPPED_ELEMENTS", 60)  # three groups at a time
    found = contribution_ranges(query, ROWS, LABELS, people)
    parts = [(ROWS[own], LABELS[own], people[own]) for own in (people == one for one in np.unique(people))]
    alone = [np.ptp(query(*part), axis=0).sum() / query.score_range for part in parts]
    assert found == pytest.approx(alone, rel=1e-12, abs=1e-15)
    assert 0.1 < found.max() <= 1
    assert len(contribution_ranges(query, ROWS[:0], LABELS[:0], people[:0])) == 0
