"""Private class centres first, then steps on what they miss."""

import numpy as np
import pytest
from scipy.special import log_softmax

from dptransfer.accounting import epsilon_of
from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods import MeanPrototypes, NoisyGD, Pace, PrivateEvaluation, WarmStart
from dptransfer.methods.heads import descent
from dptransfer.methods.heads.noisy_gd import released_directions, sums_before
from dptransfer.methods.method import Outline
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, GaussianEvent, Relation, SampledGaussianEvent
from dptransfer.queries import SoftmaxGradient
from dptransfer.release import read_release
from dptransfer.release.heads import AverageHead, LinearHead

from .samples import (
    BUDGET,
    CLASSES,
    REPLACE,
    WIDTH,
    Repeatable,
    Silent,
    clusters,
    fit,
    muddled,
    private,
    released,
    silent_weights,
    unit,
)

OUTLINE = Outline(WIDTH)
FULL = {"sampling_rate": 1.0, "steps": 6}
LOSSES = ("average", "logits")
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


def test_a_larger_share_buys_better_centres_with_noisier_steps():
    few, many = (WarmStart(share=share).plan(private().facts, BUDGET).events for share in (0.1, 0.9))
    assert few[0].noise_multiplier > 2 * many[0].noise_multiplier
    assert few[1].noise_multiplier < many[1].noise_multiplier


def test_steps_and_noise_can_be_given_as_for_other_heads():
    facts = private().facts
    given = WarmStart(noise_multiplier=3.0).plan(facts, BUDGET).events
    assert given[1].noise_multiplier == 3.0
    assert given[1].times > 20
    with pytest.raises(BudgetError, match="must fit"):
        WarmStart(noise_multiplier=0.5, steps=500).plan(facts, BUDGET)


def test_without_noise_the_prior_is_the_cosine_to_class_centres():
    x, y = muddled()
    head = fit(WarmStart(**FULL, **BOTH, prior_temperature=0.1), private(x, y), noise=Silent()).head
    assert isinstance(head, AverageHead)
    assert np.allclose(head.prior, 10 * unit(class_sums(x, y)), atol=1e-4)
    again = fit(MeanPrototypes(), private(x, y), noise=Silent())
    beside = AverageHead(np.zeros_like(head.prior), np.zeros(3), head.prior)
    assert (beside.scores(unit(x)).argmax(axis=1) == again.scores(x).argmax(axis=1)).mean() > 0.999


@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_steps_lower_the_residual_loss_below_what_the_prior_has(loss):
    x, y = muddled()

    def mean_loss(head):
        scores = head.scores(unit(x))
        logs = log_softmax(scores, axis=1) if isinstance(head, LinearHead) else scores
        return -logs[np.arange(len(y)), y].mean()

    method = WarmStart(sampling_rate=1.0, steps=40, loss=loss, clip=1.0)  # a shorter clip has another minimum
    head = fit(method, private(x, y), noise=Silent()).head
    assert isinstance(head, LinearHead if loss == "logits" else AverageHead)
    if loss == "logits":
        before = LinearHead(unit(class_sums(x, y)) / 0.05, np.zeros(3))
    else:
        before = AverageHead(np.zeros_like(head.prior), np.zeros(3), head.prior)
    assert mean_loss(head) < 0.98 * mean_loss(before)


def test_logits_are_descent_that_starts_at_the_centres(monkeypatch):
    starts = []

    class Noted(descent.DescentAtNoiseRate):
        def __init__(self, start, *given, **named):
            starts.append(start)
            super().__init__(start, *given, **named)

    monkeypatch.setattr(descent, "DescentAtNoiseRate", Noted)
    for loss in LOSSES:
        fit(WarmStart(**FULL, loss=loss), private(*muddled()), noise=Silent())
    assert not starts[0].any()
    assert np.allclose(np.linalg.norm(starts[1], axis=1), 1 / 0.05)


def test_a_prior_that_is_nearly_uniform_leaves_plain_descent():
    """The paper's raw cosines; hotter still, the weights of residuals tend to p/(p + ⅓)."""
    data = private(*muddled())
    pace = Pace()  # whose lengths do not depend on the noise, of which the centres take a share
    hot = silent_weights(WarmStart(**FULL, prior_temperature=1e6, loss="logits", pace=pace), data)
    plain = silent_weights(NoisyGD(steps=6, pace=pace), data)
    assert np.allclose(hot, plain, atol=0.02 * np.abs(plain).max())
    cold = silent_weights(WarmStart(**FULL, loss="logits", pace=pace), data)
    assert np.abs(cold - plain).max() > 0.1 * np.abs(plain).max()


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


@pytest.mark.parametrize("loss", LOSSES)
def test_a_release_is_verified_and_says_what_it_is(loss, tmp_path):
    model = fit(WarmStart(steps=5, loss=loss), noise=Repeatable(1))
    again = read_release(released(model, tmp_path))
    assert (again.scores(clusters()[0]) == model.scores(clusters()[0])).all()


def test_a_hold_out_and_a_charged_evaluation_are_of_both_heads_together():
    data, test = (
        PrivateEmbeddings(*clusters(2000, seed), classes=CLASSES, name=name)
        for name, seed in (("held", 0), ("test", 5))
    )
    budget, ledger = Budget(epsilon=8.0, delta=1e-5), Ledger.in_memory()
    model = WarmStart(steps=20, **BOTH).fit(
        data, budget=budget, ledger=ledger, noise=SeededNoise(1), holdout=0.3
    )
    assert isinstance(model.head, AverageHead)
    found = PrivateEvaluation(model).evaluate(test, budget=budget, ledger=ledger, noise=SeededNoise(2))
    truth = model.score(*clusters(2000, seed=5))
    for one in (model.charged, found):
        assert abs(one.accuracy.value - truth) < 0.05
