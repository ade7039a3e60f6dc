import math

import numpy as np
import pytest

from dptransfer.accounting import mu_of
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianMechanism, GaussianShares
from dptransfer.noise import SeededNoise, lattice_epsilon
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import ClassCounts, ClassSums, ClassSumsAndCounts, SoftmaxGradient, WeightedTotal

from .test_gaussian import Listening

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


def test_a_query_whose_lattice_would_cost_more_than_planned_is_refused():
    """The event allows for half the largest sensitivity, in steps; a coarser grid costs more."""

    class Coarse(ClassCounts):
        grid = 2**28

    left = shares().open(noise=SeededNoise(0))
    with pytest.raises(ArgumentError, match="coarser"):
        left.release(Coarse(2), 0.1, ROWS, LABELS)


def test_the_stated_scale_is_that_of_the_noise():
    noise = Listening(0)
    left = shares().open(noise=noise)
    stated = left.scale(ClassCounts(2), 0.25)
    left.release(ClassCounts(2), 0.25, ROWS, LABELS)
    assert stated == pytest.approx(6.0)
    assert noise.asked[0] / 2**30 == pytest.approx(stated, rel=1e-8)
    assert noise.asked[0] / 2**30 >= 3.0 / math.sqrt(0.25)


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
