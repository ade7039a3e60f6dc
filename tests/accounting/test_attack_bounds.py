import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm

from dptransfer.accounting import area_ceiling, membership_advantage, true_positive_rate
from dptransfer.errors import ArgumentError
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent

NOISE = GaussianEvent(0.8, Relation.ADD_REMOVE)
CHOICE = SelectionEvent(1.5, Relation.ADD_REMOVE, False, "permute-and-flip")
checked = settings(max_examples=40, deadline=None, derandomize=True)


def noise(z, slack=0.0):
    return GaussianEvent(z, Relation.ADD_REMOVE, numeric_epsilon=slack)


def choice(epsilon, bounded=True):
    return SelectionEvent(epsilon, Relation.ADD_REMOVE, bounded, "exponential")


@given(z=st.floats(0.2, 20), rate=st.floats(1e-9, 0.999))
@checked
def test_gaussian_noise_limits_the_attacker_exactly(z, rate):
    exact = norm.cdf(norm.ppf(rate) + 1 / z)
    found = true_positive_rate([noise(z)], rate)
    assert exact <= found <= min(1.0, exact * (1 + 1e-8))
    assert found > norm.cdf(norm.ppf(rate) + 0.99 / z) or found == 1.0


def test_the_likelihood_ratio_attack_reaches_the_limit_and_does_not_pass_it():
    rng = np.random.default_rng(3)
    inside, outside = rng.normal(1.0, 1.0, 400_000), rng.normal(0.0, 1.0, 400_000)
    for threshold in (0.0, 1.0, 2.0):
        false, true = (outside > threshold).mean(), (inside > threshold).mean()
        limit = true_positive_rate([noise(1.0)], float(false))
        assert true <= limit + 0.01
        assert true >= limit - 0.01
        assert true > true_positive_rate([noise(1.2)], float(false))  # more noise would be contradicted


def test_randomised_response_is_limited_by_its_corner():
    chance = 1 / (1 + math.exp(-1.0))
    found = true_positive_rate([choice(1.0, bounded=False)], 1 - chance)
    assert chance <= found <= chance * 1.02
    assert true_positive_rate([choice(0.9, bounded=False)], 1 - chance) < chance


@given(epsilon=st.floats(0.05, 4), rate=st.floats(1e-6, 0.99))
@checked
def test_bounded_range_is_limited_by_the_shifted_logistic(epsilon, rate):
    logit = math.log(rate / (1 - rate)) + epsilon
    exact = 1 / (1 + math.exp(-logit))
    found = true_positive_rate([choice(epsilon)], rate)
    assert exact * (1 - 1e-9) <= found <= min(1.0, math.exp(epsilon) * rate * (1 + 1e-9))
    assert found <= exact * 1.03


def test_mixtures_and_lattices_give_the_attacker_more():
    alone = true_positive_rate([noise(2.0)], 0.01)
    assert true_positive_rate([noise(2.0), choice(0.5)], 0.01) > alone
    assert true_positive_rate([noise(2.0, 0.01)], 0.01) > alone
    assert true_positive_rate([noise(2.0, 0.01)], 0.01) < alone * 1.1


def test_a_rate_of_zero_gives_nothing_and_weak_noise_gives_everything():
    assert true_positive_rate([noise(1.0)], 0.0) == 0.0
    assert true_positive_rate([choice(1.0)], 0.0) < 1e-12
    assert true_positive_rate([noise(1e-3)], 0.01) == 1.0
    assert true_positive_rate([noise(1e-3, 1e-3)], 0.01) == 1.0


def test_advantage_is_the_total_variation():
    assert membership_advantage([noise(1.0)]) == pytest.approx(2 * norm.cdf(0.5) - 1, rel=1e-12)
    assert membership_advantage([choice(1.0)]) == pytest.approx(math.tanh(0.25), rel=1e-12)
    assert membership_advantage([noise(1.1)]) < membership_advantage([noise(1.0)])
    rates = np.linspace(0.01, 0.99, 99)
    gaps = [true_positive_rate([noise(1.0)], float(rate)) - rate for rate in rates]
    assert max(gaps) == pytest.approx(membership_advantage([noise(1.0)]), rel=1e-3)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.0, 5e-324])
def test_a_rate_that_is_no_rate_is_refused(bad):
    with pytest.raises(ArgumentError):
        true_positive_rate([noise(1.0)], bad)


def test_without_private_rows_an_attack_is_a_guess():
    assert membership_advantage([]) == 0.0
    assert area_ceiling([]) == 0.5 < area_ceiling([NOISE]) - 0.1
    for rate in (0.0, 0.01, 0.5):
        assert true_positive_rate([], rate) == rate


def test_sampling_hides_members_and_the_limit_is_not_that_of_unsampled_noise():
    event = SampledGaussianEvent(1.0, 0.01, 100, Relation.ADD_REMOVE)
    found = true_positive_rate([event], 0.01)
    assert 0.01 < found < 0.1 * true_positive_rate([noise(0.1)], 0.01)
    rng = np.random.default_rng(5)
    ins = rng.random((20_000, 100)) < 0.01
    loss = [
        np.log(0.99 + 0.01 * np.exp(rng.normal(size=ins.shape) + shift - 0.5)).sum(axis=1)
        for shift in (ins, 0)
    ]
    threshold = np.quantile(loss[1], 0.99)
    assert (loss[0] > threshold).mean() <= found + 0.005  # the best attack on the worst case
    assert (loss[0] > threshold).mean() > 0.011


def test_the_best_attack_on_gaussian_noise_has_the_area_that_is_allowed():
    """The likelihood-ratio attack on two normals is the ceiling, so it reaches it and does not pass it."""
    rng = np.random.default_rng(1)
    near, far = rng.normal(0, 1, 100_000), rng.normal(1 / 0.8, 1, 100_000)
    area = mannwhitneyu(far, near).statistic / 1e10
    assert area == pytest.approx(area_ceiling([NOISE]), abs=0.006)
    assert area > area_ceiling([GaussianEvent(1.0, Relation.ADD_REMOVE)]) + 0.03  # more noise allows less


def test_the_area_is_that_under_the_rates():
    """The same curve by another route."""
    for events in ([NOISE], [CHOICE]):
        alarms = np.linspace(0, 1, 201)[:-1]
        under = np.trapezoid([true_positive_rate(events, float(rate)) for rate in alarms] + [1.0], dx=1 / 200)
        assert under - 1e-3 < area_ceiling(events) < under + 5e-3


def test_randomised_response_reaches_the_area_of_pure_privacy():
    """The law that is worst for pure ε: the truth with odds e^ε."""
    truth = np.exp(1.5) / (1 + np.exp(1.5))
    assert area_ceiling([CHOICE]) == pytest.approx(truth, abs=1e-3)
    assert area_ceiling([CHOICE]) >= truth


def test_a_huge_epsilon_allows_everything():
    assert area_ceiling([SelectionEvent(1000.0, Relation.ADD_REMOVE, True, "exponential")]) > 0.99


def test_cut_tails_help_an_attacker_on_both_sides():
    """Laws that are η off the ideal ones: so many more alarms, and so many more hits."""
    cut = 1e-21
    event = GaussianEvent(0.8, Relation.ADD_REMOVE, numeric_delta=cut)
    assert true_positive_rate([event], 1e-25) >= cut + norm.cdf(norm.ppf(cut) + 1 / 0.8)
    assert true_positive_rate([replace(event, noise_multiplier=1e9)], 1e-25) >= 2 * cut
