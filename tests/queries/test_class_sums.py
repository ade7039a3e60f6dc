from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.exact import chunks
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import (
    ClassCounts,
    ClassSums,
    ClassSumsAndCounts,
    ConfidenceTotal,
    RecentredSums,
    WeightedTotal,
    class_sums,
)

from .neighbours import (
    CLASSES,
    EMPTY,
    MAPS,
    WIDTH,
    WORST,
    data_of,
    data_sets,
    of_neighbours,
    reach,
    stays_within,
)

RIGHT, LEFT = ([1.0, 0.0, 0.0], 0), ([-1.0, 0.0, 0.0], 0)
UNIT = MAPS["unit norm"]
QUERIES = {
    "sums": ClassSums(UNIT, CLASSES),
    "counts": ClassCounts(CLASSES),
    "sums and counts": ClassSumsAndCounts(UNIT, CLASSES),
    "sums and light counts": ClassSumsAndCounts(UNIT, CLASSES, weight=0.3),
    "sums and heavy counts": ClassSumsAndCounts(UNIT, CLASSES, weight=2.5),
}


@pytest.mark.parametrize("name", MAPS)
@of_neighbours()
def test_sums_stay_within_their_sensitivity(name, data, first, second):
    assert stays_within(ClassSums(MAPS[name], CLASSES), data, first, second)


@of_neighbours()
def test_counts_and_joint_answers_stay_within_their_sensitivity(data, first, second):
    for query in QUERIES.values():
        assert stays_within(query, data, first, second)


@pytest.mark.parametrize(
    ("name", "relation", "first", "second"),
    [
        ("sums", Relation.ADD_REMOVE, RIGHT, LEFT),
        ("sums", Relation.REPLACE_ONE, RIGHT, LEFT),
        ("counts", Relation.ADD_REMOVE, RIGHT, LEFT),
        ("counts", Relation.REPLACE_ONE, RIGHT, (RIGHT[0], 1)),
        ("sums and counts", Relation.ADD_REMOVE, RIGHT, LEFT),
        ("sums and counts", Relation.REPLACE_ONE, RIGHT, LEFT),
        ("sums and counts", Relation.REPLACE_ONE, RIGHT, (RIGHT[0], 2)),
        ("sums and light counts", Relation.ADD_REMOVE, RIGHT, LEFT),
        ("sums and light counts", Relation.REPLACE_ONE, RIGHT, LEFT),
        ("sums and heavy counts", Relation.ADD_REMOVE, RIGHT, LEFT),
        ("sums and heavy counts", Relation.REPLACE_ONE, RIGHT, (RIGHT[0], 2)),
    ],
)
def test_the_sensitivity_is_reached(name, relation, first, second):
    assert 0.99 <= reach(QUERIES[name], first, second, relation) <= 1


@dataclass(frozen=True)
class Boastful(ClassSums):
    """A planted bug: it claims one per cent less than the truth."""

    def l2_sensitivity(self, relation):
        return 0.99 * super().l2_sensitivity(relation)


@dataclass(frozen=True)
class Centred(ClassSums):
    """A planted bug: rows are centred by the private mean, so one row moves all of them."""

    def __call__(self, rows, labels):
        return super().__call__(rows - rows.mean(axis=0), labels)


def test_the_check_catches_a_claim_that_is_too_small_and_rows_that_depend_on_each_other():
    data = (np.array([[1.0, 0, 0], [0, 1.0, 0], [0.5, 0, 0.5]]), np.array([0, 1, 1]))
    assert stays_within(ClassSums(UNIT, CLASSES), data, RIGHT, LEFT)
    assert not stays_within(Boastful(UNIT, CLASSES), data, RIGHT, LEFT)
    assert not stays_within(Centred(UNIT, CLASSES), data, ([9.0, 9.0, -9.0], 2), LEFT)


def test_a_weighted_count_is_a_whole_number_of_steps_and_a_weight_of_none_is_refused():
    asked = ClassSumsAndCounts(UNIT, CLASSES, weight=1 / 3)
    assert asked.exact_weight == 21845 / 2**16
    assert asked(np.eye(3), np.zeros(3, dtype=np.int64))[0, -1] == 3 * 21845 * 2**14
    for bad in (0.0, 1e-6, -1.0, float("nan"), 1e6):
        with pytest.raises(ArgumentError, match="weight"):
            ClassSumsAndCounts(UNIT, CLASSES, weight=bad)


def test_answers_are_the_sums_in_python_integers():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(50, WIDTH)), rng.integers(0, 2, 50)  # class 2 stays empty
    mapped = UNIT.lattice(x, 2**30).astype(object)
    answer = QUERIES["sums and counts"](x, y)
    assert answer.shape == QUERIES["sums and counts"].shape == (CLASSES, WIDTH + 1)
    for c in range(CLASSES):
        members = mapped[y == c]
        assert list(answer[c, :-1]) == [sum(int(row[j]) for row in members) for j in range(WIDTH)]
        assert answer[c, -1] == len(members) * 2**30


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weight", [None, 1.0, 3 * 2**-16])
def test_torch_gives_the_same_sums_of_people(name, weight):
    torch = pytest.importorskip("torch")
    x, y, whose = data_of(WORST.values(), seed=0)
    bound = Bound(Unit.PERSON, 1.7)
    asked = ClassSums(MAPS[name], CLASSES, bound=bound)
    if weight is not None:
        asked = ClassSumsAndCounts(MAPS[name], CLASSES, weight=weight, bound=bound)
    wanted = asked(x, y, whose)
    assert (asked.of_people_there(x, y, whose, "cpu") == wanted).all()
    there = torch.from_numpy(x), torch.from_numpy(y)
    assert (asked.of_people_there(*there, whose, "cpu") == wanted).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MAPS)
