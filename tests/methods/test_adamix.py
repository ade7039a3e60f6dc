from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.ledger import Ledger
from dptransfer.methods import AdaMix, FromShots, FromZero, NoisyGD, OnlyPublic, Pace
from dptransfer.methods.heads.start import clipped_gradient, gradient_norms, residuals
from dptransfer.privacy import Budget

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
    shots,
    unit,
)

PLAIN = AdaMix(
    steps=6,
    start=FromZero(),
    quantile=None,
    axes=None,
    public_weight=0.0,
    count_share=0.0,
    pace=Pace(),
)


def asked(method, weights):
    """The method's guide, and the question it asks at these weights."""
    features = method.features.fit(WIDTH, None)
    guide = method.rule(features, private().facts, shots())
    return guide, guide.question(weights, features)


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


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_hierarchical_do_not_become_part_of_the_weights(epsilon):
    """Rows of large classes teach the shots' classifier something, and not that their classes are large."""
    x, y = slanted(3000, 11)

    def found(method):
        budget = Budget(epsilon=epsilon, delta=1e-5)
        model = fit(method, private(*UNEVEN), public=SLANTED_SHOTS, budget=budget)
        right = model.scores(x).argmax(axis=1) == y
        return np.array([right[y == c].mean() for c in range(3)])

    steady = AdaMix(pace=Pace(reach=20.0))
    alone, mixed = found(OnlyPublic()), found(steady)
    assert mixed.mean() > alone.mean()
    misled = found(replace(steady, count_share=0.0))
    assert misled.mean() < alone.mean() - 0.05
    assert misled[1:].max() < 0.3 < mixed.min()


def test_an_empty_class_still_has_a_size():
    x, y = clusters()
    model = fit(AdaMix(), private(x[y != 2], y[y != 2]), public=shots())
    assert np.isfinite(model.weights["weights"]).all()
    declared = private(x[y != 2], y[y != 2], class_counts=(*np.bincount(y)[:2].tolist(), 0))
    assert np.isfinite(fit(AdaMix(), declared, public=shots()).weights["weights"]).all()


def test_the_start_is_switchable(weights):
    start = asked(replace(PLAIN, start=FromShots()), weights)[0].start
    features = PLAIN.features.fit(WIDTH, None)
    assert (start == FromShots().weights(features, private().facts, shots())).all()
    assert start.any()
    assert not asked(PLAIN, weights)[0].start.any()


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_clip_is_the_quantile_of_the_public_gradients_or_fixed(weights, quantile):
    made = shots()
    norms = gradient_norms(residuals(weights, unit(made.rows), made.labels), unit(made.rows))
    _, adaptive = asked(replace(PLAIN, quantile=quantile), weights)
    assert adaptive.clip == pytest.approx(np.quantile(norms, quantile), rel=1e-6)
    assert asked(replace(PLAIN, clip=0.3), weights)[1].clip == 0.3


def test_shots_without_a_gradient_left_keep_a_smallest_clip():
    certain = 1e4 * np.eye(3, WIDTH)
    assert asked(replace(PLAIN, quantile=0.9), certain)[1].clip == 1e-3


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
    guide, question = asked(replace(PLAIN, axes=2, clip=0.3, public_weight=2.0), weights)
    answer = np.random.default_rng(1).normal(size=(3, 2))
    wanted = 0.3 * answer @ question.projection.T + 2.0 * public
    assert np.allclose(guide.gradient(weights, answer), wanted, atol=1e-6)


def test_every_switch_changes_the_fit():
    x, y = muddled()
    data, methods = private(x, y), [PLAIN]
    methods += [
        replace(PLAIN, **change)
        for change in ({"start": FromShots()}, {"quantile": 0.2}, {"axes": 1}, {"public_weight": 50.0})
    ]
    found = [fit(method, data, public=shots(), noise=Silent()).weights["weights"] for method in methods]
    for other in found[1:]:
        assert np.abs(other - found[0]).max() > 1e-3


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_it_learns_and_shots_carry_it_where_the_budget_is_tiny(budget):
    x, y = clusters(seed=9)
    assert fit(AdaMix(), public=shots(), budget=budget).score(x, y) > 0.95
    tiny = Budget(epsilon=0.02, delta=1e-5, relation=budget.relation)
    assert fit(AdaMix(), private(*clusters(6)), public=shots(), budget=tiny).score(x, y) > 0.9


def test_an_unlabelled_pool_with_shots_at_its_side_will_do_and_one_without_will_not():
    ledger = Ledger.in_memory()
    joined = pool().with_shots(shots())
    same = fit(AdaMix(), public=joined).weights["weights"] == fit(AdaMix(), public=shots()).weights["weights"]
    assert same.all()
    with pytest.raises(DataError, match="labels"):
        AdaMix().fit(private(), pool(), budget=BUDGET, ledger=ledger)
    with pytest.raises(ArgumentError, match="public"):
        AdaMix().fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


@pytest.mark.parametrize(
    "bad",
    [
        {"quantile": 1.5},
        {"quantile": 0.0},
        {"axes": 0},
        {"clip": 0.0},
        {"public_weight": -1.0},
        {"count_share": 1.0},
        {"count_share": -0.1},
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        AdaMix(**bad)
