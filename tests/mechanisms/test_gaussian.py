import math

import numpy as np
import pytest
from scipy import stats

from dptransfer.accounting import noise_multiplier_for
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.noise import SecureNoise, SeededNoise, lattice_epsilon
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Budget, Relation
from dptransfer.queries import ClassCounts, ClassSums, ClassSumsAndCounts
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


def test_the_noise_has_the_stated_law_with_the_secure_source_too():
    made = GaussianMechanism(ClassCounts(2_000), 3.0, Relation.ADD_REMOVE)
    draws = made.release(*NOTHING, noise=SecureNoise())
    assert fits_continuous(draws, stats.norm(scale=3.0))
    assert not fits_continuous(draws, stats.norm(scale=4.5))


def test_every_value_lies_on_the_lattice():
    released = sums(classes=2, width=5).release(np.eye(5), np.array([0, 0, 1, 1, 1]), noise=SeededNoise(1))
    assert (released * 2.0**30 == np.rint(released * 2.0**30)).all()


def test_the_answer_is_the_exact_one_plus_the_noise():
    made = sums(classes=2, width=5)
    x, y = np.eye(5), np.array([0, 0, 1, 1, 1])
    with_rows = made.release(x, y, noise=SeededNoise(1)) * 2**30
    noise_alone = made.release(x[:0], y[:0], noise=SeededNoise(1)) * 2**30
    assert (with_rows - noise_alone == made.query(x, y)).all()


@pytest.mark.parametrize(
    ("query", "relation", "sensitivity", "scale"),
    [
        (ClassSums, Relation.ADD_REMOVE, 1.0, 3.7307),
        (ClassSums, Relation.REPLACE_ONE, 2.0, 7.4613),
        (ClassSumsAndCounts, Relation.ADD_REMOVE, math.sqrt(2), 5.276),
        (ClassSumsAndCounts, Relation.REPLACE_ONE, 2.0, 7.461),
    ],
)
def test_known_answers_at_epsilon_one_and_delta_one_in_a_hundred_thousand(
    query, relation, sensitivity, scale
):
    made = query(UnitNorm().fit(1280, None), 10)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
    z = noise_multiplier_for(budget, lambda z: [GaussianMechanism(made, z, relation).event])
    event = GaussianMechanism(made, z, relation).event
    assert event.sensitivity == sensitivity
    assert event.scale == pytest.approx(scale, rel=1e-4)
    assert event.noise_multiplier == pytest.approx(3.7307, rel=1e-4)


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
