import math

import numpy as np
import pytest
from scipy import stats

from dptransfer.accounting import epsilon_of, mu_of
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import OnLattice, UnitNorm
from dptransfer.mechanisms import (
    GaussianMechanism,
    GaussianRounds,
    GaussianShares,
    JointRounds,
    joint_rounds,
    rounds_of,
)
from dptransfer.noise import SecureNoise, SeededNoise, lattice_epsilon
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Bound, Relation, Unit
from dptransfer.queries import (
    ClassCounts,
    ClassSums,
    ClassSumsAndCounts,
    SecondMoments,
    SoftmaxGradient,
    WeightedTotal,
)
from dptransfer.queries.second_moments import OfAll, OfClasses
from dptransfer.queries.softmax_gradient import ROW_NORM
from noise.laws import fits_continuous

WIDE = 2**11

NOTHING = np.zeros((0, WIDE)), np.zeros(0, dtype=np.int64)


def sums(multiplier=3.0, relation=Relation.ADD_REMOVE, classes=40, width=WIDE):
    return GaussianMechanism(ClassSums(UnitNorm().fit(width, None), classes), multiplier, relation)


@pytest.mark.parametrize(("relation", "scale"), [(Relation.ADD_REMOVE, 3.0), (Relation.REPLACE_ONE, 6.0)])
def test_the_noise_has_the_stated_law(relation, scale):
    made = sums(relation=relation)
    assert made.scale == made.event.scale == scale
    draws = made.release(*NOTHING, noise=SeededNoise(7)).ravel()
    assert fits_continuous(draws, stats.norm(scale=scale))
    assert not fits_continuous(draws, stats.norm(scale=scale * 1.05))
    assert not fits_continuous(draws, stats.norm(scale=scale / 1.05))


def test_the_answer_is_the_exact_one_plus_the_noise():
    made = sums(classes=2, width=5)
    x, y = np.eye(5), np.array([0, 0, 1, 1, 1])
    with_rows = made.release(x, y, noise=SeededNoise(1)) * 2**30
    noise_alone = made.release(x[:0], y[:0], noise=SeededNoise(1)) * 2**30
    assert (with_rows - noise_alone == made.query(x, y)).all()


def test_the_event_says_what_ran():
    made = sums(multiplier=2.0, classes=3, width=4)
    event = made.event
    assert (event.noise_multiplier, event.sensitivity, event.label) == (2.0, 1.0, "class sums")
    assert event.relation is Relation.ADD_REMOVE
    assert event.numeric_epsilon == lattice_epsilon(2.0 * 2**30, 12) > 0


class Listening(SeededNoise):
    """Remembers what it was asked for."""

    def discrete_gaussian(self, scale, shape):
        self.asked = scale, shape
        return super().discrete_gaussian(scale, shape)


def test_the_scale_asked_for_is_never_a_hair_below_the_stated_one():
    for multiplier in (0.1, 1 / 3, 3.7307, 1e3 / 7):
        noise = Listening(0)
        made = GaussianMechanism(
            ClassSumsAndCounts(UnitNorm().fit(3, None), 2), multiplier, Relation.ADD_REMOVE
        )
        made.release(np.eye(3), np.array([0, 1, 1]), noise=noise)
        assert noise.asked[0] > made.scale * 2**30
        assert noise.asked[0] == pytest.approx(made.scale * 2**30, rel=1e-9)
        assert noise.asked[1] == (2, 4)


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan"), SMALLEST_NOISE_MULTIPLIER / 1.01])
def test_noise_too_small_for_the_lattice_bound_is_refused(multiplier):
    with pytest.raises(BudgetError, match="noise multiplier"):
        sums(multiplier)
    sums(SMALLEST_NOISE_MULTIPLIER)


def test_noise_too_wide_for_its_integers_is_refused_before_a_row_is_read():
    class Unreadable(ClassCounts):
        def __call__(self, rows, labels):
            raise AssertionError("a row was read")

    made = GaussianMechanism(Unreadable(2), 1e9, Relation.ADD_REMOVE)
    for noise in (SecureNoise(), SeededNoise(0)):
        with pytest.raises(ArgumentError, match="wide"):
            made.release(*NOTHING, noise=noise)


FEATURES = UnitNorm().fit(3, None)

ROWS, LABELS = np.eye(3), np.array([0, 1, 1])


