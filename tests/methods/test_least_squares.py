import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError
from dptransfer.methods import LeastSquares

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, muddled, private, unit

FACTS = Facts(tuple(f"c{i}" for i in range(10)), 128)


def test_each_of_three_releases_has_the_known_noise():
    events = LeastSquares().plan(FACTS, BUDGET).events
    assert [round(event.noise_multiplier, 2) for event in events] == [6.46] * 3
    assert [event.sensitivity for event in events] == [29.0, 29.0, 1.0]


def test_replacing_one_example_moves_moments_by_root_two_and_sums_by_two():
    events = LeastSquares().plan(FACTS, REPLACE).events
    assert [round(event.noise_multiplier, 2) for event in events] == [6.46] * 3
    wanted = [29 * np.sqrt(2), 29 * np.sqrt(2), 2.0]
    assert [event.sensitivity for event in events] == pytest.approx(wanted)


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
