from functools import cache

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from dptransfer.accounting import delta_of_mu
from dptransfer.errors import ArgumentError
from dptransfer.noise import lattice_epsilon
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER


def log_discrete(k, scale):
    """log of the discrete Gaussian, normalised over all integers that matter."""
    return -(k**2) / (2 * scale**2) - log_total(scale)


@cache
def log_total(scale):
    support = np.arange(-int(60 * scale), int(60 * scale) + 1)
    return np.log(np.exp(-(support**2) / (2 * scale**2)).sum())


def log_rounded(k, scale):
    """log of the rounded normal: log(Φ((k + ½)/s) − Φ((k − ½)/s)), without cancellation in the tail."""
    k = np.abs(k)
    upper, lower = log_ndtr(-(k - 0.5) / scale), log_ndtr(-(k + 0.5) / scale)
    return upper + np.log(-np.expm1(lower - upper))


@pytest.mark.parametrize("scale", [10.0, 33.3, 2_000.0])
def test_the_rounded_normal_and_the_discrete_gaussian_differ_as_derived(scale):
    for width in (1, 8, 30):  # further out, differences of log Φ lose the digits that are compared
        k = np.arange(-int(width * scale), int(width * scale) + 1).astype(np.float64)
        gap = log_rounded(k, scale) - log_discrete(k, scale)
        assert gap.min() >= -1 / (8 * scale**2) - 1e-9
        assert gap.max() <= width**2 / (8 * scale**2) + 1e-9
        assert gap.max() >= 0.2 * width**2 / (8 * scale**2) - 1 / (8 * scale**2)  # the bound is not idle


def exact_delta(scale, distance, epsilon):
    """Hockey-stick divergence of the discrete Gaussian from itself moved by `distance`: the truth."""
    k = np.arange(-int(45 * scale), int(45 * scale) + distance + 1).astype(np.float64)
    first, second = log_discrete(k - distance, scale), log_discrete(k, scale)
    return float(np.maximum(np.exp(first) - np.exp(epsilon + second), 0).sum())


@pytest.mark.parametrize("multiplier", [0.25, 1.0, 3.7307])
def test_the_exact_curve_of_one_coordinate_is_below_the_stated_one_and_above_the_ideal_one(multiplier):
    scale = 400 * multiplier
    extra = lattice_epsilon(scale, 1)
    ideal_exceeded = False
    for epsilon in np.linspace(0.01, 1.9, 40) / multiplier:
        truth = exact_delta(scale, 400, epsilon)
        if epsilon >= extra:
            assert truth <= np.exp(extra) * delta_of_mu(1 / multiplier, epsilon - extra)
        ideal_exceeded |= truth > delta_of_mu(1 / multiplier, epsilon)
    assert ideal_exceeded  # without the allowance the statement would be false


def test_the_allowance_pays_for_a_neighbour_at_twice_the_distance_when_doubled():
    """Restating add/remove as replace-one doubles the number; outputs are then up to 40 + 2·40 wide."""
    scale, width = 1e6, 40 + 2 / SMALLEST_NOISE_MULTIPLIER
    assert (1 + width**2) / (8 * scale**2) <= 2 * lattice_epsilon(scale, 1)
    assert (1 + 80**2) / (8 * scale**2) <= lattice_epsilon(scale, 1)


def test_what_lies_beyond_forty_standard_deviations_is_nothing_in_float64():
    assert ndtr(-40.0) * 1e6 < np.finfo(np.float64).tiny


def test_it_adds_up_over_coordinates_and_vanishes_on_the_grid_in_use():
    assert lattice_epsilon(100.0, 7) == pytest.approx(7 * lattice_epsilon(100.0, 1))
    assert lattice_epsilon(2.0**30 * SMALLEST_NOISE_MULTIPLIER, 1280 * 1000) < 1e-5
    assert lattice_epsilon(2.0**30, 1280 * 1000) < 2e-9


@pytest.mark.parametrize("scale", [9.9, 0.0, -1.0, float("nan")])
def test_noise_too_narrow_for_the_derivation_is_refused(scale):
    with pytest.raises(ArgumentError, match="grid"):
        lattice_epsilon(scale, 1)
