import numpy as np
import pytest
from scipy import stats

from dptransfer.accounting import true_positive_rate
from dptransfer.audit import area_ceiling
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

NOISE = GaussianEvent(0.8, Relation.ADD_REMOVE)
CHOICE = SelectionEvent(1.5, Relation.ADD_REMOVE, False, "permute-and-flip")


def test_the_best_attack_on_gaussian_noise_has_the_area_that_is_allowed():
    """The likelihood-ratio attack on two normals is the ceiling, so it reaches it and does not pass it."""
    rng = np.random.default_rng(1)
    near, far = rng.normal(0, 1, 100_000), rng.normal(1 / 0.8, 1, 100_000)
    area = stats.mannwhitneyu(far, near).statistic / 1e10
    assert area == pytest.approx(area_ceiling([NOISE]), abs=0.006)
    assert area > area_ceiling([GaussianEvent(1.0, Relation.ADD_REMOVE)]) + 0.03  # more noise allows less


def test_the_area_is_that_under_the_rates():
    """The same curve by another route."""
    for events in ([NOISE], [CHOICE]):
        alarms = np.linspace(0, 1, 201)[:-1]
        under = np.trapezoid([true_positive_rate(events, float(rate)) for rate in alarms] + [1.0], dx=1 / 200)
        assert under - 1e-3 < area_ceiling(events) < under + 5e-3


def test_more_steps_allow_more():
    both = area_ceiling([NOISE, CHOICE])
    assert max(area_ceiling([NOISE]), area_ceiling([CHOICE])) + 0.01 < both < 1


def test_randomised_response_reaches_the_area_of_pure_privacy():
    """The law that is worst for pure ε: the truth with odds e^ε."""
    truth = np.exp(1.5) / (1 + np.exp(1.5))
    assert area_ceiling([CHOICE]) == pytest.approx(truth, abs=1e-3)
    assert area_ceiling([CHOICE]) >= truth


def test_without_noisy_steps_there_is_nothing_to_find():
    assert area_ceiling([]) == 0.5
    assert area_ceiling([NOISE]) > 0.6


def test_sampling_lowers_the_ceiling():
    """Between no release at all and the same release of all rows."""
    sampled = SampledGaussianEvent(0.8, 0.1, 1, Relation.ADD_REMOVE)
    assert 0.51 < area_ceiling([sampled]) < area_ceiling([NOISE]) - 0.1


def test_a_huge_epsilon_allows_everything():
    assert area_ceiling([SelectionEvent(1000.0, Relation.ADD_REMOVE, True, "exponential")]) > 0.99
