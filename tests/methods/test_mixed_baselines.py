import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dptransfer.errors import ArgumentError, DataError
from dptransfer.ledger import Ledger
from dptransfer.methods import NGD, PPGD, AdaMix, FromShots, FullyPrivate, NoisyGD, OnlyPublic
from dptransfer.methods.heads.start import clipped_gradient
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, pool, private, shots, unit


@pytest.mark.parametrize("strength", [1e-3, 0.1])
def test_only_public_is_softmax_regression_on_the_shots(strength):
    made = shots()
    found = fit(OnlyPublic(start=FromShots(strength)), public=made).weights["weights"]
    wanted = LogisticRegression(C=1 / (strength * len(made)), fit_intercept=False, tol=1e-8, max_iter=1000)
    wanted.fit(unit(made.rows), made.labels)
    assert np.allclose(found, wanted.coef_, atol=0.01 * np.abs(wanted.coef_).max())


def test_only_public_costs_nothing_and_does_not_depend_on_private_rows():
    x, y = clusters()
    one = fit(OnlyPublic(), public=shots())
    other = fit(OnlyPublic(), private(-x[:5], y[:5]), public=shots(), noise=SeededNoise(9))
    assert (one.weights["weights"] == other.weights["weights"]).all()
    assert (one.events, one.guarantee.epsilon, one.guarantee.delta) == ((), 0.0, 0.0)


def test_fully_private_is_noisy_descent_from_zero_and_uses_no_shots():
    one, other = (fit(FullyPrivate(steps=5), public=public) for public in (None, shots()))
    plain = fit(NoisyGD(steps=5))
    assert (one.weights["weights"] == other.weights["weights"]).all()
    assert (one.weights["weights"] == plain.weights["weights"]).all()


def test_ngd_is_adamix_without_its_adaptive_parts():
    one = fit(NGD(steps=5), public=shots())
    plain = AdaMix(steps=5, quantile=None, count_share=0.0, pace=NGD().pace)
    other = fit(plain, public=shots())
    assert (one.weights["weights"] == other.weights["weights"]).all()
    adaptive = fit(AdaMix(steps=5), public=shots()).weights["weights"]
    assert np.abs(one.weights["weights"] - adaptive).max() > 1e-3


def test_the_clip_of_ppgd_is_the_norm_of_the_mean_public_gradient():
    made, method = shots(), PPGD()
    features = method.features.fit(WIDTH, None)
    guide = method.rule(features, private().facts, made)
    for seed in range(3):
        weights = np.random.default_rng(seed).normal(size=(3, WIDTH))
        mean = clipped_gradient(weights, unit(made.rows), made.labels) / len(made)
        assert guide.question(weights, features).clip == pytest.approx(np.linalg.norm(mean), rel=1e-6)
    assert guide.question(1e4 * np.eye(3, WIDTH), features).clip == 1e-3


def test_the_private_model_of_ppgd_pulls_the_public_one():
    """The stronger the reuse, the nearer: at the ends are the private model and the shots' own fit."""
    x, y = clusters()
    data = private(x, (y + 1) % 3)  # private labels that contradict the shots
    held = fit(PPGD(steps=5, reuse=1e9), data, public=shots(), noise=Silent()).weights["weights"]
    away = [
        np.linalg.norm(
            fit(PPGD(steps=5, reuse=reuse), data, public=shots(), noise=Silent()).weights["weights"] - held
        )
        for reuse in (1e-3, 1e-1, 10.0)
    ]
    assert away[0] > 1.5 * away[1] > 1.5 * away[2] > 0
    test, truth = clusters(seed=9)
    loose = fit(PPGD(steps=5, reuse=1e-6), data, public=shots(), noise=Silent())
    assert loose.score(test, truth) > 0.9
    tight = fit(PPGD(steps=5, reuse=1e9), data, public=shots(), noise=Silent())
    assert tight.score(test, (truth + 1) % 3) > 0.9


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
@pytest.mark.parametrize("method", [OnlyPublic(), FullyPrivate(), NGD(), PPGD()])
def test_they_learn(method, budget):
    x, y = clusters(seed=9)
    assert fit(method, public=shots(), budget=budget).score(x, y) > 0.95


@pytest.mark.parametrize("method", [OnlyPublic(), NGD(), PPGD()])
def test_missing_shots_are_noticed_before_anything_is_charged(method):
    ledger = Ledger.in_memory()
    with pytest.raises(DataError, match="labels"):
        method.fit(private(), pool(), budget=Budget(epsilon=1.0, delta=1e-5), ledger=ledger)
    assert ledger.history() == []


def test_bad_settings_are_refused():
    for method, bad in (
        (PPGD, {"reuse": 0.0}),
        (FullyPrivate, {"clip": 0.0}),
        (NGD, {"public_weight": -1.0}),
    ):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            method(**bad)
