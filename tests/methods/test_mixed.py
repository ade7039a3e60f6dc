"""Labelled public rows beside private ones: AdaMix, its baselines, and class names."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dptransfer.accounting import epsilon_of
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import DataError
from dptransfer.methods import (
    NGD,
    PPGD,
    AdaMix,
    FromNames,
    FromShots,
    FromZero,
    FullyPrivate,
    LanguageInit,
    NoisyGD,
    OnlyPublic,
)
from dptransfer.methods.heads import start
from dptransfer.methods.heads.mixed import REUSES, SMALLEST_CLIP, loss_left_out, pull_of_shots
from dptransfer.methods.heads.start import clipped_gradient, gradient_norms, residuals
from dptransfer.noise import SeededNoise

from .samples import (
    BUDGET,
    CLASSES,
    REPLACE,
    WIDTH,
    Silent,
    clusters,
    fit,
    muddled,
    pool,
    private,
    refused_uncharged,
    shots,
    silent_weights,
    unit,
)

PLAIN = AdaMix(steps=6, start=FromZero(), quantile=None, axes=None, public_weight=0.0, count_share=0.0)


def asked(method, weights):
    """The method's rule, and the question it asks at these weights."""
    features = method.features.fit(WIDTH, None)
    rule = method.rule(features, private().facts, shots())
    return rule, rule.question(weights, features)


@pytest.fixture
def weights():
    return np.random.default_rng(5).normal(size=(3, WIDTH))


def test_with_everything_switched_off_it_is_noisy_descent():
    one, other = fit(PLAIN, public=shots(), noise=Silent()), fit(NoisyGD(steps=6), noise=Silent())
    assert np.allclose(one.weights["weights"], other.weights["weights"], atol=1e-9)
    assert one.events == other.events


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_counts_get_their_share_of_the_budget_and_gradients_the_rest(budget):
    for method in (AdaMix(steps=7, count_share=0.2), AdaMix(noise_multiplier=9.0, count_share=0.2)):
        counts, slopes = method.plan(private().facts, budget, shots()).events
        assert counts.label == "class counts"
        assert counts.sensitivity == pytest.approx(1.0 if budget is BUDGET else 2**0.5)
        costs = [event.times / event.noise_multiplier**2 for event in (counts, slopes)]
        assert costs[0] / sum(costs) == pytest.approx(0.2)
        assert epsilon_of([counts, slopes], 1e-5) <= 1.0
    assert epsilon_of([counts, replace(slopes, times=slopes.times + 1)], 1e-5) > 1.0  # of the last one


def slanted(count, seed):
    """The muddled problem with a direction that all rows share, along which sizes can be learned."""
    x, y = muddled(count, seed)
    x[:, -1] += 2.0
    return x, y


def first(x, y, counts):
    """So many rows of each class."""
    kept = np.concatenate([np.flatnonzero(y == c)[:count] for c, count in enumerate(counts)])
    return x[kept], y[kept]


UNEVEN = first(*slanted(6000, 3), (1800, 140, 60))
SLANTED_SHOTS = PublicEmbeddings(*first(*slanted(300, 12), (20, 20, 20)), classes=CLASSES)


def test_declared_class_sizes_are_used_and_cost_nothing():
    known, method = private(*UNEVEN, class_counts=(1800, 140, 60)), AdaMix(steps=6)
    assert len(method.plan(known.facts, BUDGET, SLANTED_SHOTS).events) == 1

    def weights(method, data):
        return fit(method, data, public=SLANTED_SHOTS, noise=Silent()).weights["weights"]

    declared, counted = weights(method, known), weights(method, private(*UNEVEN))
    ignored = weights(replace(method, count_share=0.0), known)
    # Without noise the counts are the sizes; their estimates still allow for some.
    assert np.abs(counted - declared).max() < 0.1 * np.abs(ignored - declared).max()


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_clip_is_the_quantile_of_the_public_gradients_or_fixed(weights, quantile):
    made = shots()
    norms = gradient_norms(residuals(weights, unit(made.rows), made.labels), unit(made.rows))
    _, adaptive = asked(replace(PLAIN, quantile=quantile), weights)
    assert adaptive.clip == pytest.approx(max(np.quantile(norms, quantile), SMALLEST_CLIP), rel=1e-6)
    assert asked(replace(PLAIN, clip=0.4), weights)[1].clip == 0.4


