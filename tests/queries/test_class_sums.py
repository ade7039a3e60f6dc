import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given

from contracts.rows import steady
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import ClassCounts, ClassSums, ClassSumsAndCounts, class_sums

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, data_sets, of_neighbours, reach, stays_within
from .persons import WORST, data_of

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


@pytest.mark.parametrize("weight", [0.1, 0.3, 1.0, 2.5])
def test_a_joint_claim_one_per_cent_smaller_is_caught(weight):
    @dataclass(frozen=True)
    class Bold(ClassSumsAndCounts):
        def l2_sensitivity(self, relation):
            return 0.99 * super().l2_sensitivity(relation)

    pairs = ((RIGHT, LEFT), (RIGHT, (RIGHT[0], 2)))
    for relation in Relation:
        honest, bold = (
            [stays_within(query(UNIT, CLASSES, weight=weight), EMPTY, *pair, (relation,)) for pair in pairs]
            for query in (ClassSumsAndCounts, Bold)
        )
        assert all(honest)
        assert not all(bold)


def test_a_weighted_count_is_a_whole_number_of_steps_and_a_weight_of_none_is_refused():
    asked = ClassSumsAndCounts(UNIT, CLASSES, weight=1 / 3)
    assert asked.exact_weight == 21845 / 2**16
    assert asked(np.eye(3), np.zeros(3, dtype=np.int64))[0, -1] == 3 * 21845 * 2**14
    for bad in (0.0, 1e-6, -1.0, float("nan"), 1e6):
        with pytest.raises(ArgumentError, match="weight"):
            ClassSumsAndCounts(UNIT, CLASSES, weight=bad)


@pytest.mark.parametrize("elements", [1, 8, 10**9])
def test_chunks_and_row_order_do_not_change_an_integer(monkeypatch, elements):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, WIDTH)), rng.integers(0, CLASSES, 200)
    wanted = {name: query(x, y) for name, query in QUERIES.items()}
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    order = rng.permutation(200)
    for name, query in QUERIES.items():
        assert (query(x[order], y[order]) == wanted[name]).all()


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


def test_no_rows_give_an_answer_of_zeros():
    for query in QUERIES.values():
        assert query(*EMPTY).shape == query.shape
        assert not query(*EMPTY).any()


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("weight", [None, 2**30, 3 * 2**14])
def test_torch_gives_the_same_sums_of_people(name, weight):
    torch = pytest.importorskip("torch")
    x, y, whose = data_of(WORST.values(), seed=0)
    bound = Bound(Unit.PERSON, 1.7)
    asked = ClassSums(MAPS[name], CLASSES, bound=bound)
    if weight is not None:
        asked = ClassSumsAndCounts(MAPS[name], CLASSES, weight=weight / 2**30, bound=bound)
    given = asked, x, y, whose, 1.7 * 2**30, weight
    wanted = class_sums._of_people(*given)
    assert (class_sums._of_people_there(*given, "cpu") == wanted).all()
    given = asked, torch.from_numpy(x), torch.from_numpy(y), whose, 1.7 * 2**30, weight
    assert (class_sums._of_people_there(*given, "cpu") == wanted).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MAPS)
@steady
@given(data=data_sets())
def test_cuda_and_cpu_give_the_same_answers(name, data):
    for query in (ClassSums, ClassSumsAndCounts):
        there, here = query(MAPS[name], CLASSES, "cuda"), query(MAPS[name], CLASSES)
        assert (there(*data) == here(*data)).all()


@pytest.mark.gpu
@of_neighbours()
def test_sums_stay_within_their_sensitivity_on_cuda(data, first, second):
    assert stays_within(ClassSums(UNIT, CLASSES, "cuda"), data, first, second)


@pytest.mark.parametrize("weight", [0.5, 0.95, 1.0, 1.05, 2.0])
def test_a_replaced_row_moves_exactly_as_far_as_it_says_whatever_a_count_weighs(weight):
    """To the other side in its class, or to another class: whichever is further."""
    asked = ClassSumsAndCounts(MAPS["unit norm"], CLASSES, weight=weight)
    row = np.eye(WIDTH)[:1]
    before = asked(row, np.array([0]))
    moved = [
        math.sqrt(float(np.square((asked(other, np.array([place])) - before) / asked.grid).sum()))
        for other, place in ((-row, 0), (row, 1), (-row, 1))
    ]
    assert max(moved) == pytest.approx(asked.l2_sensitivity(Relation.REPLACE_ONE), rel=1e-4)
    assert max(moved) <= asked.l2_sensitivity(Relation.REPLACE_ONE)
