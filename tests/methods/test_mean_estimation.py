import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods import MeanEstimation

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, private


def test_without_noise_the_centres_are_the_class_means_of_unit_rows():
    x, y = clusters()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    want = np.array([unit[y == c].mean(axis=0) for c in range(3)])
    assert np.allclose(fit(MeanEstimation(), noise=Silent()).weights["centres"], want, atol=1e-5)


def test_a_count_below_the_smallest_does_not_flip_a_centre():
    """For an empty class the noisy count is negative half of the time; the sum is divided by 1 then."""

    class Negative(Silent):
        def discrete_gaussian(self, scale, shape):
            return np.full(shape, -3 * 2**30)

    x, y = clusters()
    centres = fit(MeanEstimation(), private(x[:0], y[:0]), noise=Negative()).weights["centres"]
    assert (centres == -3.0).all()
    assert (
        fit(MeanEstimation(smallest_count=6.0), private(x[:0], y[:0]), noise=Negative()).weights["centres"]
        == -0.5
    ).all()


@pytest.mark.parametrize(
    ("weight", "budget", "scale"),
    [
        (1.0, BUDGET, 5.276),
        (1.0, REPLACE, 7.461),
        (0.25, BUDGET, 3.8454),
        (0.25, REPLACE, 7.461),
        (None, BUDGET, 3.7306 * np.sqrt(1 + 8**-0.5)),
        (None, REPLACE, 7.461),
        (2.0, REPLACE, 11.797),
    ],
)
def test_the_joint_release_has_the_known_scale(weight, budget, scale):
    """A weight of ¼ leaves 27 % less noise on the sums than 1 does, and replace-one does not see it."""
    (event,) = MeanEstimation(count_weight=weight).plan(private().facts, budget).events
    assert event.scale == pytest.approx(scale, rel=1e-4)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
def test_the_default_weight_leaves_a_centre_of_norm_one_the_least_noise(budget):
    def squared_error(weight):
        (step,) = MeanEstimation(count_weight=weight).plan(private().facts, budget).mechanisms
        return step.scale**2 * (WIDTH + 1 / step.query.exact_weight**2)

    best = squared_error(None)
    for weight in (0.1, 0.3, 0.5, 0.7, 0.99, 1.01, 1.5, 3.0):
        assert best < squared_error(weight) * (1 + 1e-3)
    assert best < 0.9 * squared_error(0.2)


@pytest.mark.parametrize("weight", [0.1, 1.0, 4.0])
def test_a_weight_changes_noise_and_not_what_is_estimated(weight):
    one, other = (
        fit(MeanEstimation(count_weight=w), noise=Silent()).weights["centres"] for w in (weight, None)
    )
    assert np.allclose(one, other, atol=1e-9)


def test_it_learns_and_refuses_bad_settings():
    x, y = clusters(seed=9)
    assert fit(MeanEstimation()).score(x, y) > 0.95
    for bad in ("smallest_count", "count_weight"):
        with pytest.raises(ArgumentError, match=bad):
            MeanEstimation(**{bad: 0.0})
