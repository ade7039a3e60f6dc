from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.base.progress import reported_to
from dptransfer.errors import ArgumentError, BudgetError, DPTransferError, MissingDependency
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import gaussian
from dptransfer.methods import (
    NGD,
    PPGD,
    AdaMix,
    DPSGDProbe,
    FeatureCovariance,
    FullyPrivate,
    NewtonHead,
    NoisyGD,
)
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation

from .samples import BUDGET, REPLACE, fit, private, shots

METHODS = {
    method.name: method
    for method in (
        NoisyGD(steps=6),
        DPSGDProbe(steps=6, noise_multiplier=4.0, sampling_rate=0.2),
        AdaMix(steps=6),
        FullyPrivate(steps=6),
        NGD(steps=6),
        PPGD(steps=6),
        NewtonHead(steps=3),
        FeatureCovariance(steps=6),
    )
}


@pytest.mark.parametrize("name", METHODS)
def test_an_interrupted_fit_releases_nothing_and_leaves_a_spent_entry_that_says_so(name):
    heard = []

    def impatient(done, of, what):
        heard.append((done, of))
        if done == 2:
            raise KeyboardInterrupt

    ledger = Ledger.in_memory()
    with pytest.raises(KeyboardInterrupt), reported_to(impatient):
        METHODS[name].fit(private(), shots(), budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    assert heard == [(1, METHODS[name].steps), (2, METHODS[name].steps)]
    charge, closing = ledger.history()
    assert charge.outcome == closing.outcome == "failed"
    assert charge.detail == "KeyboardInterrupt"
    spent = ledger.privacy_spent("samples", delta=1e-5)
    assert spent.epsilon == pytest.approx(epsilon_of(charge.events, 1e-5), rel=1e-6)
    assert spent.epsilon > 0.1


@pytest.mark.parametrize("name", METHODS)
def test_every_step_is_told_and_their_number_is_the_plans(name):
    heard = []
    with reported_to(lambda done, of, what: heard.append((done, of))):
        fit(METHODS[name], public=shots())
    assert heard == [(step + 1, METHODS[name].steps) for step in range(METHODS[name].steps)]


def test_what_is_not_given_of_steps_and_noise_is_made_to_fit():
    facts = private().facts
    for budget in (BUDGET, REPLACE):
        for made in (NoisyGD(), NoisyGD(steps=7), NoisyGD(noise_multiplier=9.0)):
            (event,) = made.plan(facts, budget).events
            assert event.times == (made.steps or (made.noise_multiplier is None and 30) or event.times)
            assert event.noise_multiplier == (made.noise_multiplier or event.noise_multiplier)
            assert epsilon_of([event], 1e-5) <= 1.0
            if made.noise_multiplier is None:
                assert epsilon_of([event], 1e-5) >= 0.999
            else:
                assert epsilon_of([replace(event, times=event.times + 1)], 1e-5) > 1.0


def test_steps_and_noise_that_do_not_fit_together_are_refused_before_anything_is_charged():
    ledger = Ledger.in_memory()
    with pytest.raises(DPTransferError):
        NoisyGD(steps=29, noise_multiplier=20.0).fit(private(), budget=BUDGET, ledger=ledger)
    with pytest.raises(BudgetError):
        NoisyGD(noise_multiplier=0.5).fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"steps": 1.5}, {"noise_multiplier": 0.0}, {"device": "tpu"}, {"clip": -1.0}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        NoisyGD(**bad)


def test_a_gpu_that_is_not_there_is_missed_before_anything_is_charged():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    ledger = Ledger.in_memory()
    with pytest.raises((ArgumentError, MissingDependency)):
        NoisyGD(device="cuda").fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


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
