from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import rows, steady
from dptransfer.base.workers import Processes, ThisProcess
from dptransfer.errors import ArgumentError
from dptransfer.exact.capped_similarity import LARGEST_WEIGHT
from dptransfer.exact.chunks import Threads
from dptransfer.exact.lattice import unit_lattice
from dptransfer.privacy import Bound, Unit
from dptransfer.queries import SimilarityScores, similarity
from dptransfer.queries.similarity import GRID_NORM, grid_rows, row_weights

from .neighbours import CLASSES, EMPTY, MAPS, POOL, WIDTH, data_sets, examples, of_neighbours, with_example
from .similarity_faults import EachClassByItself, EachRowInFull


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


@of_neighbours(caps=caps)
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


def test_processes_count_and_look_nothing_up():
    scored = replace(scores_query(), workers=Processes(2)).pool_scores(*EMPTY, None)
    assert scored.workers == Processes(2)
    assert type(scored.at_hand) is type(replace(scored, engine=ThisProcess()).at_hand) is Threads
    scored.require_unchanged()  # candidates in memory stay what they are


@pytest.mark.parametrize(("precision", "size"), [("float16", 2), ("int8", 1)])
def test_grid_rows_are_the_mapped_rows_in_the_smallest_type(monkeypatch, precision, size):
    features, norm = MAPS["public map"], GRID_NORM[precision]
    want = features.lattice(POOL.rows, norm)
    monkeypatch.setattr(similarity, "MAPPED_ELEMENTS", 7)
    got = grid_rows(features, POOL.rows, precision)
    assert got.itemsize == size
    assert (got == want).all()


def persons_query(*limits, bound=1.0, **options):
    return replace(scores_query(*limits, **options), bound=Bound(Unit.PERSON, bound))


@st.composite
def persons(draw, most=6):
    """A person's rows, of any kind, and their classes; possibly the same class, possibly all."""
    x = draw(rows(WIDTH, most=most))
    y = draw(st.lists(st.integers(0, CLASSES - 1), min_size=len(x), max_size=len(x)))
    return x, np.array(y, dtype=np.int64)


def of_persons(*each):
    """Rows, labels and people of these persons, row by row in turn."""
    x, y = (np.concatenate([person[part] for person in each]) for part in (0, 1))
    order = np.argsort(np.concatenate([np.arange(len(person[1])) for person in each]), kind="stable")
    people = np.repeat(np.arange(len(each)), [len(person[1]) for person in each])
    return x[order], y[order], people[order]


def largest_moves(moved):
    """By how much each class's scores move at most; they must not fall."""
    assert (moved >= 0).all()
    return moved.max(axis=0, initial=0)


@steady
@given(
    others=persons(),
    person=persons(most=9),
    caps=caps,
    bound=st.sampled_from([0.01, 1.0, 1.7, 3.0, 1000.0]),
    features=st.sampled_from(["unit norm", "public map"]),
)
def test_what_a_person_adds_to_all_classes_together_is_within_the_range(
    others, person, caps, bound, features
):
    query = persons_query(*caps, bound=bound, features=features)
    moved = query(*of_persons(others, person)).astype(object) - query(*of_persons(others)).astype(object)
    assert largest_moves(moved).sum() <= query.score_range
    assert (moved == query(*of_persons(person))).all()  # a function of that person's rows alone


def same_rows(count, classes):
    return np.tile([1.0, 0.0, 0.0], (count, 1)), np.arange(count) % classes


@pytest.mark.parametrize("bound", [2.0**-10, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("limits", [(0.0, 2.0), (0.5, 1.5)])
def test_a_person_with_forty_rows_reaches_the_range(limits, classes, bound):
    query = persons_query(*limits, bound=bound)
    query = replace(query, candidates=unit_lattice(np.array([[1.0, 0, 0]]), 2047))
    moves = largest_moves(query(*of_persons(same_rows(40, classes))))
    assert 0.99 * query.score_range <= moves.sum() <= query.score_range
    assert (moves > 0).sum() == classes


def test_rows_bounded_singly_or_by_class_are_caught():
    honest = persons_query()
    for fault, most in ((EachRowInFull, 38), (EachClassByItself, 2.8)):
        wrong = fault(honest.features, honest.candidates, CLASSES, bound=honest.bound)
        moves = largest_moves(wrong(*of_persons(same_rows(40, 3))))
        assert moves.sum() > most / 2 * wrong.score_range  # cosines with the pool are below one
        alone = of_persons(([[1.0, 0.0, 0.0]], np.array([0])))
        assert (wrong(*alone) == honest(*alone)).all()  # one row would not show it


def test_a_row_of_a_person_with_few_counts_a_share_of_the_bound():
    people = np.array([0, 1, 1, 2, 2, 2, 2, 2])
    assert row_weights(people, 1.0).tolist() == [2**16, *[2**15] * 2, *[2**16 // 5] * 5]
    assert row_weights(people, 2.0).tolist() == [*[2**15] * 3, *[2**16 // 5] * 5]
    assert row_weights(people, 0.5).tolist() == row_weights(people, 1.0).tolist()  # a common factor
    assert row_weights(np.zeros(0, dtype=np.int64), 1.0).tolist() == []
    assert set(row_weights(np.zeros(2**16 + 1, dtype=np.int64), 1.0)) == {0}


@steady
@given(st.integers(1, 2**17), st.floats(2.0**-10, 2.0**10))
def test_the_rows_of_one_person_never_weigh_more_than_one_range(count, bound):
    weight = int(row_weights(np.zeros(count, dtype=np.int64), bound)[0])
    assert count * weight <= LARGEST_WEIGHT
    if max(count, bound) <= 650:
        assert weight >= 0.99 * LARGEST_WEIGHT / max(count, bound)


def test_order_and_numbers_of_people_do_not_change_a_score():
    rng = np.random.default_rng(0)
    x, y, people = rng.normal(size=(80, 3)), rng.integers(0, 2, 80), rng.integers(0, 9, 80)
    order = rng.permutation(80)
    for limits in ((0.0, 2.0), (0.9, 1.5)):
        query = persons_query(*limits)
        want = query(x, y, people)
        assert (query(x[order], y[order], people[order]) == want).all()
        assert (query(x, y, 8 - people) == want).all()
        assert (query(x, y, np.arange(80)) == LARGEST_WEIGHT * scores_query(*limits)(x, y)).all()
