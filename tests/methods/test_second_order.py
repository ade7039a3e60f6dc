"""Least squares, Newton steps, and descent in the metric of a second moment."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from dptransfer.accounting import epsilon_of
from dptransfer.data.facts import Facts
from dptransfer.mechanisms import gaussian as joint_rounds
from dptransfer.mechanisms import rounds_of
from dptransfer.methods import FeatureCovariance, LeastSquares, NewtonHead, Pace
from dptransfer.methods.heads.second_order import ridge_inverse, solve_ridge

from .paths import price_of_pair
from .samples import BUDGET, REPLACE, WIDTH, clusters, muddled, private, silent_weights, unit

FACTS = Facts(tuple(f"c{i}" for i in range(10)), 128)
SQUARE = 29.0  # sensitivity of a second moment of rows on the grid


def symmetric(seed=0, width=6):
    half = np.random.default_rng(seed).normal(size=(width, width))
    return half + half.T


def test_one_target_and_many_are_divided_by_the_positive_part():
    definite, target = np.eye(6) + 0.1 * symmetric() @ symmetric(), np.arange(6.0)
    wanted = np.linalg.solve(definite + 0.5 * np.eye(6), target)
    assert np.allclose(solve_ridge(definite, target, 0.5), wanted)
    assert np.allclose(ridge_inverse(np.diag([4.0, -3.0, 0.5]), 0.5), np.diag([1 / 4.5, 2.0, 1.0]))
    noisy = symmetric(2)
    assert np.allclose(ridge_inverse(noisy, 0.3) @ target, solve_ridge(noisy, target, 0.3))


def test_each_of_three_releases_has_the_known_noise():
    events = LeastSquares().plan(FACTS, BUDGET).events
    assert [round(event.noise_multiplier, 2) for event in events] == [6.46] * 3
    assert [event.sensitivity for event in events] == [SQUARE, SQUARE, 1.0]


def test_under_replace_one_the_three_have_one_price_and_less_noise():
    """One by one they would need 6.46 each; together √(27/32) of it."""
    plan = LeastSquares().plan(FACTS, REPLACE)
    (event,) = plan.events
    parts = rounds_of(plan.mechanisms)
    assert [round(part.noise_multiplier, 3) for part in parts] == [5.936] * 3
    wanted = [SQUARE * np.sqrt(2), SQUARE * np.sqrt(2), 2.0]
    assert [part.sensitivity for part in parts] == pytest.approx(wanted)
    assert event.noise_multiplier == pytest.approx(3.7306, rel=1e-4)
    assert event.sensitivity**2 == pytest.approx(27 / 32, rel=1e-3)


@pytest.mark.parametrize(
    ("budget", "sensitivities"), [(BUDGET, (1.0, SQUARE)), (REPLACE, (2.0, SQUARE * 2**0.5))]
)
@pytest.mark.parametrize("kind", [NewtonHead, FeatureCovariance])
def test_gradients_and_moments_share_the_budget(kind, budget, sensitivities):
    plan = kind(steps=9, share=0.3).plan(private().facts, budget)
    slopes, moments = rounds_of(plan.mechanisms)[:: 1 if kind is NewtonHead else -1]
    assert (slopes.times, moments.times) == (9, 9 if kind is NewtonHead else 1)
    assert (slopes.sensitivity, moments.sensitivity) == pytest.approx(sensitivities)
    costs = [part.times / part.noise_multiplier**2 for part in (slopes, moments)]
    assert costs[1] / sum(costs) == pytest.approx(0.3)
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


def steps_of_no_length(share):
    """Every round asks for the same gradient."""
    return FeatureCovariance(steps=4, share=share, clip=0.05, pace=Pace(reach=1e-3))


@pytest.mark.parametrize(
    ("method", "k"),
    [
        (LeastSquares(), 1 / 8),
        *((steps_of_no_length(s), min(1.0, (1 - s) / (4 * s))) for s in (0.1, 0.2, 0.6)),
    ],
)
def test_the_worst_pair_uses_all_that_is_paid_for_under_replace_one(method, k, monkeypatch):
    """Rows with the scalar product −k, of one class; a reach one per cent smaller is refuted."""
    row, turned = np.zeros((2, 1, WIDTH))
    row[0, 0], turned[0, :2] = 1.0, (-k, np.sqrt(1 - k * k))
    pair = private(row, [1]), private(turned, [1])
    assert 0.995 <= price_of_pair(method, *pair) <= 1
    honest = joint_rounds.joint_reach
    monkeypatch.setattr(joint_rounds, "joint_reach", lambda *given: 0.99 * honest(*given))
    assert price_of_pair(method, *pair) > 1


@pytest.mark.parametrize(
    ("method", "spread"), [(LeastSquares(), 1.0), (FeatureCovariance(steps=3, clip=0.5, share=0.4), 0.3)]
)
def test_no_pair_costs_more_than_is_paid_for_on_any_path(method, spread):
    rng = np.random.default_rng(0)
    for seed in range(25):
        x, y = clusters(5, seed)
        there, labels = x.copy(), y.copy()
        there[2], labels[2] = rng.choice([-1, 1]) * x[2] + rng.normal(0, spread, WIDTH), rng.integers(0, 3)
        assert price_of_pair(method, private(x, y), private(there, labels), seed) <= 1


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("ridge", [1e-4, 0.01])
def test_without_noise_it_is_ridge_regression(alpha, ridge):
    """Own examples weigh 1 + α with target 1/(1 + α), others α with target 0.

    Rows are cut to a grid of 2⁻¹⁴ in the moments, which shortens entries of about ⅓ by up to 2 parts in
    10⁴, so a solution of a well-conditioned system is off by a few parts in 10⁴.
    """
    x, y = muddled()
    method = LeastSquares(alpha=alpha, ridge=ridge)
    found = silent_weights(method, private(x, y))
    _, moments, _ = method.plan(private(x, y).facts, BUDGET).events
    strength = ridge * 2 * moments.scale / 29 * np.hypot(1, alpha) * np.sqrt(WIDTH)
    for c in range(3):
        weights, target = np.where(y == c, 1 + alpha, alpha), (y == c) / (1 + alpha)
        wanted = Ridge(alpha=strength, fit_intercept=False).fit(unit(x), target, sample_weight=weights)
        assert np.linalg.norm(found[c] - wanted.coef_) <= 1e-3 * np.linalg.norm(wanted.coef_)


def test_newton_without_noise_finds_the_optimum_of_softmax_regression():
    x, y = muddled()
    made = NewtonHead(steps=25, ridge=1e-6, clip=2.0)  # no gradient is longer than √2: none is clipped
    found = silent_weights(made, private(x, y))
    best = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-8, max_iter=2000).fit(unit(x), y).coef_
    found, wanted = (weights - weights.mean(axis=0) for weights in (found, best))  # what a softmax sees
    cosine = (found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted)
    assert cosine > 0.9999
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(wanted), rel=0.01)
