"""Class sizes from noisy counts, on counts drawn from the model and on any others."""

import numpy as np
import pytest

from dptransfer.methods.class_sizes import count_estimates


@pytest.mark.parametrize("scale", [1e-9, 0.3, 20.0, 1e9])
def test_counts_are_never_negative_whatever_was_released(scale):
    rng = np.random.default_rng(0)
    for counts in (rng.normal(0, scale, 30), -np.abs(rng.normal(50, scale, 2)), np.zeros(500)):
        estimates = count_estimates(counts, scale)
        assert estimates.shape == counts.shape
        assert (estimates > 0).all()
        assert np.isfinite(estimates).all()


@pytest.mark.parametrize("scale", [1e-6, 0.5])
def test_counts_are_kept_where_their_noise_is_small(scale):
    truth = np.array([3.0, 10.0, 47.0, 1_000.0, 99_000.0])
    noisy = truth + scale * np.random.default_rng(0).normal(size=5)
    assert count_estimates(noisy, scale) == pytest.approx(noisy, abs=2 * scale + 1e-9)
    assert count_estimates(noisy, 3_000.0)[1] != pytest.approx(noisy[1], rel=0.5)


def test_counts_of_equal_classes_are_pooled_where_their_noise_is_large():
    noisy = 1_000 + 400 * np.random.default_rng(0).normal(size=100)
    pooled = count_estimates(noisy, 400.0)
    assert pooled.std() < 0.25 * noisy.std()
    assert pooled == pytest.approx(np.full(100, 1_000.0), rel=0.2)
    unequal = np.repeat([100.0, 10_000.0], 50) + 400 * np.random.default_rng(1).normal(size=100)
    apart = count_estimates(unequal, 400.0)
    assert apart[:50].max() < 2_000 < 8_000 < apart[50:].min()  # pooled only as far as the data allow


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0])
def test_sizes_drawn_from_the_model_are_closer_than_their_noisy_counts_and_than_their_mean(spread):
    """In logarithms, which is what steps take them for; the mean of all classes is right where all agree."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.lognormal(np.log(60), spread, 40)
        noisy = truth + rng.normal(size=40) * 20.0
        own, raw, alike = (
            np.square(np.log(found / truth)).mean()
            for found in (count_estimates(noisy, 20.0), np.maximum(noisy, 1.0), noisy.mean())
        )
        assert own < raw
        assert own < 0.9 * alike or spread == 0.1


def test_larger_counts_are_larger_sizes():
    noisy = np.random.default_rng(3).normal(100, 60, 30)
    order = np.argsort(noisy)
    assert (np.diff(count_estimates(noisy, 30.0)[order]) >= 0).all()


def test_five_hundred_classes_and_a_single_one_are_no_exception():
    noisy = 30 + 9 * np.random.default_rng(4).normal(size=500)
    assert count_estimates(noisy, 9.0) == pytest.approx(np.full(500, 30.0), rel=0.5)
    assert count_estimates(np.array([30.0]), 1.0) == pytest.approx([30.0], rel=0.1)
