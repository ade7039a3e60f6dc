import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dptransfer.accounting import epsilon_of
from dptransfer.errors import ArgumentError
from dptransfer.methods import NewtonHead

from .samples import BUDGET, REPLACE, Silent, clusters, fit, loss, muddled, private, unit


def centred(weights):
    """A softmax does not see what all classes have in common."""
    return weights - weights.mean(axis=0)


def test_without_noise_it_finds_the_optimum_of_softmax_regression():
    x, y = muddled()
    made = NewtonHead(steps=25, ridge=1e-6, clip=2.0)  # no gradient is longer than √2: none is clipped
    found = centred(fit(made, private(x, y), noise=Silent()).weights["weights"])
    best = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-8, max_iter=2000).fit(unit(x), y).coef_
    wanted = centred(best)
    cosine = (found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted)
    assert cosine > 0.9999
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(wanted), rel=0.01)


def test_without_noise_no_step_raises_the_loss_and_few_are_enough():
    x, y = muddled()
    losses = [np.log(3)] + [
        loss(
            fit(NewtonHead(steps=t, ridge=1e-3, clip=2.0), private(x, y), noise=Silent()).weights["weights"],
            x,
            y,
        )
        for t in (1, 2, 4, 8)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[3] - losses[4] < 0.05 * (losses[0] - losses[4])


@pytest.mark.parametrize(("budget", "sensitivities"), [(BUDGET, (1.0, 29.0)), (REPLACE, (2.0, 29 * 2**0.5))])
def test_gradients_and_curvatures_share_the_budget(budget, sensitivities):
    facts = private().facts
    events = NewtonHead(steps=3, share=0.2).plan(facts, budget).events
    slopes, bends = events
    assert (slopes.times, bends.times) == (3, 3)
    assert (slopes.sensitivity, bends.sensitivity) == pytest.approx(sensitivities)
    costs = [event.times / event.noise_multiplier**2 for event in events]
    assert costs[1] / sum(costs) == pytest.approx(0.2)
    assert 0.999 <= epsilon_of(events, 1e-5) <= 1.0


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_it_learns(budget):
    x, y = clusters(seed=9)
    assert fit(NewtonHead(), private(*clusters(3000)), budget=budget).score(x, y) > 0.9


def test_bad_settings_are_refused():
    for bad in ({"steps": 0}, {"share": 1.5}, {"ridge": 0.0}, {"clip": 0.0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            NewtonHead(**bad)
