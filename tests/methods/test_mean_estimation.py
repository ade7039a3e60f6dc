import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods import MeanEstimation

from .samples import BUDGET, REPLACE, Silent, clusters, fit, private


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


@pytest.mark.parametrize(("budget", "scale"), [(BUDGET, 5.276), (REPLACE, 7.461)])
def test_the_joint_release_has_the_known_scale(budget, scale):
    (event,) = fit(MeanEstimation(), budget=budget).events
    assert event.scale == pytest.approx(scale, rel=1e-4)


def test_it_learns_and_refuses_bad_settings():
    x, y = clusters(seed=9)
    assert fit(MeanEstimation()).score(x, y) > 0.95
    with pytest.raises(ArgumentError, match="smallest_count"):
        MeanEstimation(smallest_count=0.0)
