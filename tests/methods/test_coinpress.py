import math

import numpy as np
import pytest

from dptransfer.accounting import mu_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.methods import CoinPressPrototypes, MeanPrototypes

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, private

X, Y = clusters()
COUNTS = np.bincount(Y).tolist()


def declared(counts=COUNTS):
    return private(X, Y, class_counts=counts)


def test_the_steps_share_the_budget_as_stated_and_compose_to_it():
    model = fit(CoinPressPrototypes(), declared(), budget=REPLACE)
    parts = np.array([event.noise_multiplier**-2.0 for event in model.events])
    assert parts / parts.sum() == pytest.approx(np.array([5, 7, 52]) / 64)
    whole = fit(MeanPrototypes(), budget=REPLACE).events
    assert mu_of(model.events) == pytest.approx(mu_of(whole), rel=1e-5)


def test_without_noise_the_centres_go_to_the_class_means():
    """Scaled to norm √d, as in the analysis; no row is beyond the clip, so the mean is found at once."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    want = np.array([unit[c == Y].mean(axis=0) for c in range(3)]) * math.sqrt(WIDTH)
    got = fit(CoinPressPrototypes(), declared(), budget=REPLACE, noise=Silent()).weights["prototypes"]
    assert np.allclose(got, want, atol=1e-5)


def test_clips_and_radii_follow_the_printed_recursion(monkeypatch):
    from dptransfer.methods.prototypes import class_sums

    asked = []

    def listening(step, **changes):
        asked.append((changes["radii"] * math.sqrt(WIDTH), step.scale))
        return with_query(step, **changes)

    with_query = class_sums.with_query
    monkeypatch.setattr(class_sums, "with_query", listening)
    fit(CoinPressPrototypes(), declared(), budget=REPLACE)
    tail = math.sqrt(WIDTH + 2 * math.sqrt(WIDTH * math.log(100)) + 2 * math.log(100))
    radius = np.full(3, math.sqrt(WIDTH))
    for clip, scale in asked:
        assert clip == pytest.approx(np.minimum(np.sqrt(radius**2 + 6 * radius + tail**2), radius + tail))
        mean_noise = clip * scale / np.array(COUNTS)
        radius = tail * np.sqrt(1 / np.array(COUNTS) + mean_noise**2)
    assert len(asked) == 3


@pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")  # a delta too large for 10⁶ rows
def test_wrong_class_sizes_cost_accuracy_and_not_privacy():
    right = fit(CoinPressPrototypes(), declared(), budget=REPLACE)
    wrong = fit(CoinPressPrototypes(), declared([1, 0, 10**6]), budget=REPLACE)
    assert right.events == wrong.events
    assert np.isfinite(wrong.weights["prototypes"]).all()


def test_it_learns():
    x, y = clusters(seed=9)
    assert fit(CoinPressPrototypes(), declared(), budget=REPLACE).score(x, y) > 0.95


def test_add_remove_and_undeclared_sizes_are_refused():
    with pytest.raises(RelationMismatch, match="replac"):
        fit(CoinPressPrototypes(), declared(), budget=BUDGET)
    with pytest.raises(ArgumentError, match="class sizes"):
        fit(CoinPressPrototypes(), private(), budget=REPLACE)


@pytest.mark.parametrize("shares", [(), (0.5, 0.4), (1.2, -0.2), (0.0, 1.0), (float("nan"),)])
def test_shares_that_are_not_shares_are_refused(shares):
    with pytest.raises(ArgumentError, match="shares"):
        CoinPressPrototypes(shares=shares)
