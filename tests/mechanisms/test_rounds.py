import math
import os
from copy import copy

import numpy as np
import pytest
from scipy import stats

from dptransfer.accounting import mu_of
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianRounds
from dptransfer.mechanisms import gaussian as module
from dptransfer.noise import SecureNoise, SeededNoise, lattice_epsilon
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, GaussianEvent, Relation, SampledGaussianEvent, Unit
from dptransfer.queries import ClassCounts, ClassSums, ClassSumsAndCounts
from noise.laws import fits_continuous

FEATURES = UnitNorm().fit(3, None)
ROWS, LABELS = np.eye(3), np.array([0, 1, 1])
WIDE = ClassSums(UnitNorm().fit(2**11, None), 40)
NOTHING = np.zeros((0, 2**11)), np.zeros(0, dtype=np.int64)
SUMS = ClassSums(FEATURES, 2)


def rounds(relation=Relation.ADD_REMOVE, *, z=3.0, times=4, rate=1.0, query=SUMS):
    return GaussianRounds(query, z, relation, times, sampling_rate=rate)


@pytest.mark.parametrize("times", [1, 3])
def test_there_is_never_one_more_round_than_paid_for(times):
    purse = rounds(times=times).open(noise=SeededNoise(0))
    for _ in range(times):
        purse.release(SUMS, ROWS, LABELS)
    for _ in range(2):
        with pytest.raises(BudgetError, match="one more"):
            purse.release(SUMS, ROWS, LABELS)


def test_a_round_that_fails_is_used_up():
    class Failing(ClassSums):
        def __call__(self, rows, labels):
            raise OSError("gone")

    purse = rounds(times=1).open(noise=SeededNoise(0))
    with pytest.raises(OSError, match="gone"):
        purse.release(Failing(FEATURES, 2), ROWS, LABELS)
    with pytest.raises(BudgetError, match="one more"):
        purse.release(SUMS, ROWS, LABELS)


class Coarse(ClassSums):
    grid = 2**28


class Sensitive(ClassSums):
    def l2_sensitivity(self, relation):
        return 1.001 * super().l2_sensitivity(relation)


class OfPersons(ClassSums):
    unit = Unit.PERSON


@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(
    "other",
    [
        ClassSums(FEATURES, 3),
        Coarse(FEATURES, 2),
        Sensitive(FEATURES, 2),
        ClassSumsAndCounts(FEATURES, 2),
        OfPersons(FEATURES, 2),
    ],
)
def test_a_larger_coarser_or_more_sensitive_question_is_refused_before_a_row_is_read(relation, rate, other):
    class Unreadable:
        def __len__(self):
            raise AssertionError("a row was read")

    purse = rounds(relation, rate=rate).open(noise=SeededNoise(0))
    with pytest.raises(ArgumentError, match="no larger"):
        purse.release(other, Unreadable(), Unreadable())
    assert purse.asked == 0
    smaller = ClassSums(FEATURES, 1)
    assert purse.release(smaller, ROWS, np.zeros(3, dtype=np.int64)).shape == (1, 3)


@pytest.mark.parametrize("relation", Relation)
def test_all_rounds_are_one_event(relation):
    made = rounds(relation, times=5)
    event, sensitivity = made.event, 1.0 if relation is Relation.ADD_REMOVE else 2.0
    assert isinstance(event, GaussianEvent)
    assert (event.noise_multiplier, event.times, event.relation) == (3.0, 5, relation)
    assert made.scale == event.scale == 3.0 * sensitivity
    assert event.label == "class sums"
    assert event.numeric_epsilon == 5 * lattice_epsilon(event.scale * SUMS.grid, 6) > 0
    assert event.numeric_delta == 0  # no tail is cut off
    assert mu_of([event]) == pytest.approx(math.sqrt(5) / 3.0, rel=1e-6)


@pytest.mark.parametrize("relation", Relation)
def test_sampled_rounds_are_priced_by_what_one_row_contributes(relation):
    """The event's sensitivity is one row's contribution under either relation; the lattice pays for two."""
    made = rounds(relation, times=5, rate=0.25)
    event = made.event
    assert isinstance(event, SampledGaussianEvent)
    assert (event.sampling_rate, event.times, event.relation) == (0.25, 5, relation)
    assert made.scale == event.scale == 3.0
    apart = 1 if relation is Relation.ADD_REMOVE else 2
    assert event.numeric_epsilon == apart * 5 * lattice_epsilon(3.0 * SUMS.grid, 6)


def test_the_noise_has_the_stated_law_with_the_secure_source_too_and_is_fresh_every_round():
    purse = rounds(query=WIDE, times=2).open(noise=SecureNoise())
    first, second = (purse.release(WIDE, *NOTHING).ravel() for _ in range(2))
    assert fits_continuous(first, stats.norm(scale=3.0))
    assert not fits_continuous(first, stats.norm(scale=3.0 * 1.05))
    assert fits_continuous(first - second, stats.norm(scale=3.0 * math.sqrt(2)))


