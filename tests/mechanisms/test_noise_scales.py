"""The scale that a sampler is asked for is the one the event claims, to the last bits."""

import numpy as np
import pytest

from dptransfer.exact.feature_map import OnLattice, UnitNorm
from dptransfer.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    GaussianRounds,
    LaplaceNoisyMax,
    PermuteAndFlip,
    joint_rounds,
    rounds_of,
)
from dptransfer.mechanisms.mechanism import ROUND_UP
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import ClassSums, SecondMoments, SoftmaxGradient
from dptransfer.queries.second_moments import OfAll
from dptransfer.queries.softmax_gradient import ROW_NORM

GRID_ROWS = OnLattice(4, ROW_NORM)
DATA = np.full((60, 4), 2**14, dtype=np.int32), np.arange(60) % 2
PEOPLE = np.arange(60) // 3
FLOATS = np.random.default_rng(0).normal(size=(60, 4)), DATA[1]
SUMS = ClassSums(UnitNorm().fit(4, None), 2)
OF_PEOPLE = ClassSums(UnitNorm().fit(4, None), 2, bound=Bound(Unit.PERSON, 2.0))
GRADIENT = SoftmaxGradient(GRID_ROWS, np.zeros((2, 4)), np.zeros(2))


class Asked(SeededNoise):
    """Notes what samplers are asked for."""

    def __init__(self):
        super().__init__(0)
        self.gaussian, self.rates, self.other = [], [], []

    def discrete_gaussian(self, scale, shape):
        self.gaussian.append((scale, shape))
        return super().discrete_gaussian(scale, shape)

    def discrete_laplace(self, scale, shape):
        self.other.append(scale)
        return super().discrete_laplace(scale, shape)

    def poisson_sample(self, population, rate):
        self.rates.append((population, rate))
        return super().poisson_sample(population, rate)

    def best_set(self, bins, size, scale):
        self.other.append(scale)
        return super().best_set(bins, size, scale)

    def permute_and_flip(self, bins, scale):
        self.other.append(scale)
        return super().permute_and_flip(bins, scale)


def claimed(event, query):
    """Standard deviation in steps of the grid, as the event has it."""
    return event.noise_multiplier * event.sensitivity * query.grid


def require_exact(scale, wanted):
    assert wanted <= scale <= wanted * ROUND_UP * (1 + 1e-15)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("query", "people"), [(SUMS, None), (OF_PEOPLE, PEOPLE)])
def test_one_gaussian_answer_has_the_noise_of_its_event(relation, query, people):
    noise, mechanism = Asked(), GaussianMechanism(query, 3.7, relation)
    mechanism.release(*FLOATS, people, noise=noise)
    ((scale, shape),) = noise.gaussian
    require_exact(scale, claimed(mechanism.event, query))
    assert shape == query.shape
    assert mechanism.event.sensitivity == query.l2_sensitivity(relation)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("rate", [1.0, 0.4])
@pytest.mark.parametrize(("query", "people"), [(SUMS, None), (OF_PEOPLE, PEOPLE)])
def test_every_round_has_the_noise_and_the_sample_of_the_event(relation, rate, query, people, monkeypatch):
    monkeypatch.setattr("dptransfer.mechanisms.gaussian._FEW", 1)  # drawn ahead, too
    monkeypatch.setattr("dptransfer.mechanisms.gaussian.usable_cores", lambda: 8)
    noise, paid = Asked(), GaussianRounds(query, 3.7, relation, 4, sampling_rate=rate)
    purse = paid.open(noise=noise)
    for _ in range(4):
        purse.release(query, *FLOATS, people)
    assert len(noise.gaussian) == paid.event.times == 4
    for scale, shape in noise.gaussian:
        require_exact(scale, claimed(paid.event, query))
        assert shape == query.shape
    units = 60 if people is None else 20
    assert noise.rates == ([] if rate == 1 else [(units, paid.event.sampling_rate)] * 4)
    one_row = Relation.ADD_REMOVE if rate < 1 else relation
    assert paid.event.sensitivity == query.l2_sensitivity(one_row)


def test_parts_of_joint_rounds_have_the_noise_of_the_joint_event():
    moment = SecondMoments(GRID_ROWS, OfAll())
    steps = joint_rounds(
        [
            GaussianRounds(moment, 6.0, Relation.REPLACE_ONE, 1),
            GaussianRounds(GRADIENT, 7.0, Relation.REPLACE_ONE, 3),
        ],
        "both",
    )
    noise, price = Asked(), 0.0
    for part in rounds_of(steps):
        purse = part.open(noise=noise)
        for _ in range(part.times):
            purse.release(part.query, *DATA)
            (scale, _) = noise.gaussian[-1]
            price += (part.query.l2_sensitivity(Relation.REPLACE_ONE) * part.query.grid / scale) ** 2
    assert len(noise.gaussian) == 4
    (joint,) = steps
    paid = joint.event.noise_multiplier**-2 / joint.reach
    assert paid * (1 - 1e-9) <= price <= paid


class Scores:
    """Scores of five candidates for two classes, whose range is 3."""

    label, score_range, unit, classes = "scores", 3, Unit.ROW, 2

    def __call__(self, rows, labels):
        return np.arange(10, dtype=np.int64).reshape(2, 5)


@pytest.mark.parametrize("mechanism", [ExponentialMechanism, PermuteAndFlip, LaplaceNoisyMax])
@pytest.mark.parametrize("relation", Relation)
def test_selections_are_drawn_at_the_rate_of_their_epsilon(mechanism, relation):
    noise, choice = Asked(), mechanism(Scores(), 0.7, relation)
    choice.release(*FLOATS, noise=noise)
    both_ways = 2 if relation is Relation.REPLACE_ONE else 1
    assert noise.other
    for scale in noise.other:
        require_exact(scale, both_ways * 3 / choice.event.epsilon)
