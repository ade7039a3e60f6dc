"""Full batches, Poisson samples, and a clip that adapts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.data.facts import Facts
from dptransfer.mechanisms import row_shares
from dptransfer.mechanisms.mechanism import exact_answer
from dptransfer.methods import DPSGDProbe, FromShots, GlobalAdapt, NoisyGD, Pace
from dptransfer.methods.heads.descent import UpdateRule
from dptransfer.privacy import Budget, GaussianEvent, SampledGaussianEvent, Unit
from dptransfer.queries import GradientAndExcess

from .samples import (
    BUDGET,
    REPLACE,
    WIDTH,
    Silent,
    clusters,
    fit,
    loss,
    muddled,
    private,
    refused_uncharged,
    shots,
    silent_weights,
)

FACTS = Facts(tuple(f"c{i}" for i in range(10)), 1280)
SMALL = DPSGDProbe(steps=8, sampling_rate=0.3)


@pytest.mark.parametrize(("epsilon", "steps"), [(1.0, 28), (3.0, 206)])
def test_known_numbers_of_steps_at_twenty_times_the_clip(epsilon, steps):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    (event,) = NoisyGD(noise_multiplier=20.0).plan(FACTS, budget).events
    assert isinstance(event, GaussianEvent)
    assert (event.times, event.noise_multiplier, event.sensitivity) == (steps, 20.0, 1.0)


def test_without_noise_every_step_lowers_the_loss():
    x, y = muddled()
    start, pace = loss(np.zeros((3, x.shape[1])), x, y), Pace(reach=6.0)
    made = (NoisyGD(steps=steps, pace=pace, clip=1.0) for steps in (1, 4, 40))
    losses = [loss(silent_weights(method, private(x, y)), x, y) for method in made]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * start
    sampled = DPSGDProbe(steps=30, noise_multiplier=20.0, sampling_rate=0.3, pace=pace, clip=1.0)
    assert loss(silent_weights(sampled, private(x, y)), x, y) < 0.8 * start


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_steps_of_dpsgd_are_sampled_and_fit_the_budget(budget):
    (event,) = SMALL.plan(private().facts, budget).events
    assert isinstance(event, SampledGaussianEvent)
    assert (event.sampling_rate, event.times, event.relation) == (0.3, 8, budget.relation)
    assert event.sensitivity == 1.0  # what one row contributes, under either relation
    assert 0.99 <= epsilon_of([event], 1e-5) <= 1.0
    assert epsilon_of([replace(event, sampling_rate=0.6)], 1e-5) > 1.0


def test_a_rate_of_one_is_full_batch_descent():
    made = DPSGDProbe(steps=8, sampling_rate=1.0), NoisyGD(steps=8)
    one, other = (fit(method, noise=Silent()) for method in made)
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


def test_of_people_a_step_sees_all_rows_of_a_person_or_none(monkeypatch):
    seen = []

    def watching(query, rows, labels, people):
        seen.append(np.bincount(people, minlength=100))
        return exact_answer(query, rows, labels, people)

    monkeypatch.setattr(row_shares, "exact_answer", watching)
    noise, people = Counting(), np.random.default_rng(5).integers(0, 100, 600)
    fit(SMALL, private(people=people), noise=noise)
    each = np.bincount(private(people=people).people)
    assert len(seen) == 8
    assert all(((counts == each) | (counts == 0)).all() for counts in seen)
    assert all(10 < len(sample) < 55 for sample in noise.samples)  # 100 people at 0.3, and not 600 rows


def test_steps_on_samples_see_less_of_the_classes_in_the_same_noise(monkeypatch):
    heard = []
    monkeypatch.setattr(
        UpdateRule, "trust_in_steps", lambda _, noise, worth: heard.append((noise, worth)) or 1.0
    )
    whole = NoisyGD(steps=8, noise_multiplier=20.0, start=FromShots())
    sampled = DPSGDProbe(steps=8, noise_multiplier=20.0, start=FromShots(), sampling_rate=0.5)
    for method in (whole, sampled):
        fit(method, public=shots())
    assert heard[0] == pytest.approx((20 / math.sqrt(8), len(shots()) / 3), rel=1e-3)
    assert heard[1] == pytest.approx((2 * heard[0][0], heard[0][1]), rel=1e-3)


METHOD = GlobalAdapt(steps=8, sampling_rate=0.3, clip=1.0)
SIZED = {"size": 600}
OWNED = {"people": np.arange(600) // 6, "rows_per_person": 6.0, "person_bound": 2.0, **SIZED}
ZEROS = np.zeros((3, WIDTH))


class Adapting:
    """The rule of `METHOD` for such data, asked at zero weights."""

    def __init__(self, **declared):
        self.features = METHOD.features.fit(WIDTH, None)
        self.rule = METHOD.rule(self.features, private(**declared).facts, None)

    def hear(self, share, size=600, times=1, weight=1.0):
        """Answers in which this share of the expected sample is above the clip."""
        count = share * METHOD.sampling_rate * size * METHOD.count_weight * weight
        for _ in range(times):
            self.rule.gradient(ZEROS, np.append(np.ones(3 * WIDTH), count))
        return self.question.threshold

    @property
    def question(self):
        return self.rule.question(ZEROS, self.features)


def test_the_clip_follows_the_share_of_long_gradients():
    made = Adapting(**SIZED)
    assert isinstance(made.question, GradientAndExcess)
    assert made.question.threshold == made.question.gradient.clip == METHOD.clip
    grown = made.hear(0.5)
    assert grown == pytest.approx(math.exp(0.2 * (0.5 - 0.1)))
    assert made.hear(0.0) == pytest.approx(grown * math.exp(0.2 * -0.1))


def test_the_clip_stays_where_gradients_can_be():
    made = Adapting(**SIZED)
    assert made.hear(1e9, times=100) == math.sqrt(2)
    assert made.hear(-1e9, times=1000) == 1e-2


def test_the_count_is_divided_by_the_expected_sample():
    """The declared size decides, not how many rows there are: half the size, twice the share."""
    shares = [math.log(Adapting(size=size).hear(0.3)) / 0.2 + 0.1 for size in (600, 300)]
    assert shares == pytest.approx([0.3, 0.6])
    fewer = fit(METHOD, private(*clusters(30), **SIZED), noise=Silent())
    assert fewer.events == fit(METHOD, private(**SIZED), noise=Silent()).events


def test_of_people_the_count_is_divided_by_the_people_that_there_should_be():
    """A hundred of them, of whom each that is counted adds twice the weight."""
    made = Adapting(**OWNED)
    assert made.hear(0.3, size=100, weight=2.0) == pytest.approx(math.exp(0.2 * (0.3 - 0.1)))
    assert made.hear(1e9, times=100) == pytest.approx(3 * math.sqrt(2))  # of six rows, as two


def test_without_a_declared_size_it_is_refused_before_anything_is_charged():
    assert "size" in refused_uncharged(METHOD, private())
    for missing in ("size", "rows_per_person"):
        assert "number of people" in refused_uncharged(METHOD, private(**{**OWNED, missing: None}))
    assert fit(METHOD, private(**OWNED)).guarantee.unit is Unit.PERSON


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_gradient_and_count_are_priced_together(budget):
    (event,) = METHOD.plan(private(**SIZED).facts, budget).events
    assert isinstance(event, SampledGaussianEvent)
    assert event.sensitivity == pytest.approx(math.hypot(1.0, 0.25))
