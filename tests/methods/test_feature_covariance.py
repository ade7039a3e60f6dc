import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import rounds as joint_rounds
from dptransfer.mechanisms import rounds_of
from dptransfer.methods import FeatureCovariance, FromShots, NoisyGD, Pace

from .paths import price_of_pair
from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, loss, muddled, private, shots


@pytest.mark.parametrize(("budget", "sensitivities"), [(BUDGET, (29.0, 1.0)), (REPLACE, (29 * 2**0.5, 2.0))])
def test_moment_and_gradients_share_the_budget(budget, sensitivities):
    plan = FeatureCovariance(steps=9, share=0.3).plan(private().facts, budget)
    moment, slopes = rounds_of(plan.mechanisms)
    assert (moment.times, slopes.times) == (1, 9)
    assert (moment.sensitivity, slopes.sensitivity) == pytest.approx(sensitivities)
    costs = [part.times / part.noise_multiplier**2 for part in (moment, slopes)]
    assert costs[0] / sum(costs) == pytest.approx(0.3)
    assert 0.999 <= epsilon_of(plan.events, 1e-5) <= 1.0


@pytest.mark.parametrize(
    ("budget", "events", "scales"),
    [(BUDGET, 2, (241.92, 22.845)), (REPLACE, 1, (342.12 * 0.8945, 45.691 * 0.8945))],
)
def test_known_scales_at_epsilon_one(budget, events, scales):
    """Replace-one: the separate worst cases would need 342.12 and 45.691; no row is both, so √0.8 of them."""
    plan = FeatureCovariance().plan(private().facts, budget)
    assert len(plan.events) == events
    assert [part.scale for part in rounds_of(plan.mechanisms)] == pytest.approx(scales, rel=1e-4)


def opposite(share):
    """One row, and one at the angle that is worst for this share, of the same class."""
    k = min(1.0, (1 - share) / (4 * share))
    row, turned = np.zeros((2, 1, WIDTH))
    row[0, 0], turned[0, :2] = 1.0, (-k, np.sqrt(1 - k * k))
    return private(row, [1]), private(turned, [1])


@pytest.mark.parametrize("share", [0.1, 0.2, 0.6])
def test_the_worst_pair_uses_all_that_is_paid_for_under_replace_one(share, monkeypatch):
    """Steps of no length: every round asks for the same gradient. A reach one per cent smaller is refuted."""
    method = FeatureCovariance(steps=4, share=share, clip=0.05, pace=Pace(reach=1e-3))
    pair = opposite(share)
    assert 0.995 <= price_of_pair(method, *pair) <= 1
    honest = joint_rounds.joint_reach
    monkeypatch.setattr(joint_rounds, "joint_reach", lambda *given: 0.99 * honest(*given))
    assert price_of_pair(method, *pair) > 1


def test_no_pair_costs_more_than_is_paid_for_on_any_path():
    rng, method = np.random.default_rng(0), FeatureCovariance(steps=3, clip=0.5, share=0.4)
    for seed in range(25):
        x, y = clusters(5, seed)
        there, labels = x.copy(), y.copy()
        there[2], labels[2] = rng.choice([-1, 1]) * x[2] + rng.normal(0, 0.3, WIDTH), rng.integers(0, 3)
        assert price_of_pair(method, private(x, y), private(there, labels), seed) <= 1


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
