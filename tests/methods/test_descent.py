"""Descent along noisy gradients, the rows it looks at, and the fits that it is the loop of."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.base.progress import reported_to
from dptransfer.errors import BudgetError, DPTransferError
from dptransfer.exact import chunks
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.exact.sums import by_size
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import gaussian
from dptransfer.methods import (
    NGD,
    AdaMix,
    DPSGDProbe,
    NewtonHead,
    NoisyGD,
    Pace,
)
from dptransfer.methods.heads.descent import Descent, DescentAtNoiseRate, head_rows
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation
from dptransfer.queries.softmax_gradient import ROW_NORM

from .samples import BUDGET, REPLACE, WIDTH, clusters, fit, pool, private, refused_uncharged, shots

START = np.arange(12.0).reshape(4, 3)
ONES = np.ones_like(START)


def walk(gradients, pace=None, start=START, noise=0.0):
    descent = Descent(start, len(gradients), pace or Pace(reach=10.0))
    path = [descent.weights]
    for gradient in gradients:
        descent.step(gradient, noise)
        path.append(descent.weights)
    return np.array(path), descent.result


def test_step_lengths_fall_linearly_and_add_up_to_the_reach_whatever_the_gradients_length():
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=START.shape) * 10.0**e for e in (-9, 0, 7, 2, 100)]
    path, _ = walk(gradients, Pace(reach=10.0, radius=1e9))
    lengths = np.linalg.norm(np.diff(path, axis=0), axis=(1, 2))
    assert lengths == pytest.approx(np.array([5, 4, 3, 2, 1]) / 15 * 10 * 2)  # √4 classes
    assert lengths.sum() == pytest.approx(20.0)


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_all_steps_leave_the_noise_in_a_logit_that_was_asked_for(steps):
    """Whatever their number, and whatever the answers are in units of."""
    rng, start = np.random.default_rng(steps), np.zeros((10, 400))
    for scale in (1e-3, 7.0):
        descent = DescentAtNoiseRate(start, steps, 0.3)
        for _ in range(steps):
            descent.step(scale * rng.normal(size=start.shape), scale * math.sqrt(start.size))
        assert descent.result.std() == pytest.approx(0.3 * math.log(10), rel=0.05)
    assert descent.result.std() != pytest.approx(0.27 * math.log(10), rel=0.05)


def test_no_step_at_the_noise_rate_moves_a_logit_by_more_than_a_few():
    descent = DescentAtNoiseRate(START, 1, 0.3)
    descent.step(1e9 * ONES, 1e-3)
    moved = np.linalg.norm(descent.result - START, axis=1)
    assert moved == pytest.approx(np.full(4, 5.0))


def test_the_rate_falls_where_steps_swing_in_a_steep_direction_and_nowhere_else():
    target, curvature = np.ones((2, 2)), np.array([[40.0, 0.1], [0.1, 0.1]])
    descent = DescentAtNoiseRate(np.zeros((2, 2)), 30, 0.3)
    rate = 0.3 * math.log(2) * math.sqrt(4 / 30)
    assert rate * curvature[0, 0] > 2  # where steps of one length never end
    for _ in range(30):
        descent.step(curvature * (descent.weights - target), 1.0)
    assert abs(descent.weights - target)[0, 0] < 0.01
    flat, at = DescentAtNoiseRate(np.zeros((2, 2)), 30, 0.3), []
    for _ in range(30):
        at.append(flat.weights)
        flat.step(0.1 * (flat.weights - target), 0.1)
    assert (at[-1] - at[-2]) == pytest.approx((1 - rate) ** 28 * (at[1] - at[0]))  # the rate it began with


def test_the_weights_stay_in_the_ball_around_the_start():
    path, average = walk([ONES] * 8, Pace(reach=50.0, radius=3.0))
    away = np.linalg.norm(path - START, axis=(1, 2))
    assert away.max() == pytest.approx(6.0)
    assert np.linalg.norm(average - START) <= 6.0 + 1e-9
    assert np.linalg.norm(walk([ONES] * 8, Pace(reach=50.0))[0][-1] - START) > 6.0


@pytest.mark.parametrize("start", [START, np.zeros_like(START), -100 * START])
def test_weight_decay_pulls_to_the_start_wherever_it_is(start):
    paces = (Pace(reach=10.0, weight_decay=decay) for decay in (0.0, 1.0, 5.0, 1e9))
    away = [np.linalg.norm(walk([ONES] * 10, pace, start)[1] - start) for pace in paces]
    assert away == sorted(away, reverse=True)
    assert away[0] > 1.2 * away[1] > 1.2 * away[3] > 0


def test_a_start_that_knows_something_is_moved_by_the_share_of_signal_in_what_is_seen():
    """A start of zeros has nothing to lose and keeps its steps."""
    parts, seen = (0.0, 0.6, 0.8, 1.0, 2.0), np.linalg.norm(ONES)
    for start, wanted in ((START, [20.0, 16.0, 12.0, 0.0, 0.0]), (0 * START, [20.0] * 5)):
        paths = (walk([ONES], start=start, noise=part * seen)[0] for part in parts)
        assert [np.linalg.norm(np.diff(path, axis=0)) for path in paths] == pytest.approx(wanted)


MAPS = [UnitNorm().fit(WIDTH, None), PublicMap(axes=3).fit(WIDTH, pool())]


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("elements", [1, 10**9])
def test_rows_are_mapped_once_to_the_grid_of_the_gradient(monkeypatch, features, elements):
    x, y = clusters(50)
    x[3] = np.nan
    wanted = features.lattice(x, ROW_NORM)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    seen = head_rows(features, private(x, y))
    assert seen.rows.dtype == np.int32
    assert (seen.rows == wanted).all()
    assert (seen.labels == y).all()
    assert (seen.features.lattice(seen.rows, ROW_NORM) == wanted).all()
    if features.dimension == WIDTH:  # elsewhere a row of zeros is put where the pool's mean has it
        assert not seen.rows[3].any()
        assert head_rows(features, private(x[:0], y[:0])).rows.shape == (0, WIDTH)


def test_rows_of_a_person_are_put_next_to_each_other_with_their_labels():
    x, y = clusters(50)
    ids = np.array([f"person {number}" for number in np.random.default_rng(0).integers(0, 9, len(x))])
    data = private(x, y, people=ids)
    seen = head_rows(MAPS[0], data)
    order = by_size(data.people).order
    assert not (order == np.arange(len(x))).all()
    assert (seen.rows == MAPS[0].lattice(x, ROW_NORM)[order]).all()
    assert (seen.labels == y[order]).all()
    assert (seen.people == data.people[order]).all()
    assert (by_size(seen.people).order == np.arange(len(x))).all()


@pytest.mark.gpu
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("whose", [None, np.random.default_rng(0).integers(0, 9, 100)])
def test_rows_on_a_gpu_are_the_same_integers_in_the_same_order(features, whose):
    x, y = clusters(50)
    x[3] = np.nan
    data = private(x, y, people=None if whose is None else whose[: len(x)])
    here, there = (head_rows(features, data, device) for device in ("cpu", "cuda"))
    assert there.rows.is_cuda
    assert (there.rows.cpu().numpy() == here.rows).all()
    assert (there.labels.cpu().numpy() == here.labels).all()
    assert whose is None or (there.people == here.people).all()


METHODS = {
    method.name: method
    for method in (
        DPSGDProbe(steps=6, noise_multiplier=4.0, sampling_rate=0.2),
        AdaMix(steps=6),
        NewtonHead(steps=3),
    )
}


@pytest.mark.parametrize("name", METHODS)
def test_every_step_is_told_and_an_interrupted_fit_leaves_a_spent_entry_that_says_so(name):
    method, heard, ledger = METHODS[name], [], Ledger.in_memory()
    with reported_to(lambda done, of, what: heard.append((done, of))):
        fit(method, public=shots())
    assert heard == [(step + 1, method.steps) for step in range(method.steps)]

    def impatient(done, of, what):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), reported_to(impatient):
        method.fit(private(), shots(), budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    charge, closing = ledger.history()
    assert charge.outcome == closing.outcome == "failed"
    assert charge.detail == "KeyboardInterrupt"
    spent = ledger.privacy_spent("samples", delta=1e-5)
    assert spent.epsilon == pytest.approx(epsilon_of(charge.events, 1e-5), rel=1e-6)
    assert spent.epsilon > 0.1


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
@pytest.mark.parametrize("made", [NoisyGD(), NoisyGD(steps=7), NoisyGD(noise_multiplier=9.0)])
def test_what_is_not_given_of_steps_and_noise_is_made_to_fit(made, budget):
    (event,) = made.plan(private().facts, budget).events
    assert event.times == (made.steps or (made.noise_multiplier is None and 30) or event.times)
    assert event.noise_multiplier == (made.noise_multiplier or event.noise_multiplier)
    assert epsilon_of([event], 1e-5) <= 1.0
    if made.noise_multiplier is None:
        assert epsilon_of([event], 1e-5) >= 0.999
    else:
        assert epsilon_of([replace(event, times=event.times + 1)], 1e-5) > 1.0


def test_what_cannot_be_paid_or_computed_is_refused_before_anything_is_charged(monkeypatch):
    refused_uncharged(NoisyGD(steps=29, noise_multiplier=20.0), error=DPTransferError)
    refused_uncharged(NoisyGD(noise_multiplier=0.5), error=BudgetError)
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused_uncharged(NoisyGD(device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "method", [NoisyGD(steps=5), DPSGDProbe(steps=5, noise_multiplier=4.0), NGD(steps=5)]
)
@pytest.mark.parametrize("people", [None, np.arange(600) // 7, np.zeros(600, dtype=np.int64)])
@pytest.mark.parametrize("few", [1, 10**9])
def test_a_fit_on_a_gpu_is_the_same_fit(method, people, few, monkeypatch):
    monkeypatch.setattr(gaussian, "_FEW", few)  # noise is drawn ahead, or not
    for budget in (BUDGET, Budget(epsilon=2.0, delta=1e-5, relation=Relation.REPLACE_ONE)):
        here, there = (
            fit(replace(method, device=device), private(people=people), public=shots(), budget=budget)
            for device in ("cpu", "cuda")
        )
        assert (here.weights["weights"] == there.weights["weights"]).all()
        assert np.isfinite(here.weights["weights"]).all()