def test_the_axes_are_singular_vectors_of_the_public_gradient_at_zero_weights_or_none(weights):
    made = shots()
    gradient = clipped_gradient(np.zeros_like(weights), unit(made.rows), made.labels)
    right = np.linalg.svd(gradient)[2]
    _, projected = asked(replace(PLAIN, axes=2), weights)
    assert projected.projection.shape == (WIDTH, 2)
    assert np.allclose(np.abs(projected.projection.T @ right[:2].T), np.eye(2), atol=1e-6)
    assert asked(PLAIN, weights)[1].projection is None


def test_there_are_no_more_axes_than_the_gradient_has(weights):
    assert asked(replace(PLAIN, axes=64), weights)[1].projection.shape == (WIDTH, 3)
    facts = private().facts
    for axes, noisy in ((2, 3 * 2), (64, 3 * 3), (None, 3 * WIDTH)):
        query = replace(PLAIN, axes=axes).plan(facts, BUDGET, shots()).mechanisms[0].query
        assert np.prod(query.shape) == noisy


def test_the_step_is_the_private_gradient_in_its_units_plus_the_public_one(weights):
    made = shots()
    public = clipped_gradient(weights, unit(made.rows), made.labels)
    rule, question = asked(replace(PLAIN, axes=2, clip=0.3, public_weight=2.0), weights)
    answer = np.random.default_rng(1).normal(size=(3, 2))
    wanted = 0.3 * answer @ question.projection.T + 2.0 * public
    assert np.allclose(rule.gradient(weights, answer), wanted, atol=1e-6)


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


def test_fully_private_is_noisy_descent_from_zero_that_treats_shots_as_private():
    plain, alone = (fit(method).weights["weights"] for method in (NoisyGD(steps=5), FullyPrivate(steps=5)))
    assert (alone == plain).all()
    x, y = clusters()
    made = shots()
    all_rows = private(np.vstack([x, made.rows]), np.append(y, made.labels))
    beside = silent_weights(FullyPrivate(steps=5), private(x, y), made)
    within = silent_weights(FullyPrivate(steps=5), all_rows)
    assert np.allclose(beside, within, atol=1e-5)  # the grid rounds private rows alone
    assert np.abs(beside - silent_weights(FullyPrivate(steps=5), private(x, y))).max() > 1e-4
    unrelated = PublicEmbeddings(made.rows, made.labels, classes=["x", "y", "z"])
    assert (fit(FullyPrivate(steps=5), public=unrelated).weights["weights"] == plain).all()


def test_ngd_is_adamix_without_its_adaptive_parts():
    one = fit(NGD(steps=5), public=shots())
    other = fit(AdaMix(steps=5, quantile=None), public=shots())
    assert (one.weights["weights"] == other.weights["weights"]).all()
    wide = AdaMix(steps=5, start=FromZero()), NGD(steps=5, start=FromZero())
    adaptive, fixed = (fit(method, public=shots()).weights["weights"] for method in wide)
    assert np.abs(adaptive - fixed).max() > 1e-3


def test_steps_go_less_far_beside_a_public_start_where_classes_are_small():
    def trust(method, noise, worth=2.0, **declared):
        features = method.features.fit(WIDTH, None)
        return method.rule(features, private(**declared).facts, shots()).trust_in_steps(noise, worth)

    sizes = {"class_counts": (600, 600, 600)}
    for method in (AdaMix(), NGD(), NoisyGD(start=FromShots())):
        assert [trust(method, noise, **sizes) for noise in (1.0, 18.7)] == [1.0, 1.0]
        assert trust(method, 80.0, **sizes) == pytest.approx((600 / 80 / 16 / 2) ** 1.5)
        assert trust(method, 80.0, 5.0, **sizes) == pytest.approx((600 / 80 / 16 / 5) ** 1.5)
        assert trust(replace(method, start=FromZero()), 80.0, **sizes) == 1.0
        assert trust(replace(method, count_share=0.0), 80.0, **sizes) == 1.0