def shares(relation=Relation.ADD_REMOVE):
    return GaussianShares(ClassSums(FEATURES, 2), 3.0, relation, "counts and sums")


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("split", [(1.0,), (0.03, 0.97), (0.1,) * 10, (1 / 3, 1 / 3, 1 / 3)])
def test_the_shares_together_cost_no_more_than_the_event(relation, split):
    """What was drawn is composed as if each release were its own event, at the scale really asked for."""
    made, noise = shares(relation), Listening(0)
    left = made.open(noise=noise)
    events = []
    for number, share in enumerate(split):
        query = ClassCounts(2) if number == 0 and len(split) > 1 else made.query
        left.release(query, share, ROWS, LABELS)
        sensitivity = query.l2_sensitivity(relation)
        drawn = noise.asked[0] / query.grid / sensitivity
        assert drawn * sensitivity == pytest.approx(left.scale(query, share), rel=1e-8)
        events.append(GaussianMechanism(query, drawn, relation).event)
    assert mu_of(events) <= mu_of([made.event])
    assert sum(event.numeric_epsilon for event in events) <= made.event.numeric_epsilon
    assert mu_of(events) >= 0.999 * mu_of([made.event])


def test_no_more_is_spent_than_is_left():
    left = shares().open(noise=SeededNoise(0))
    left.release(ClassCounts(2), 0.4, ROWS, LABELS)
    left.release(ClassCounts(2), 0.5, ROWS, LABELS)
    with pytest.raises(BudgetError, match="Shares"):
        left.release(ClassCounts(2), 0.2, ROWS, LABELS)
    left.release(ClassCounts(2), 0.1, ROWS, LABELS)
    for more in (1e-6, 0.5):
        with pytest.raises(BudgetError, match="Shares"):
            left.release(ClassCounts(2), more, ROWS, LABELS)
    for bad in (0.0, -0.1, float("nan")):
        with pytest.raises(ArgumentError):
            left.release(ClassCounts(2), bad, ROWS, LABELS)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1)])
def test_no_pair_of_neighbours_costs_more_than_the_event(first, second):
    """Rows as far apart as can be, of one class or of two, priced by exact answers and the noise drawn."""
    made, noise = shares(Relation.REPLACE_ONE), Listening(0)
    one, other = ((sign * ROWS[:1], np.array([label])) for sign, label in ((1, first), (-1, second)))
    left, spent = made.open(noise=noise), 0.0
    split = [(ClassCounts(2), 0.3), (ClassSums(FEATURES, 2), 0.2), (WeightedTotal(FEATURES, np.ones(2)), 0.5)]
    for query, share in split:
        left.release(query, share, *one)
        gap = (query(*one) - query(*other)).astype(float)
        spent += float((gap**2).sum()) / noise.asked[0] ** 2
    assert 0.65 <= spent * made.noise_multiplier**2 <= 1


def test_a_query_larger_than_planned_is_refused():
    left = shares().open(noise=SeededNoise(0))
    with pytest.raises(ArgumentError, match="larger"):
        left.release(ClassSumsAndCounts(FEATURES, 2), 0.1, ROWS, LABELS)


def test_a_query_that_bounds_another_unit_is_refused():
    class OfPersons(ClassCounts):
        unit = Unit.PERSON

    left = shares().open(noise=SeededNoise(0))
    with pytest.raises(ArgumentError, match="another unit"):
        left.release(OfPersons(2), 0.1, ROWS, LABELS)


class OfGrid(ClassSums):
    """Class sums whose grid is told: a query of smaller sensitivity, in steps of it."""

    def __init__(self, grid):
        super().__init__(FEATURES, 2)
        object.__setattr__(self, "grid", grid)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("split", [(1.0,), (0.5, 0.5), (0.1,) * 10])
def test_the_event_pays_for_the_coarsest_grid_that_may_pass(relation, split):
    """Half the largest query's sensitivity, in steps: the lattice then costs four times as much."""
    made, noise = shares(relation), Listening(0)
    left, coarsest = made.open(noise=noise), OfGrid(2**29)
    events = []
    for share in split:
        left.release(coarsest, share, ROWS, LABELS)
        drawn = noise.asked[0] / coarsest.grid / coarsest.l2_sensitivity(relation)
        events.append(GaussianMechanism(coarsest, drawn, relation).event)
    paid, cost = made.event.numeric_epsilon, sum(event.numeric_epsilon for event in events)
    assert cost <= paid
    assert cost >= 0.999 * paid  # nothing is paid for nothing, so half of a half would not do


@pytest.mark.parametrize("relation", Relation)
def test_half_the_sensitivity_in_steps_may_pass_and_a_hair_less_not(relation):
    left = shares(relation).open(noise=SeededNoise(0))
    left.release(OfGrid(2**29), 0.1, ROWS, LABELS)
    with pytest.raises(ArgumentError, match="coarser"):
        left.release(OfGrid(2**29 - 1), 0.1, ROWS, LABELS)


