"""Prototypes from sums: their directions, their means, and CoinPress."""

import math

import numpy as np
import pytest

from dptransfer.accounting import mu_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import CoinPressPrototypes, MeanEstimation, MeanPrototypes
from dptransfer.methods.prototypes import class_sums

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, pool, private, refused_uncharged, unit

X, Y = clusters()
COUNTS = np.bincount(Y).tolist()
SUMS = np.array([unit(X)[c == Y].sum(axis=0) for c in range(3)])
MEANS = SUMS / np.array(COUNTS)[:, None]


def prototypes(method=None, data=None, **given):
    return fit(method or MeanPrototypes(), data, **given).weights["prototypes"]


def centres(method=None, data=None, noise=None):
    return fit(method or MeanEstimation(), data, noise=noise or Silent()).weights["centres"]


def declared(counts=COUNTS):
    return private(X, Y, class_counts=counts)


def test_without_noise_they_are_sums_or_means_of_unit_rows():
    assert np.allclose(prototypes(noise=Silent()), SUMS, atol=1e-3)
    assert np.allclose(centres(), MEANS, atol=1e-5)
    # Scaled to norm √d, as in the analysis; no row is beyond the clip, so the mean is found at once.
    found = prototypes(CoinPressPrototypes(), declared(), budget=REPLACE, noise=Silent())
    assert np.allclose(found, math.sqrt(WIDTH) * MEANS, atol=1e-5)


def test_the_noise_does_not_depend_on_how_many_examples_there_are():
    """The mean's noise, as printed, would tell the class size."""
    few, many = private(X[:5], Y[:5]), private()
    noise = [prototypes(data=data) - prototypes(data=data, noise=Silent()) for data in (few, many)]
    assert np.allclose(*noise, atol=1e-6)


@pytest.mark.parametrize("method", [MeanPrototypes, MeanEstimation])
def test_a_device_that_is_not_there_is_refused_before_anything_is_charged(method, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "Use device='cpu'" in refused_uncharged(method(device="cuda"))
    with pytest.raises(ArgumentError, match="one of"):
        method(device="tpu")


@pytest.mark.gpu
@pytest.mark.parametrize("method", [MeanPrototypes, MeanEstimation])
@pytest.mark.parametrize("features", [UnitNorm(), UnitNorm(pool=4), PublicMap(axes=4)])
@pytest.mark.parametrize("people", [None, np.arange(600) // 7])
def test_a_fit_on_cuda_releases_what_one_on_the_cpu_does(method, features, people):
    here, there = (
        fit(method(features=features, device=device), private(people=people), public=pool())
        for device in ("cpu", "cuda")
    )
    for name, array in here.weights.items():
        assert (there.weights[name] == array).all()


def test_a_count_below_the_smallest_does_not_flip_a_centre():
    """For an empty class the noisy count is negative half of the time; the sum is divided by 1 then."""

    class Negative(Silent):
        def discrete_gaussian(self, scale, shape):
            return np.full(shape, -3 * 2**30)

    nothing = private(X[:0], Y[:0])
    assert (centres(data=nothing, noise=Negative()) == -3.0).all()
    assert (centres(MeanEstimation(smallest_count=6.0), nothing, noise=Negative()) == -0.5).all()


@pytest.mark.parametrize(
    ("weight", "budget", "scale"),
    [
        (1.0, BUDGET, 5.276),
        (1.0, REPLACE, 7.461),
        (0.25, BUDGET, 3.8454),
        (0.25, REPLACE, 7.461),
        (None, BUDGET, 3.7306 * np.sqrt(1 + 8**-0.5)),
        (None, REPLACE, 7.461),
        (2.0, REPLACE, 11.797),
    ],
)
def test_the_joint_release_has_the_known_scale(weight, budget, scale):
    """A weight of ¼ leaves 27 % less noise on the sums than 1 does, and replace-one does not see it."""
    (event,) = MeanEstimation(count_weight=weight).plan(private().facts, budget).events
    assert event.scale == pytest.approx(scale, rel=1e-4)


def test_the_steps_of_coinpress_share_the_budget_as_stated_and_compose_to_it():
    model = fit(CoinPressPrototypes(), declared(), budget=REPLACE)
    parts = np.array([event.noise_multiplier**-2.0 for event in model.events])
    assert parts / parts.sum() == pytest.approx(np.array([5, 7, 52]) / 64)
    whole = fit(MeanPrototypes(), budget=REPLACE).events
    assert mu_of(model.events) == pytest.approx(mu_of(whole), rel=1e-5)


def test_clips_and_radii_follow_the_printed_recursion(monkeypatch):
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
    right, wrong = (
        fit(CoinPressPrototypes(), declared(counts), budget=REPLACE) for counts in (COUNTS, [1, 0, 10**6])
    )
    assert right.events == wrong.events
    assert np.isfinite(wrong.weights["prototypes"]).all()


def test_add_remove_and_undeclared_sizes_are_refused():
    refused_uncharged(CoinPressPrototypes(), declared(), error=RelationMismatch)
    assert "class sizes" in refused_uncharged(CoinPressPrototypes(), budget=REPLACE)


@pytest.mark.parametrize("shares", [(), (0.5, 0.4), (1.2, -0.2), (0.0, 1.0), (float("nan"),)])
def test_shares_that_are_not_shares_are_refused(shares):
    with pytest.raises(ArgumentError, match="shares"):
        CoinPressPrototypes(shares=shares)
