import numpy as np
import pytest

from dptransfer.data.facts import Facts
from dptransfer.methods import FromShots, NoisyGD, Pace
from dptransfer.privacy import Budget, GaussianEvent

from .samples import BUDGET, REPLACE, Silent, clusters, fit, loss, muddled, private, shots

FACTS = Facts(tuple(f"c{i}" for i in range(10)), 1280)


@pytest.mark.parametrize(("epsilon", "steps"), [(1.0, 28), (3.0, 206)])
def test_known_numbers_of_steps_at_twenty_times_the_clip(epsilon, steps):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    (event,) = NoisyGD(noise_multiplier=20.0).plan(FACTS, budget).events
    assert isinstance(event, GaussianEvent)
    assert (event.times, event.noise_multiplier, event.sensitivity) == (steps, 20.0, 1.0)


def test_replacing_one_example_costs_twice_the_noise():
    (added,), (replaced,) = (NoisyGD().plan(FACTS, budget).events for budget in (BUDGET, REPLACE))
    assert added.noise_multiplier == pytest.approx(replaced.noise_multiplier, rel=1e-6)
    assert (added.sensitivity, replaced.sensitivity) == (1.0, 2.0)
    assert replaced.scale == pytest.approx(2 * added.scale, rel=1e-6)


def test_without_noise_every_step_lowers_the_loss():
    x, y = muddled()
    start = loss(np.zeros((3, x.shape[1])), x, y)
    losses = [
        loss(
            fit(NoisyGD(steps=steps, pace=Pace(reach=6.0)), private(x, y), noise=Silent()).weights["weights"],
            x,
            y,
        )
        for steps in (1, 4, 40)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * start


def test_it_learns():
    x, y = clusters(seed=9)
    for budget in (BUDGET, REPLACE):
        assert fit(NoisyGD(), budget=budget).score(x, y) > 0.95


def test_weight_decay_pulls_to_a_start_that_is_anywhere_public():
    """With rows whose labels contradict the shots, more decay leaves the weights nearer to the shots' fit."""
    x, y = clusters()
    wrong = private(x, (y + 1) % 3)
    features = NoisyGD().features.fit(x.shape[1], None)
    start = FromShots().weights(features, wrong.facts, shots())
    away = []
    for decay in (0.0, 3.0, 1e6):
        method = NoisyGD(steps=20, start=FromShots(), pace=Pace(reach=10.0, weight_decay=decay))
        away.append(
            np.linalg.norm(fit(method, wrong, public=shots(), noise=Silent()).weights["weights"] - start)
        )
    assert away[0] > 1.5 * away[1] > 1.5 * away[2] > 0
    assert np.linalg.norm(start) > 1


def test_a_good_start_helps_where_there_is_little_else():
    x, y = clusters(seed=9)
    few = private(*clusters(6))
    tight = Budget(epsilon=0.05, delta=1e-5)
    pace = Pace(reach=1.0)
    led = fit(NoisyGD(start=FromShots(), pace=pace), few, public=shots(), budget=tight).score(x, y)
    assert led > 0.9 > fit(NoisyGD(pace=pace), few, budget=tight).score(x, y)
