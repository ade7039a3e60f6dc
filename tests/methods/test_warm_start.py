"""Private class centres first, then steps on what they miss."""

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods import MeanPrototypes, WarmStart
from dptransfer.methods.heads.noisy_gd import released_directions, sums_before
from dptransfer.methods.method import Outline
from dptransfer.noise import SeededNoise
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent
from dptransfer.queries import SoftmaxGradient
from dptransfer.release.heads import AverageHead

from .samples import (
    BUDGET,
    REPLACE,
    WIDTH,
    Silent,
    clusters,
    fit,
    muddled,
    private,
    unit,
)

OUTLINE = Outline(WIDTH)
FULL = {"sampling_rate": 1.0, "steps": 6}
BOTH = {"loss": "average"}


def class_sums(x, y, classes=3):
    return np.stack([unit(x[y == place]).sum(axis=0) for place in range(classes)])


def rounds(z=3.0, times=20, rate=0.1, relation=Relation.ADD_REMOVE):
    zero = np.zeros((3, WIDTH))
    return GaussianRounds(SoftmaxGradient(OUTLINE, zero, zero[:, 0]), z, relation, times, "", rate)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("relation", Relation)
def test_full_rounds_and_sums_share_the_price_exactly(share, relation):
    later = rounds(rate=1.0, relation=relation)
    sums = sums_before(later, OUTLINE, private().facts, share)
    prices = [one.times / one.noise_multiplier**2 for one in (sums, later)]
    assert prices[0] / sum(prices) == pytest.approx(share)
    assert (sums.times, sums.relation, sums.sampling_rate) == (1, relation, 1.0)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("z", [0.8, 2.0, 8.0])
def test_sampled_rounds_and_sums_cost_about_the_same_at_a_half(relation, z):
    """The central limit of many sampled rounds; the guarantee never uses it."""
    later = rounds(z, times=400, rate=0.02, relation=relation)
    sums = sums_before(later, OUTLINE, private().facts, 0.5)
    alone = epsilon_of([sums.event], 1e-5), epsilon_of([later.event], 1e-5)
    assert alone[0] == pytest.approx(alone[1], rel=0.35)
    assert epsilon_of([sums.event, later.event], 1e-5) < sum(alone)


def test_noise_is_never_smaller_than_the_lattice_allows():
    tiny = sums_before(rounds(z=0.1, times=10**6), OUTLINE, private().facts, 0.999)
    assert isinstance(tiny.event, GaussianEvent)


def test_directions_are_those_of_the_class_sums_and_an_empty_class_has_none():
    x, y = clusters()
    data = private(x[y < 2], y[y < 2])
    sums = sums_before(rounds(), OUTLINE, data.facts, 0.5)
    found = released_directions(sums, UnitNorm().fit(WIDTH, None), data.rows, data, Silent())
    assert np.allclose(found[:2], unit(class_sums(x, y, 2)), atol=1e-6)
    assert not found[2].any()


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_both_stages_are_one_plan_composed_exactly(budget, share):
    plan = WarmStart(share=share).plan(private().facts, budget)
    sums, steps = plan.events
    assert isinstance(sums, GaussianEvent)
    assert isinstance(steps, SampledGaussianEvent)
    assert (sums.label, steps.times, steps.sampling_rate) == ("class sums", 120, 0.1)
    assert 0.999 <= epsilon_of(plan.events, 1e-5) <= 1.0
    assert sum(epsilon_of([one], 1e-5) for one in plan.events) > 1.15  # what adding ε up would say


def test_without_noise_the_prior_is_the_cosine_to_class_centres():
    x, y = muddled()
    head = fit(WarmStart(**FULL, **BOTH, prior_temperature=0.1), private(x, y), noise=Silent()).head
    assert isinstance(head, AverageHead)
    assert np.allclose(head.prior, 10 * unit(class_sums(x, y)), atol=1e-4)
    again = fit(MeanPrototypes(), private(x, y), noise=Silent())
    beside = AverageHead(np.zeros_like(head.prior), np.zeros(3), head.prior)
    assert (beside.scores(unit(x)).argmax(axis=1) == again.scores(x).argmax(axis=1)).mean() > 0.999


def test_the_centres_have_the_noise_that_is_charged():
    """Two fits that differ in the seed alone: priors are apart by what the noise of sums makes of them."""
    data, plan = private(), WarmStart(**FULL).plan(private().facts, BUDGET)
    exact = fit(WarmStart(**FULL, **BOTH), data, noise=Silent()).head.prior
    noisy = [fit(WarmStart(**FULL, **BOTH), data, noise=SeededNoise(seed)).head.prior for seed in range(20)]
    lengths = np.linalg.norm(class_sums(*clusters()), axis=1)
    scale = plan.mechanisms[0].scale
    # A direction of length L moves, across itself, by about scale ÷ L in each of 7 coordinates.
    apart = np.mean([np.square((one - exact) * 0.05).sum(axis=1) * lengths**2 for one in noisy])
    assert apart == pytest.approx(7 * scale**2, rel=0.5)
