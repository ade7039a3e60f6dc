"""Persons in every query that knows them: bounded with all their rows, by their rows alone."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks, sums
from dptransfer.exact import gradient_sums as person_gradients
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import (
    ClassCounts,
    ClassSums,
    ClassSumsAndCounts,
    ConfidenceTotal,
    CorrectCount,
    EvaluationCounts,
    GradientAndExcess,
    LikelihoodGain,
    ProjectionGradient,
    SecondMoments,
    SoftmaxGradient,
    WeightedTotal,
)
from dptransfer.queries.second_moments import OfAll, OfClasses, OfProbabilities

from .neighbours import (
    CLASSES,
    MAPS,
    NOBODY,
    WIDTH,
    WORST,
    data_of,
    people,
    person,
    reached,
    squared_bound,
    within,
)

UNIT = MAPS["unit norm"]
MANY = 24  # classes, so that the norms of forty rows are found by pairs
BOUNDS = (0.3, 1.0, 2.5, 45.0)
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def steep(classes=CLASSES, clip=1.0, **more):
    """Logits so steep that a wrong guess has a residual of norm √2."""
    offset = np.where(np.arange(classes) == 1, 1e3, 0.0)
    return SoftmaxGradient(UNIT, np.zeros((classes, WIDTH)), offset, clip=clip, **more)


def gentle(classes=CLASSES, **more):
    weights = np.random.default_rng(3).normal(size=(classes, WIDTH))
    return SoftmaxGradient(UNIT, weights, np.zeros(classes), **more)


def curved(**more):
    rng = np.random.default_rng(4)
    linear, precision = rng.normal(size=(CLASSES, WIDTH)), np.abs(rng.normal(size=(CLASSES, WIDTH)))
    return SoftmaxGradient(MAPS["unit norm"], linear, np.zeros(CLASSES), precision, **more)


AXES = np.linalg.qr(np.random.default_rng(5).normal(size=(WIDTH, 2)))[0]
AXES[:, 0] = np.eye(WIDTH)[0]  # not orthonormal any more, and along the worst rows
SLOPES = np.random.default_rng(6).normal(size=(CLASSES, WIDTH))
FALLING = np.array([1.0, 0.37, 0.0])
WEIGHTS = np.geomspace(1.0, 1e-4, MANY)
QUERIES = {
    "sums": lambda bound: ClassSums(UNIT, CLASSES, bound=bound),
    "counts": lambda bound: ClassCounts(CLASSES, bound=bound),
    "sums and counts": lambda bound: ClassSumsAndCounts(UNIT, CLASSES, bound=bound),
    "sums and light counts": lambda bound: ClassSumsAndCounts(UNIT, CLASSES, weight=0.3, bound=bound),
    "sums and heavy counts": lambda bound: ClassSumsAndCounts(UNIT, CLASSES, weight=2.5, bound=bound),
    "total": lambda bound: WeightedTotal(UNIT, FALLING, bound=bound),
    "total and count": lambda bound: WeightedTotal(UNIT, FALLING, 0.5, bound=bound),
    "correct": lambda bound: CorrectCount(UNIT, np.eye(CLASSES, WIDTH), np.zeros(CLASSES), bound=bound),
    "confidence": lambda bound: ConfidenceTotal(MAPS["words"], bound=bound),
    "likelihood gain": lambda bound: LikelihoodGain(UNIT, 30 * np.eye(CLASSES, WIDTH), bound=bound),
    "evaluation": lambda bound: EvaluationCounts(
        UNIT, SLOPES, np.zeros(CLASSES), temperature=0.3, bound=bound
    ),
    "evaluation of a quadratic head": lambda bound: EvaluationCounts(
        UNIT, SLOPES, np.ones(CLASSES), np.abs(SLOPES), bound=bound
    ),
    "steep gradient": lambda bound: steep(bound=bound),
    "steep gradient, many classes": lambda bound: steep(MANY, bound=bound),
    "short clip, many classes": lambda bound: steep(MANY, clip=1e-3, bound=bound),
    "gradient": lambda bound: gentle(bound=bound),
    "gradient, many classes": lambda bound: gentle(MANY, bound=bound),
    "gradient, weighted": lambda bound: gentle(weights=WEIGHTS[[0, 4, -1]], bound=bound),
    "gradient, weighted, many classes": lambda bound: gentle(MANY, weights=WEIGHTS, bound=bound),
    "steep gradient, weighted": lambda bound: steep(weights=WEIGHTS[[0, 4, -1]], bound=bound),
    "gradient of a quadratic head": lambda bound: curved(bound=bound),
    "gradient beside a prior": lambda bound: gentle(prior=5 * np.eye(CLASSES, WIDTH), bound=bound),
    "gradient beside a prior, many": lambda bound: gentle(MANY, prior=np.eye(MANY, WIDTH), bound=bound),
    "gradient of a projection": lambda bound: ProjectionGradient(
        UNIT, 3 * np.eye(2, WIDTH), np.eye(CLASSES, WIDTH), 0.1, bound=bound
    ),
    "correct, beside a prior": lambda bound: CorrectCount(
        UNIT, np.eye(CLASSES, WIDTH), np.zeros(CLASSES), prior=-np.eye(CLASSES, WIDTH), bound=bound
    ),
    "projected gradient": lambda bound: steep(MANY, projection=AXES, bound=bound),
    "gradient and excess": lambda bound: GradientAndExcess(steep(bound=bound), 1.0, 0.25, bound=bound),
    "gradient and excess, many": lambda bound: GradientAndExcess(
        gentle(MANY, bound=bound), 1, 2, bound=bound
    ),
    "moment": lambda bound: SecondMoments(UNIT, OfAll(), bound=bound),
    "moments of classes": lambda bound: SecondMoments(UNIT, OfClasses(CLASSES), bound=bound),
    "curvatures": lambda bound: SecondMoments(UNIT, OfProbabilities(3 * np.eye(CLASSES, WIDTH)), bound=bound),
}


def asked(name, examples=1.0):
    return QUERIES[name](Bound(Unit.PERSON, examples))


def crowd(count=60, seed=0):
    """Persons of all sizes, some alike, with rows and classes of all kinds."""
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(1, 12, count), 31, 40, 40, 65, 300]
    some = [person(rng.normal(size=(n, WIDTH)), rng.integers(0, CLASSES, n)) for n in sizes]
    return [*some, *WORST.values()]


@pytest.mark.parametrize("name", QUERIES)
def test_the_worst_people_stay_within_the_sensitivity(name):
    for examples in BOUNDS:
        query = asked(name, examples)
        alone = {each: query(*data_of([own])).astype(object) for each, own in WORST.items()}
        for (_, first), (_, second) in product(alone.items(), repeat=2):
            assert int((first**2).sum()) <= squared_bound(query, ADD)
            assert int(((first - second) ** 2).sum()) <= squared_bound(query, REPLACE)


@pytest.mark.parametrize("name", QUERIES)
@settings(steady, max_examples=25)
@given(
    others=st.lists(people, max_size=3),
    first=people,
    second=people,
    examples=st.sampled_from(BOUNDS),
    seed=st.integers(0, 99),
)
def test_people_of_any_kind_stay_within_the_sensitivity(name, others, first, second, examples, seed):
    assert within(asked(name, examples), others, first, second, seed)


RIGHT, LEFT, ACROSS, OTHER = (
    WORST[name] for name in ("equal rows", "opposite of them", "at right angles", "of another class")
)
WRONG = person([[0.0, 1.0, 0.0]] * 40, 0)  # what the first class's weights have nothing for
REACHED = {
    "sums": (RIGHT, LEFT),
    "counts": (RIGHT, OTHER),
    "sums and counts": (RIGHT, LEFT),
    "sums and light counts": (RIGHT, LEFT),
    "sums and heavy counts": (RIGHT, OTHER),
    "total": (RIGHT, LEFT),
    "total and count": (RIGHT, LEFT),
    "correct": (RIGHT, WRONG),
    "confidence": (RIGHT, WORST["zeros"]),
    "steep gradient": (RIGHT, LEFT),
    "steep gradient, many classes": (RIGHT, LEFT),
    "steep gradient, weighted": (RIGHT, LEFT),
    "short clip, many classes": (RIGHT, LEFT),
    "projected gradient": (RIGHT, LEFT),
    "moment": (RIGHT, ACROSS),
    "moments of classes": (RIGHT, OTHER),
}


@pytest.mark.parametrize("name", REACHED)
@pytest.mark.parametrize(("examples", "rows"), [(0.3, 40), (1.0, 40), (2.5, 40), (1.0, 700)])
def test_many_equal_rows_reach_the_sensitivity(name, examples, rows):
    """With 700, beyond what is scaled row by row: the whole of such a person is."""
    first, second = (person(np.tile(x[:1], (rows, 1)), y[0]) for x, y in REACHED[name])
    for relation in Relation:
        assert 0.99 <= reached(asked(name, examples), first, second, relation) <= 1


@pytest.mark.parametrize("examples", [1.0, 2.5])
def test_a_person_who_is_counted_reaches_the_sensitivity_of_gradient_and_excess(examples):
    """Added: forty long gradients. Replaced: the opposite ones, which together are not quite as long.

    Residuals are (p−1, 1−p, 0) with p a little more than ½ along the axis and a little less against it.
    """
    bound = Bound(Unit.PERSON, examples)
    long = GradientAndExcess(steep(clip=0.1, bound=bound), 1.0, 1.5, bound=bound)
    assert 0.99 <= reached(long, RIGHT, RIGHT, ADD) <= 1
    slope = np.zeros((CLASSES, WIDTH))
    slope[0, 0] = 0.01
    inner = SoftmaxGradient(UNIT, slope, np.array([0.0, 0.0, -30.0]), clip=0.1, bound=bound)
    between = GradientAndExcess(inner, 40 * math.sqrt(0.5) / examples, 1.5, bound=bound)
    assert between(*data_of([LEFT]))[-1] > between(*data_of([RIGHT]))[-1] == 0
    assert 0.99 <= reached(between, RIGHT, LEFT, REPLACE) <= 1


@pytest.mark.parametrize("examples", [np.float16(2), np.float32(1 / 3), np.int8(2), Fraction(1, 3), 2])
def test_a_bound_of_any_type_of_number_bounds(examples):
    """In half precision 2 · 2³⁰ is infinite; whoever declares that must not thereby lift the bound."""
    bound = Bound(Unit.PERSON, examples)
    assert type(bound.examples) is float
    with np.errstate(all="ignore"):  # as a fit does, whatever overflows
        for query in (ClassSums(UNIT, CLASSES, bound=bound), steep(bound=bound)):
            assert 0.99 <= reached(query, RIGHT, RIGHT, ADD) <= 1


def test_a_count_of_persons_that_leaves_int64_wraps_around_in_integers():
    """Noise is added to integers, which wrap around with it; floats would be rounded by who is there."""
    bound = Bound(Unit.PERSON, 2.0**10)
    query = GradientAndExcess(steep(bound=bound), 2.0**-20, 16.0, bound=bound)
    x, y, whose = np.tile(np.eye(WIDTH)[0], (2**13, 1)), np.zeros(2**13, dtype=np.int64), np.arange(2**13)
    answer = query(x, y, whose)
    assert answer.dtype == np.int64
    assert answer[-1] == -(2**63)
    assert query(x[1:], y[1:], whose[1:])[-1] == 2**63 - int(query(x[:1], y[:1], whose[:1])[-1])


def test_a_weight_with_which_one_persons_count_may_leave_int64_is_refused():
    """Wrapped around, 2¹⁷ rows of weight 2¹⁶ would count less than nothing, and a replaced person twice."""
    assert ClassSumsAndCounts(UNIT, CLASSES, weight=8.0, bound=Bound(Unit.PERSON)).exact_weight == 8
    with pytest.raises(ArgumentError, match="weight"):
        ClassSumsAndCounts(UNIT, CLASSES, weight=8.5, bound=Bound(Unit.PERSON))


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_sums_over_persons_of_what_each_adds_alone(name):
    """So neither neighbours nor their number change what a person adds, nor the way it is found."""
    some, query = crowd(), asked(name, 1.7)
    assert (query(*data_of(some, seed=1)) == sum(query(*data_of([own])) for own in some)).all()


@pytest.mark.parametrize("name", QUERIES)
def test_order_numbers_chunks_and_threads_do_not_change_an_integer(name, monkeypatch):
    x, y, whose = data_of(crowd())
    query = asked(name)
    wanted = query(x, y, whose)
    renamed = np.random.default_rng(2).permutation(3 * whose.max() + 3)[whose]
    for elements, cores in ((8, 2), (64, 1), (2**12, 3), (10**9, 1)):
        for module in (sums, chunks):
            monkeypatch.setattr(module, "_CHUNK_ELEMENTS", elements)
        for module in (chunks, person_gradients):
            monkeypatch.setattr(module, "usable_cores", lambda cores=cores: cores)
        monkeypatch.setattr(person_gradients, "_WHOLE_ELEMENTS", max(elements, 16))
        order = np.random.default_rng(elements).permutation(len(x))
        assert (query(x[order], y[order], renamed[order]) == wanted).all()
    assert wanted.any()


@pytest.mark.parametrize(
    "name",
    [name for name in QUERIES if name.startswith("gradient") and not {"and", "of"} & set(name.split())],
)
def test_torch_rows_give_the_same_gradients(name):
    torch = pytest.importorskip("torch")
    x, y, whose = data_of(crowd(), seed=3)
    query, rows = asked(name, 2.5), UNIT.lattice(x, 2**16)
    there = torch.from_numpy(rows).double(), torch.from_numpy(y), whose
    if query.projection is not None:
        with pytest.raises(ArgumentError, match="CPU"):
            query(*there)
        return
    assert (query(*there) == query(x, y, whose)).all()


@pytest.mark.parametrize("name", ["gradient", "gradient, many classes", "sums", "sums and counts", "moment"])
def test_a_person_per_row_gives_the_answer_of_rows_up_to_the_grid(name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, WIDTH)), rng.integers(0, CLASSES, 50)
    persons, rows = asked(name), QUERIES[name](Bound())
    ratio = rng.permutation(50)
    found = persons(x, y, ratio) / persons.grid - rows(x, y) / rows.grid
    assert np.abs(found).max() < 29 * 50 * 2.0**-10
    assert not persons(*NOBODY).any()


def test_a_persons_gradient_is_the_sum_of_theirs_scaled_to_the_bound():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, WIDTH)), rng.integers(0, CLASSES, 12)
    for classes, examples in ((CLASSES, 1.0), (MANY, 2.0)):
        query = gentle(classes, bound=Bound(Unit.PERSON, examples))
        rows = gentle(classes)
        whole = rows(x, y) / rows.grid
        wanted = whole * min(1.0, examples / np.linalg.norm(whole))
        assert np.abs(query(x, y, np.zeros(12, dtype=np.int64)) / query.grid - wanted).max() < 1e-3
        assert np.linalg.norm(whole) > examples


def test_classes_are_weighted_before_a_person_is_bounded():
    """Thirty rows of a common class beside one of a rare one: weighted, the rare one is heard."""
    x = np.vstack([np.tile([1.0, 0.0, 0.0], (30, 1)), [[0.0, 1.0, 0.0]]])
    y, whose = np.array([0] * 30 + [1]), np.zeros(31, dtype=np.int64)
    for classes in (CLASSES, MANY):
        weights = np.where(np.arange(classes) == 0, 1 / 30, 1.0)
        rows, one = gentle(classes, weights=weights), Bound(Unit.PERSON)
        whole = rows(x, y) / rows.grid
        query = gentle(classes, weights=weights, bound=one)
        wanted = whole / max(1.0, np.linalg.norm(whole))
        assert np.abs(query(x, y, whose) / query.grid - wanted).max() < 31 * 2.0**-14  # the grid of rows
        plain = gentle(classes, bound=one)
        heard, drowned = (np.linalg.norm((own(x, y, whose) / own.grid)[:, 1]) for own in (query, plain))
        assert heard > 3 * drowned


def test_rounding_residuals_toward_zero_may_lengthen_a_sum_that_cancels_and_is_paid_for():
    """Rows of one kind cancel those of another, so that rounding down the second makes the sum longer."""
    bound = Bound(Unit.PERSON, 0.5)
    opposite = person([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]] * 20, 0)
    longest = 0.0
    for size in np.linspace(0.3, 3.0, 60):
        slope = np.zeros((MANY, WIDTH))
        slope[0, 0] = size
        query = SoftmaxGradient(UNIT, slope, np.zeros(MANY), bound=bound)
        longest = max(longest, reached(query, opposite, opposite, ADD))
    assert 0.999 < longest <= 1


def test_a_person_counts_as_long_by_the_sum_of_their_unclipped_gradients():
    bound = Bound(Unit.PERSON, 2.0)
    query = GradientAndExcess(steep(clip=0.1, bound=bound), 1.0, 0.25, bound=bound)
    once = 0.25 * 2.0 * query.grid
    assert query(*data_of([person([[1.0, 0, 0]], 0)]))[-1] == 0  # √2, and 2 are allowed
    assert query(*data_of([person([[1.0, 0, 0]] * 2, 0)]))[-1] == once
    assert query(*data_of([WORST["rows that cancel"]]))[-1] == 0
    assert query(*data_of([RIGHT, LEFT, WORST["very many rows"]]))[-1] == 3 * once


def test_gradient_and_count_of_different_bounds_are_refused():
    with pytest.raises(ArgumentError, match="bound"):
        GradientAndExcess(steep(bound=Bound(Unit.PERSON)), 1.0, 0.25)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in QUERIES if "gradient" in name and "and" not in name])
def test_cuda_gives_the_same_gradients_of_people(name):
    import torch

    query = asked(name, 1.7)
    if query.projection is not None:
        pytest.skip("runs on the CPU")
    x, y, whose = data_of(crowd(2000), seed=3)
    there = torch.from_numpy(UNIT.lattice(x, 2**16)).double().cuda(), torch.from_numpy(y).cuda(), whose
    assert (query(*there) == query(x, y, whose)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("query", [ClassSums, ClassSumsAndCounts])
def test_cuda_gives_the_same_sums_of_people(query, features):
    import torch

    x, y, whose = data_of(crowd(2000), seed=3)
    bound = Bound(Unit.PERSON, 1.7)
    wanted = query(MAPS[features], CLASSES, bound=bound)(x, y, whose)
    there = query(MAPS[features], CLASSES, "cuda", bound=bound)
    assert (there(x, y, whose) == wanted).all()
    assert (there(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), whose) == wanted).all()
