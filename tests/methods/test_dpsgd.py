from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import gaussian
from dptransfer.mechanisms.mechanism import exact_answer
from dptransfer.methods import DPSGDProbe, NoisyGD, Pace
from dptransfer.privacy import GaussianEvent, SampledGaussianEvent

from .samples import BUDGET, REPLACE, Silent, clusters, fit, loss, muddled, private

SMALL = DPSGDProbe(steps=8, sampling_rate=0.3)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_its_steps_are_sampled_and_fit_the_budget(budget):
    (event,) = SMALL.plan(private().facts, budget).events
    assert isinstance(event, SampledGaussianEvent)
    assert (event.sampling_rate, event.times, event.relation) == (0.3, 8, budget.relation)
    assert event.sensitivity == 1.0  # what one row contributes, under either relation
    assert 0.99 <= epsilon_of([event], 1e-5) <= 1.0
    assert epsilon_of([replace(event, sampling_rate=0.6)], 1e-5) > 1.0


def test_sampling_needs_less_noise_and_replacing_more():
    sampled, whole = (replace(SMALL, sampling_rate=rate).plan(private().facts, BUDGET) for rate in (0.1, 1.0))
    assert isinstance(whole.events[0], GaussianEvent)
    assert sampled.events[0].noise_multiplier < 0.5 * whole.events[0].noise_multiplier
    replacing = replace(SMALL, sampling_rate=0.1).plan(private().facts, REPLACE).events[0]
    assert replacing.noise_multiplier > 1.2 * sampled.events[0].noise_multiplier


def test_a_rate_of_one_is_full_batch_descent():
    one = fit(DPSGDProbe(steps=8, sampling_rate=1.0), noise=Silent())
    other = fit(NoisyGD(steps=8), noise=Silent())
    assert (one.weights["weights"] == other.weights["weights"]).all()
    assert one.events == other.events


class Counting(Silent):
    """Draws no noise, and keeps the samples it drew."""

    def __init__(self):
        super().__init__()
        self.samples = []

    def poisson_sample(self, rows, rate):
        self.samples.append(super().poisson_sample(rows, rate))
        return self.samples[-1]


def test_every_step_draws_a_sample_of_its_own():
    noise = Counting()
    fit(SMALL, noise=noise)
    assert len(noise.samples) == 8
    assert len({tuple(sample) for sample in noise.samples}) == 8
    assert all(100 < len(sample) < 260 for sample in noise.samples)  # 600 rows at 0.3


def test_of_people_a_step_sees_all_rows_of_a_person_or_none(monkeypatch):
    seen = []

    def watching(query, rows, labels, people):
        seen.append(np.bincount(people, minlength=100))
        return exact_answer(query, rows, labels, people)

    monkeypatch.setattr(gaussian, "exact_answer", watching)
    noise, people = Counting(), np.random.default_rng(5).integers(0, 100, 600)
    fit(SMALL, private(people=people), noise=noise)
    each = np.bincount(private(people=people).people)
    assert len(seen) == 8
    assert all(((counts == each) | (counts == 0)).all() for counts in seen)
    assert all(10 < len(sample) < 55 for sample in noise.samples)  # 100 people at 0.3, and not 600 rows


def test_without_noise_it_lowers_the_loss():
    x, y = muddled()
    made = DPSGDProbe(steps=30, noise_multiplier=20.0, sampling_rate=0.3, pace=Pace(reach=6.0))
    weights = fit(made, private(x, y), noise=Silent()).weights["weights"]
    assert loss(weights, x, y) < 0.8 * loss(np.zeros_like(weights), x, y)


def test_it_learns_and_refuses_bad_rates():
    x, y = clusters(seed=9)
    assert fit(DPSGDProbe(steps=30, sampling_rate=0.3)).score(x, y) > 0.95
    for rate in (0.0, -0.1, 1.5, float("nan")):
        with pytest.raises(ArgumentError, match="sampling_rate"):
            DPSGDProbe(sampling_rate=rate)