@steady
@given(data=data_sets())
def test_cuda_and_cpu_give_the_same_answers(name, data):
    for query in (ClassSums, ClassSumsAndCounts):
        there, here = query(MAPS[name], CLASSES, "cuda"), query(MAPS[name], CLASSES)
        assert (there(*data) == here(*data)).all()


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.95, 1.0, 1.05, 2.5])
def test_a_replaced_row_moves_exactly_as_far_as_it_says_whatever_a_count_weighs(weight):
    """To the other side in its class, or to another class: whichever is further."""
    asked = ClassSumsAndCounts(UNIT, CLASSES, weight=weight)
    moves = (RIGHT, LEFT), (RIGHT, (RIGHT[0], 2)), (RIGHT, (LEFT[0], 2))
    moved = max(reach(asked, *pair, Relation.REPLACE_ONE) for pair in moves)
    assert 1 - 1e-4 <= moved <= 1


# Weighted totals

WEIGHTS = np.array([1.0, 0.3, 0.0])
UNCENTRED = {f"before {name}": MAPS[name].uncentred_rows for name in ("public map", "rooted public map")}


@pytest.mark.parametrize("name", [*MAPS, *UNCENTRED])
@of_neighbours()
def test_a_weighted_total_stays_within_its_sensitivity(name, data, first, second):
    features = {**MAPS, **UNCENTRED}[name]
    assert stays_within(WeightedTotal(features, WEIGHTS), data, first, second)
    if features is UNIT:
        for count_weight in (0.25, 1.0):
            asked = WeightedTotal(UNIT, np.array([1.0, 0.3, 0.001]), count_weight)
            assert stays_within(asked, data, first, second)


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


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("count_weight", [0.0, 0.5])
def test_a_weighted_total_reaches_its_sensitivity(count_weight, relation):
    assert 0.99 <= reach(WeightedTotal(UNIT, WEIGHTS, count_weight), RIGHT, LEFT, relation) <= 1


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


# Sums around released centres

REPLACE = (Relation.REPLACE_ONE,)


def recentred(centres=None, radii=None, features="unit norm"):
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
    assert stays_within(recentred(centres, radii), data, first, second, REPLACE)


def test_sums_around_centres_reach_their_sensitivity_and_without_the_clip_pass_it(monkeypatch):
    for centres in (np.zeros((CLASSES, WIDTH)), np.full((CLASSES, WIDTH), [0.0, 0.01, 0.0])):
        assert 0.99 <= reach(recentred(centres, [0.5] * CLASSES), RIGHT, LEFT, Relation.REPLACE_ONE) <= 1
    small = recentred(radii=[0.5] * CLASSES)
    assert stays_within(small, EMPTY, RIGHT, LEFT, REPLACE)
    monkeypatch.setattr(
        class_sums.lattice, "clipped_lattice", lambda rows, norm, clip: np.trunc(rows * norm).astype(np.int64)
    )
    assert not stays_within(small, EMPTY, RIGHT, LEFT, REPLACE)


def test_rows_are_shifted_scaled_and_clipped():
    centres = np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    answer = (
        recentred(centres, [2.0, 0.5, 1.0])(np.array([[3.0, 0, 0], [0, 4.0, 0]]), np.array([0, 1])) / 2**30
    )
    assert np.allclose(answer, [[0.25, 0, 0], [0, 1.0, 0], [0, 0, 0]], atol=1e-6)


def test_it_has_no_sensitivity_under_add_remove():
    with pytest.raises(RelationMismatch, match="replac"):
        recentred().l2_sensitivity(Relation.ADD_REMOVE)


# How sure the encoder is

CONFIDENCE = ConfidenceTotal(MAPS["words"])


@of_neighbours()
def test_one_example_moves_the_two_sums_by_no_more_than_they_say(data, first, second):
    assert stays_within(CONFIDENCE, data, first, second)


def test_a_sure_row_and_one_that_says_nothing_reach_the_sensitivity():
    sure, nothing = ([1.0, 0.0, 0.0], 0), ([0.0, 0.0, 0.0], 0)
    assert 0.99 < reach(CONFIDENCE, sure, nothing, Relation.ADD_REMOVE) <= 1
    assert 0.99 < reach(CONFIDENCE, sure, nothing, Relation.REPLACE_ONE) <= 1


def test_the_mean_of_the_two_is_that_of_the_largest_probabilities():
    x = np.random.default_rng(0).normal(size=(300, WIDTH)) / 20
    chances = np.exp(30 * x) / np.exp(30 * x).sum(axis=1, keepdims=True)
    first, second = CONFIDENCE(x, np.zeros(300, dtype=np.int64))
    assert first + second == 300 * CONFIDENCE.grid
    assert abs(first / (first + second) - chances.max(axis=1).mean()) < 1e-3
