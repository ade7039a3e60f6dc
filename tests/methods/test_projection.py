import numpy as np
import pytest

from dptransfer.accounting import epsilon_of
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import MeanPrototypes, Projection
from dptransfer.methods.heads.descent import Pace
from dptransfer.privacy import GaussianEvent, SampledGaussianEvent
from dptransfer.release.heads import LinearHead

from .samples import BUDGET, REPLACE, WIDTH, Silent, fit, muddled, private

STILL = Pace(reach=1e-9, radius=1e-9)
PLAIN = {"features": UnitNorm(), "steps": 10}


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_sums_and_steps_are_one_plan_composed_exactly(budget):
    few, many = (Projection(share=share).plan(private().facts, budget) for share in (0.1, 0.9))
    for plan in (few, many):
        sums, steps = plan.events
        assert isinstance(sums, GaussianEvent)
        assert isinstance(steps, SampledGaussianEvent)
        assert 0.999 <= epsilon_of(plan.events, 1e-5) <= 1.0
    assert few.events[0].noise_multiplier < many.events[0].noise_multiplier
    assert few.events[1].noise_multiplier > many.events[1].noise_multiplier


def test_with_no_steps_to_speak_of_it_is_the_nearest_direction():
    x, y = muddled()
    mean = fit(MeanPrototypes(), private(x, y), noise=Silent())
    found = fit(Projection(**PLAIN, pace=STILL), private(x, y), noise=Silent())
    assert isinstance(found.head, LinearHead)
    assert (found.predict(x) == mean.predict(x)).all()
    assert np.allclose(found.scores(x) / 20 + 0.5, mean.scores(x), atol=1e-3)


def test_the_map_is_as_wide_as_exact_norms_allow():
    facts = private().facts
    assert Projection(features=UnitNorm()).plan(facts, BUDGET).mechanisms[1].query.shape == (WIDTH, WIDTH)
    narrow = Projection(features=UnitNorm(), dimension=3)
    assert narrow.plan(facts, BUDGET).mechanisms[1].query.shape == (3, WIDTH)
    with pytest.raises(ArgumentError, match="leave 8 rows"):
        Projection(features=UnitNorm(), dimension=9).plan(facts, BUDGET)
    assert Projection().width(160) == 102
    with pytest.raises(ArgumentError, match="leave 0 rows"):
        Projection().width(2**14 + 1)