def test_sums_are_released_beside_the_finer_gradients_of_persons_and_their_grid_is_paid_for():
    """A gradient of persons is in steps of 2⁻³⁶, everything else in steps of 2⁻³⁰."""
    bound = Bound(Unit.PERSON)
    gradient = SoftmaxGradient(FEATURES, np.zeros((2, 3)), np.zeros(2), bound=bound)
    made, noise = GaussianShares(gradient, 3.0, Relation.ADD_REMOVE, "all"), Listening(0)
    left, spent = made.open(noise=noise), 0.0
    for query in (ClassCounts(2, bound=bound), ClassSums(FEATURES, 2, bound=bound), gradient):
        left.release(query, 1 / 3, ROWS, LABELS, np.array([0, 1, 1]))
        spent += lattice_epsilon(noise.asked[0], math.prod(query.shape))
    assert gradient.grid == 2**36
    assert spent <= made.event.numeric_epsilon == lattice_epsilon(3.0 * 2**29, 6)


ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

JOINT_ROWS = OnLattice(4, ROW_NORM)

MOMENT, SUMS = SecondMoments(JOINT_ROWS, OfAll()), ClassSums(JOINT_ROWS, 2)

GRADIENT = SoftmaxGradient(JOINT_ROWS, np.zeros((2, 4)), np.zeros(2))

DATA = np.full((3, 4), 2**14, dtype=np.int32), np.array([0, 1, 1])


def parts(relation=REPLACE, z=3.0, times=5):
    return [
        GaussianRounds(MOMENT, z / 0.2**0.5, relation, 1),
        GaussianRounds(GRADIENT, z * (times / 0.8) ** 0.5, relation, times),
    ]


def test_the_joint_price_is_the_reach_times_the_sum_of_the_prices():
    (joint,) = joint_rounds(parts(), "both")
    apart = [part.event for part in parts()]
    assert joint.reach == pytest.approx(0.8, rel=1e-3)
    assert (1 / joint.event.noise_multiplier) ** 2 == pytest.approx(joint.reach / 3.0**2)
    assert joint.event.sensitivity**2 == pytest.approx(joint.reach)
    assert joint.event.scale == pytest.approx(3.0)  # of answers in units of sensitivity, weighted
    assert epsilon_of([joint.event], 1e-5) < 0.9 * epsilon_of(apart, 1e-5)
    each = [event.numeric_epsilon for event in apart]
    assert joint.event.numeric_epsilon == pytest.approx(sum(each), rel=1e-12, abs=0)
    (twice,) = joint_rounds([parts()[1]] * 2, "both")
    assert twice.event.numeric_epsilon == pytest.approx(2 * each[1], rel=1e-12, abs=0)
    assert each[1] > 0


def test_add_remove_steps_stay_what_they_were():
    assert joint_rounds(parts(ADD), "both") == parts(ADD)


def test_questions_about_persons_are_paid_for_one_by_one():
    """Nothing is proven of what one person can do to both."""
    of_people = ClassSums(JOINT_ROWS, 2, bound=Bound(Unit.PERSON, 2.0))
    apart = [GaussianRounds(of_people, 4.0, REPLACE, 1), GaussianRounds(of_people, 5.0, REPLACE, 3)]
    assert joint_rounds(apart, "both") == apart
    assert joint_rounds([parts()[0], apart[0]], "both") == [parts()[0], apart[0]]


def test_the_rounds_of_a_plan_are_found_in_any_of_its_steps():
    apart = parts()
    assert [part.query for part in rounds_of(joint_rounds(apart, "both"))] == [MOMENT, GRADIENT]
    assert rounds_of(apart) == apart
    assert all(part.is_part for part in rounds_of(joint_rounds(apart, "both")))
    assert rounds_of([JointRounds((), "none")]) == []


def test_a_part_answers_questions_of_its_own_kind_about_rows_on_the_grid_alone():
    moment, gradient = rounds_of(joint_rounds(parts(), "both"))
    noise = SeededNoise(0)
    bolder = SoftmaxGradient(JOINT_ROWS, np.ones((2, 4)), np.ones(2), clip=0.1)
    assert gradient.open(noise=noise).release(bolder, *DATA).shape == (2, 4)
    unmapped = SecondMoments(UnitNorm().fit(4, None), OfAll())
    finer = SecondMoments(OnLattice(4, 2**14), OfAll())
    by_class = SecondMoments(JOINT_ROWS, OfClasses(1))
    wider = SoftmaxGradient(OnLattice(8, ROW_NORM), np.zeros((1, 8)), np.zeros(1))  # no more coordinates
    asked = ((gradient, SUMS), (moment, by_class), (moment, unmapped), (moment, finer), (gradient, wider))
    for paid, query in asked:
        rounds = paid.open(noise=noise)
        with pytest.raises(ArgumentError, match="its planned kind"):
            rounds.release(query, *DATA)
        assert rounds.asked == 0
