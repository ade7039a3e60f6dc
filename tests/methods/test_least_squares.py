import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import rounds as joint_rounds
from dptransfer.mechanisms import rounds_of
from dptransfer.methods import LeastSquares

from .paths import price_of_pair
from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, muddled, private, unit

FACTS = Facts(tuple(f"c{i}" for i in range(10)), 128)


def test_each_of_three_releases_has_the_known_noise():
    events = LeastSquares().plan(FACTS, BUDGET).events
    assert [round(event.noise_multiplier, 2) for event in events] == [6.46] * 3
    assert [event.sensitivity for event in events] == [29.0, 29.0, 1.0]


def test_under_replace_one_the_three_have_one_price_and_less_noise():
    """One by one they would need 6.46 each; together √(27/32) of it."""
    plan = LeastSquares().plan(FACTS, REPLACE)
    (event,) = plan.events
    parts = rounds_of(plan.mechanisms)
    assert [round(part.noise_multiplier, 3) for part in parts] == [5.936] * 3
    wanted = [29 * np.sqrt(2), 29 * np.sqrt(2), 2.0]
    assert [part.sensitivity for part in parts] == pytest.approx(wanted)
    assert event.noise_multiplier == pytest.approx(3.7306, rel=1e-4)
    assert event.sensitivity**2 == pytest.approx(27 / 32, rel=1e-3)


def test_the_worst_pair_uses_all_that_is_paid_for_under_replace_one(monkeypatch):
    """Rows with the scalar product −1/8, of one class; a reach one per cent smaller is refuted."""
    row, turned = np.zeros((2, 1, WIDTH))
    row[0, 0], turned[0, :2] = 1.0, (-1 / 8, np.sqrt(63 / 64))
    pair = private(row, [1]), private(turned, [1])
    assert 0.995 <= price_of_pair(LeastSquares(), *pair) <= 1
    honest = joint_rounds.joint_reach
    monkeypatch.setattr(joint_rounds, "joint_reach", lambda *given: 0.99 * honest(*given))
    assert price_of_pair(LeastSquares(), *pair) > 1


def test_no_pair_costs_more_than_is_paid_for():
    rng = np.random.default_rng(0)
    for seed in range(25):
        x, y = clusters(5, seed)
        there, labels = x.copy(), y.copy()
        there[2], labels[2] = rng.choice([-1, 1]) * x[2] + rng.normal(0, 1.0, WIDTH), rng.integers(0, 3)
        assert price_of_pair(LeastSquares(), private(x, y), private(there, labels)) <= 1


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("ridge", [1e-4, 0.01])
def test_without_noise_it_is_ridge_regression(alpha, ridge):
    """Own examples weigh 1 + α with target 1/(1 + α), others α with target 0.

    Rows are cut to a grid of 2⁻¹⁴ in the moments, which shortens entries of about ⅓ by up to 2 parts in
    10⁴, so a solution of a well-conditioned system is off by a few parts in 10⁴.
    """
    x, y = muddled()
    method = LeastSquares(alpha=alpha, ridge=ridge)
    found = fit(method, private(x, y), noise=Silent()).weights["weights"]
    _, moments, _ = method.plan(private(x, y).facts, BUDGET).events
    strength = ridge * 2 * moments.scale / 29 * np.hypot(1, alpha) * np.sqrt(WIDTH)
    for c in range(3):
        weights, target = np.where(y == c, 1 + alpha, alpha), (y == c) / (1 + alpha)
        wanted = Ridge(alpha=strength, fit_intercept=False).fit(unit(x), target, sample_weight=weights)
        assert np.linalg.norm(found[c] - wanted.coef_) <= 1e-3 * np.linalg.norm(wanted.coef_)


def test_another_weight_is_another_regression():
    x, y = muddled()
    one, other = (
        fit(LeastSquares(alpha=alpha, ridge=1e-4), private(x, y), noise=Silent()).weights["weights"]
        for alpha in (0.1, 0.2)
    )
    assert np.linalg.norm(one - other) > 0.01 * np.linalg.norm(one)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_it_learns(budget):
    x, y = clusters(seed=9)
    model = fit(LeastSquares(), private(*clusters(3000)), budget=budget)
    assert model.score(x, y) > 0.9
    assert 0.4 < model.predict_proba(x).max(axis=1).mean() <= 1.0


def test_bad_settings_are_refused():
    for bad in ({"alpha": -0.1}, {"ridge": 0.0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            LeastSquares(**bad)
