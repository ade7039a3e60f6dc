import math

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import GlobalAdapt
from dptransfer.privacy import SampledGaussianEvent, Unit
from dptransfer.queries import GradientAndExcess

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, private

METHOD = GlobalAdapt(steps=8, sampling_rate=0.3)
SIZED = {"size": 600}


def guide(method=METHOD, size=600):
    features = method.features.fit(WIDTH, None)
    return method.rule(features, private(size=size).facts, None), features


def answer(share, method=METHOD, size=600, realised=1.0):
    """A step's answer in which this share of the expected sample is above the clip."""
    count = share * method.sampling_rate * size * realised
    return np.append(np.ones(3 * WIDTH), count * method.count_weight)


def test_the_clip_follows_the_share_of_long_gradients():
    led, features = guide()
    weights = np.zeros((3, WIDTH))
    before = led.question(weights, features)
    assert isinstance(before, GradientAndExcess)
    assert before.threshold == before.gradient.clip == METHOD.clip
    led.gradient(weights, answer(0.5))
    grown = led.question(weights, features).threshold
    assert grown == pytest.approx(math.exp(0.2 * (0.5 - 0.1)))
    led.gradient(weights, answer(0.0))
    assert led.question(weights, features).threshold == pytest.approx(grown * math.exp(0.2 * -0.1))


def test_the_clip_stays_where_gradients_can_be():
    led, features = guide()
    weights = np.zeros((3, WIDTH))
    for _ in range(100):
        led.gradient(weights, answer(1e9))
    assert led.question(weights, features).threshold == math.sqrt(2)
    for _ in range(1000):
        led.gradient(weights, answer(-1e9))
    assert led.question(weights, features).threshold == 1e-2


def test_the_count_is_divided_by_the_expected_sample():
    """The declared size decides, not how many rows there are: half the size, twice the share."""
    (one, features), (other, _) = guide(size=600), guide(size=300)
    weights = np.zeros((3, WIDTH))
    same = answer(0.3, size=600)
    one.gradient(weights, same)
    other.gradient(weights, same)
    shares = [math.log(made.question(weights, features).threshold) / 0.2 + 0.1 for made in (one, other)]
    assert shares == pytest.approx([0.3, 0.6])
    fewer = fit(METHOD, private(*clusters(30), **SIZED), noise=Silent())
    assert fewer.events == fit(METHOD, private(**SIZED), noise=Silent()).events


def test_without_a_declared_size_it_is_refused_before_anything_is_charged():
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match="size"):
        METHOD.fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


OWNED = {"people": np.arange(600) // 6, "rows_per_person": 6.0, "person_bound": 2.0, **SIZED}


def test_of_people_the_count_is_divided_by_the_people_that_there_should_be():
    """A hundred of them, of whom each that is counted adds twice the weight."""
    features = METHOD.features.fit(WIDTH, None)
    led, weights = METHOD.rule(features, private(**OWNED).facts, None), np.zeros((3, WIDTH))
    led.gradient(weights, answer(0.3, size=100) * 2.0)
    assert led.question(weights, features).threshold == pytest.approx(math.exp(0.2 * (0.3 - 0.1)))
    for _ in range(100):
        led.gradient(weights, answer(1e9))
    assert led.question(weights, features).threshold == pytest.approx(3 * math.sqrt(2))  # of six rows, as two


@pytest.mark.parametrize("missing", ["size", "rows_per_person"])
def test_people_of_unknown_number_are_refused_before_anything_is_charged(missing):
    ledger, told = Ledger.in_memory(), {**OWNED, missing: None}
    with pytest.raises(ArgumentError, match=r"number of people.*rows_per_person"):
        METHOD.fit(private(**told), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []
    assert fit(METHOD, private(**OWNED)).guarantee.unit is Unit.PERSON


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_gradient_and_count_are_priced_together(budget):
    (event,) = METHOD.plan(private(**SIZED).facts, budget).events
    assert isinstance(event, SampledGaussianEvent)
    assert event.sensitivity == pytest.approx(math.hypot(1.0, 0.25))


def test_it_learns_and_refuses_bad_settings():
    x, y = clusters(seed=9)
    model = fit(GlobalAdapt(steps=30, sampling_rate=0.3), private(**SIZED))
    assert model.score(x, y) > 0.95
    for bad in ({"count_weight": 0.0}, {"tolerance": 1.5}, {"adapt_rate": -1.0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            GlobalAdapt(**bad)
