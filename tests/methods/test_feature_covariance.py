import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.errors import ArgumentError
from dptransfer.methods import FeatureCovariance, FromShots, NoisyGD, Pace

from .samples import BUDGET, REPLACE, Silent, clusters, fit, loss, muddled, private, shots


@pytest.mark.parametrize(("budget", "sensitivities"), [(BUDGET, (29.0, 1.0)), (REPLACE, (29 * 2**0.5, 2.0))])
def test_moment_and_gradients_share_the_budget(budget, sensitivities):
    events = FeatureCovariance(steps=9, share=0.3).plan(private().facts, budget).events
    moment, slopes = events
    assert (moment.times, slopes.times) == (1, 9)
    assert (moment.sensitivity, slopes.sensitivity) == pytest.approx(sensitivities)
    costs = [event.times / event.noise_multiplier**2 for event in events]
    assert costs[0] / sum(costs) == pytest.approx(0.3)
    assert 0.999 <= epsilon_of(events, 1e-5) <= 1.0


def stretched(count=900, seed=3):
    """Rows with one direction that is much larger than the others and tells nothing about the class."""
    x, y = muddled(count, seed)
    x[:, -1] += 12.0
    return x, y


def test_without_noise_it_gets_further_than_plain_descent_where_one_direction_dominates():
    x, y = stretched()
    pace, data = Pace(reach=20.0), private(x, y)
    plain, shaped = (
        loss(fit(method, data, noise=Silent()).weights["weights"], x, y)
        for method in (NoisyGD(steps=10, pace=pace), FeatureCovariance(steps=10, pace=pace, ridge=1e-3))
    )
    assert shaped < plain < np.log(3)


def test_a_very_large_ridge_makes_it_plain_descent():
    data = private(*muddled())
    one = fit(FeatureCovariance(steps=5, ridge=1e9), data, noise=Silent()).weights["weights"]
    other = fit(NoisyGD(steps=5), data, noise=Silent()).weights["weights"]
    assert np.allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())
    shaped = fit(FeatureCovariance(steps=5, ridge=1e-3), data, noise=Silent()).weights["weights"]
    assert np.abs(shaped - other).max() > 0.01 * np.abs(other).max()


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_it_learns_from_any_start(budget):
    x, y = clusters(seed=9)
    data = private(*clusters(3000))
    assert fit(FeatureCovariance(), data, budget=budget).score(x, y) > 0.9
    assert fit(FeatureCovariance(start=FromShots()), data, public=shots(), budget=budget).score(x, y) > 0.9


def test_bad_settings_are_refused():
    for bad in ({"share": 0.0}, {"share": 1.0001}, {"ridge": 0.0}, {"clip": 0.0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            FeatureCovariance(**bad)