class Listening(SeededNoise):
    """Remembers what it was asked for."""

    def __init__(self, seed):
        super().__init__(seed)
        self.scales, self.samples = [], []

    def discrete_gaussian(self, scale, shape):
        self.scales.append(scale)
        return np.zeros(shape, dtype=np.int64)

    def poisson_sample(self, rows, rate):
        self.samples.append(super().poisson_sample(rows, rate))
        return self.samples[-1]


def test_every_round_looks_at_a_fresh_poisson_sample_and_nothing_else():
    """With rows that tell who they are: 1,000 rounds of 200 rows, each there with probability 0.3."""
    who = ClassCounts(200)
    noise = Listening(1)
    purse = rounds(query=who, times=1000, rate=0.3).open(noise=noise)
    x, y = np.zeros((200, 1)), np.arange(200)
    seen = np.array([purse.release(who, x, y) for _ in range(1000)])
    assert len(noise.samples) == 1000
    assert all((np.flatnonzero(row) == taken).all() for row, taken in zip(seen, noise.samples, strict=True))
    assert set(np.unique(seen)) == {0.0, 1.0}
    sizes, apart = seen.sum(axis=1), 6 * math.sqrt(0.3 * 0.7 * 1000)
    assert (np.abs(seen.sum(axis=0) - 300) < apart).all()  # each row is there as often as any other
    assert stats.kstest(sizes + np.random.default_rng(0).random(1000) - 0.5, "norm", (60, 6.48)).pvalue > 1e-6
    assert len({tuple(row) for row in seen}) == 1000


def test_without_sampling_no_sample_is_drawn():
    noise = Listening(0)
    answer = rounds().open(noise=noise).release(SUMS, ROWS, LABELS)
    assert noise.samples == []
    assert (answer * SUMS.grid == SUMS(ROWS, LABELS)).all()


def test_an_empty_sample_is_noise_and_no_error():
    answer = rounds(rate=0.5).open(noise=SeededNoise(1)).release(SUMS, ROWS[:0], LABELS[:0])
    assert answer.any()


def test_noise_is_drawn_before_a_row_is_read():
    class Broken(SeededNoise):
        def discrete_gaussian(self, scale, shape):
            raise OSError("no entropy")

    class Unreadable(ClassSums):
        def __call__(self, rows, labels):
            raise AssertionError("a row was read")

    with pytest.raises(OSError, match="entropy"):
        rounds().open(noise=Broken(0)).release(Unreadable(FEATURES, 2), ROWS, LABELS)


def answers(times=4, rate=0.4, noise=None):
    """Sampled rounds about rows that tell who they are."""
    who = ClassCounts(50)
    purse = rounds(query=who, times=times, rate=rate).open(noise=noise or SeededNoise(3))
    return [purse.release(who, np.zeros((50, 1)), np.arange(50)) for _ in range(times)]


@pytest.mark.parametrize("rate", [0.4, 1.0])
def test_noise_that_is_drawn_ahead_is_the_noise_that_would_be_drawn_in_its_turn(monkeypatch, rate):
    wanted = answers(rate=rate)
    monkeypatch.setattr(module, "_FEW", 1)
    assert (np.array(answers(rate=rate)) == wanted).all()


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 3)


def test_noise_that_was_drawn_ahead_for_another_shape_is_not_used(monkeypatch):
    monkeypatch.setattr(module, "_FEW", 1)
    noise, fewer = Listening(0), ClassSums(FEATURES, 1)
    purse = rounds(times=3, rate=0.5).open(noise=noise)
    assert purse.release(SUMS, ROWS, LABELS).shape == (2, 3)
    assert purse.release(fewer, ROWS, np.zeros(3, dtype=np.int64)).shape == (1, 3)
    assert purse.release(SUMS, ROWS, LABELS).shape == (2, 3)
    assert len(noise.scales) == 5


def test_the_two_sides_of_a_fork_do_not_share_the_noise_that_was_drawn_ahead(monkeypatch):
    monkeypatch.setattr(module, "_FEW", 1)
    purse = rounds(query=WIDE, times=3, rate=0.5).open(noise=SecureNoise())
    purse.release(WIDE, *NOTHING)
    child = copy(purse)
    child._ahead = dict(purse._ahead)
    parents = purse.release(WIDE, *NOTHING)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        childs = child.release(WIDE, *NOTHING)
    assert (parents != childs).any()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"times": 0}, ArgumentError),
        ({"times": 1.5}, ArgumentError),
        ({"rate": 0.0}, ArgumentError),
        ({"rate": 1.1}, ArgumentError),
        ({"z": SMALLEST_NOISE_MULTIPLIER / 1.01}, BudgetError),
        ({"z": float("nan")}, BudgetError),
    ],
)
def test_what_the_bounds_do_not_cover_is_refused(changed, error):
    with pytest.raises(error):
        rounds(**changed)
    rounds(z=SMALLEST_NOISE_MULTIPLIER, times=1)