def test_classes_are_counted_beside_a_public_start_where_sizes_are_not_declared():
    def events(method, **declared):
        return method.plan(private(**declared).facts, BUDGET, shots()).events

    assert len(events(NoisyGD())) == 1
    counts, steps = events(NoisyGD(start=FromShots()))
    assert (counts, steps) == events(AdaMix())
    share = counts.noise_multiplier**-2 / (counts.noise_multiplier**-2 + 30 * steps.noise_multiplier**-2)
    assert share == pytest.approx(0.1)
    assert events(NoisyGD(start=FromShots(), count_share=0.0)) == events(NoisyGD())
    assert events(NoisyGD(start=FromShots()), class_counts=(200, 200, 200)) == events(NoisyGD())


def test_the_pull_of_ppgd_is_the_strongest_that_left_out_shots_do_not_refute():
    made, method = shots(), PPGD(steps=5)
    features = method.features.fit(WIDTH, None)
    rule = method.rule(features, private().facts, made)
    near = 20 * np.eye(3, WIDTH)  # a head that knows the classes, and one that takes them for one another
    wrong = near[[1, 2, 0]]
    told = np.eye(3, WIDTH)[made.labels], made.labels
    good, bad = (loss_left_out(*told, head, 1.0) for head in (near, wrong))
    assert good < 0.1 < bad
    assert loss_left_out(*told, near / 50, 1.0) < 0.1  # whatever its length
    assert pull_of_shots(*told, near)[1] == REUSES[-1]
    assert pull_of_shots(*told, wrong)[1] < REUSES[-1]
    noise = np.random.default_rng(0).normal(size=(3, WIDTH))
    alone = OnlyPublic().start.weights(features, private().facts, made)
    assert rule.head(1e3 * noise).weights == pytest.approx(alone, abs=1e-3)
    assert rule.head(1e-3 * noise).weights != pytest.approx(alone, abs=1e-3)
    one_each = np.eye(3, WIDTH), np.arange(3)
    assert pull_of_shots(*one_each, near)[1] == pull_of_shots(*one_each, wrong)[1] == REUSES[0]


def test_a_pull_that_is_chosen_gives_the_head_that_it_gives_when_set():
    made, method = shots(), PPGD(steps=5)
    chosen = fit(method, public=made).weights["weights"]
    each = [fit(replace(method, reuse=one), public=made).weights["weights"] for one in REUSES]
    assert sum((one == chosen).all() for one in each) == 1


def test_the_clip_of_ppgd_is_the_norm_of_the_mean_public_gradient():
    made, method = shots(), PPGD()
    features = method.features.fit(WIDTH, None)
    rule = method.rule(features, private().facts, made)
    for seed in range(3):
        weights = np.random.default_rng(seed).normal(size=(3, WIDTH))
        mean = clipped_gradient(weights, unit(made.rows), made.labels) / len(made)
        asked_clip = rule.question(weights, features).clip
        assert asked_clip == pytest.approx(max(np.linalg.norm(mean), SMALLEST_CLIP), rel=1e-6)
    assert rule.question(1e4 * np.eye(3, WIDTH), features).clip == SMALLEST_CLIP


NAMED = FromNames(tower="toy", scale=20.0)


@pytest.fixture
def aligned(monkeypatch):
    """A tower that puts the names where the rows of their classes are."""
    monkeypatch.setattr(start, "encoded_names", lambda made, classes, width: np.eye(len(classes), width))


def test_zero_shot_costs_nothing_and_does_not_depend_on_private_rows(aligned):
    x, y = clusters(seed=9)
    for budget in (BUDGET, REPLACE):
        one = fit(LanguageInit(start=NAMED), budget=budget)
        other = fit(LanguageInit(start=NAMED), private(-x[:3], y[:3]), budget=budget, noise=SeededNoise(9))
        assert (one.weights["weights"] == other.weights["weights"]).all()
        assert (one.events, one.guarantee.epsilon, one.guarantee.delta) == ((), 0.0, 0.0)
        assert one.guarantee.relation is budget.relation
        assert one.score(x, y) > 0.95


@pytest.mark.parametrize("method", [AdaMix(), OnlyPublic(), NGD(), PPGD()])
def test_missing_shots_are_noticed_before_anything_is_charged(method):
    assert "labels" in refused_uncharged(method, public=pool(), error=DataError)
    assert "public" in refused_uncharged(method)
