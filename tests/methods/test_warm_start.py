import numpy as np
import pytest
from scipy.special import log_softmax

from dptransfer.accounting import epsilon_of
from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.ledger import Ledger
from dptransfer.methods import MeanPrototypes, NoisyGD, PrivateEvaluation, WarmStart
from dptransfer.methods.heads import gradient_head as descent
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, GaussianEvent, SampledGaussianEvent
from dptransfer.release import read_release
from dptransfer.release.heads import AverageHead, LinearHead

from .samples import BUDGET, CLASSES, REPLACE, Repeatable, Silent, clusters, fit, muddled, private, unit

FULL = {"sampling_rate": 1.0, "steps": 6}
LOSSES = ("average", "logits")
BOTH = {"loss": "average"}


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
    with pytest.raises(BudgetError, match="must fit the budget"):
        WarmStart(noise_multiplier=0.5, steps=500).plan(facts, BUDGET)


def test_without_noise_the_prior_is_the_cosine_to_class_centres():
    x, y = muddled()
    head = fit(WarmStart(**FULL, **BOTH, prior_temperature=0.1), private(x, y), noise=Silent()).head
    assert isinstance(head, AverageHead)
    centres = unit(np.stack([unit(x[y == place]).sum(axis=0) for place in range(3)]))
    assert np.allclose(head.prior, 10 * centres, atol=1e-4)
    again = fit(MeanPrototypes(), private(x, y), noise=Silent())
    beside = AverageHead(np.zeros_like(head.prior), np.zeros(3), head.prior)
    assert (beside.scores(unit(x)).argmax(axis=1) == again.scores(x).argmax(axis=1)).mean() > 0.999


def mean_loss(head, x, y):
    return -head.scores(unit(x))[np.arange(len(y)), y].mean()


@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_steps_lower_the_residual_loss_below_what_the_prior_has(loss):
    x, y = muddled()
    head = fit(WarmStart(sampling_rate=1.0, steps=40, loss=loss), private(x, y), noise=Silent()).head
    if loss == "logits":
        assert isinstance(head, LinearHead)
        weights = unit(np.stack([unit(x[y == place]).sum(axis=0) for place in range(3)])) / 0.05
        before = -log_softmax(unit(x) @ weights.T, axis=1)[np.arange(len(y)), y].mean()
        after = -log_softmax(head.scores(unit(x)), axis=1)[np.arange(len(y)), y].mean()
    else:
        before = mean_loss(AverageHead(np.zeros_like(head.prior), np.zeros(3), head.prior), x, y)
        after = mean_loss(head, x, y)
    assert after < 0.98 * before


def test_logits_are_descent_that_starts_at_the_centres(monkeypatch):
    starts = []

    class Noted(descent.Descent):
        def __init__(self, start, *given, **named):
            starts.append(start)
            super().__init__(start, *given, **named)

    monkeypatch.setattr("dptransfer.methods.heads.descent.Descent", Noted)
    x, y = muddled()
    for loss in LOSSES:
        fit(WarmStart(**FULL, loss=loss), private(x, y), noise=Silent())
    assert not starts[0].any()
    assert np.allclose(np.linalg.norm(starts[1], axis=1), 1 / 0.05)


def test_a_prior_that_is_nearly_uniform_leaves_plain_descent():
    """The paper's raw cosines; hotter still, the weights of residuals tend to p/(p + ⅓)."""
    data = private(*muddled())
    hot = fit(WarmStart(**FULL, prior_temperature=1e6, loss="logits"), data, noise=Silent()).head.weights
    plain = fit(NoisyGD(steps=6), data, noise=Silent()).head.weights
    assert np.allclose(hot, plain, atol=0.02 * np.abs(plain).max())
    cold = fit(WarmStart(**FULL, loss="logits"), data, noise=Silent()).head.weights
    assert np.abs(cold - plain).max() > 0.1 * np.abs(plain).max()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_it_learns(loss, budget):
    x, y = clusters(seed=9)
    model = fit(WarmStart(loss=loss, steps=40), private(*clusters(3000)), budget=budget)
    assert model.score(x, y) > 0.9
    assert model.events[0].relation is budget.relation


def test_the_centres_have_the_noise_that_is_charged():
    """Two fits that differ in the seed alone: priors are apart by what the noise of sums makes of them."""
    data, plan = private(), WarmStart(**FULL).plan(private().facts, BUDGET)
    exact = fit(WarmStart(**FULL, **BOTH), data, noise=Silent()).head.prior
    noisy = [fit(WarmStart(**FULL, **BOTH), data, noise=SeededNoise(seed)).head.prior for seed in range(20)]
    x, y = clusters()
    lengths = np.linalg.norm([unit(x[y == place]).sum(axis=0) for place in range(3)], axis=1)
    scale = plan.mechanisms[0].scale
    # A direction of length L moves, across itself, by about scale ÷ L in each of 7 coordinates.
    apart = np.mean([np.square((one - exact) * 0.05).sum(axis=1) * lengths**2 for one in noisy])
    assert apart == pytest.approx(7 * scale**2, rel=0.5)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_release_is_verified_and_says_what_it_is(loss, tmp_path):
    model = fit(WarmStart(steps=5, loss=loss), noise=Repeatable(1))
    path = model.save(tmp_path / "model")
    assert verify_release(path).outcome == "verified"
    again = read_release(path)
    assert (again.scores(clusters()[0]) == model.scores(clusters()[0])).all()
    assert "on what the first misses" in (path / "CARD.md").read_text()


def test_a_hold_out_and_a_charged_evaluation_are_of_both_heads_together():
    x, y = clusters(2000)
    data = PrivateEmbeddings(x, y, classes=CLASSES, name="held")
    budget, ledger = Budget(epsilon=8.0, delta=1e-5), Ledger.in_memory()
    model = WarmStart(steps=20, **BOTH).fit(
        data, budget=budget, ledger=ledger, noise=SeededNoise(1), holdout=0.3
    )
    assert isinstance(model.head, AverageHead)
    own = PrivateEmbeddings(*clusters(2000, seed=5), classes=CLASSES, name="test")
    found = PrivateEvaluation(model).evaluate(own, budget=budget, ledger=ledger, noise=SeededNoise(2))
    truth = model.score(*clusters(2000, seed=5))
    for one in (model.charged, found):
        assert abs(one.accuracy.value - truth) < 0.05


def test_bad_settings_are_refused():
    for bad in ({"share": 0.0}, {"share": 1.0}, {"loss": "sum"}, {"prior_temperature": 0.0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            WarmStart(**bad)
