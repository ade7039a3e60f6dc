"""The privacy loss of many selections as a distribution on a grid, every rounding upward.

For one selection `pure` gives a pair of distributions that dominates it. Here that pair's loss is put on the
multiples of a step h, each selection's ε first rounded up to a multiple; the losses of independent
pairs add, so composing is convolving. With Gaussian noise of parameter μ on top, whose curve is δ_μ,

    δ(ε) = Σ_j P(loss = x_j) · δ_μ(ε − x_j),

exactly: the Gaussian part is never put on a grid, and convolving positive numbers loses no relative
precision.

The grid for bounded range η = m·h. δ is a convex function of e^ε, so joining its values at the grid points
by chords lies above it (Doroshenko et al. 2022), and the joined curve belongs to a pair with loss x_j of
probability p_j = e^(x_j) × (change of slope at e^(x_j)). With δ = (k − √E)²/(k² − 1), E = e^ε and k =
e^(η/2), the chord between √E = X and Y has slope (1 − 2k/(X + Y))/(k² − 1), and hence p_j =
tanh(h/4)·e^(x_j/2)/sinh(η/2) inside, and tanh(h/4)/(1 − e^(−η)) at +η, e^(−η) times that at −η.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dptransfer import _check
from dptransfer.accounting.gaussian import deltas_of_mu
from dptransfer.accounting.pure import SelectionGroup

_MOST = 5_000  # selections; beyond, the other bounds are as good and the grid is slow
_FINE, _STEPS_EACH = 2_048, 4
_NEGLIGIBLE = 1e-200  # probabilities below are set to 0 and charged to δ instead


def grid_delta(mu: float, groups: tuple[SelectionGroup, ...], epsilon: float) -> float:
    """A δ at which Gaussian noise of GDP parameter `mu` (0 for none) and the selections are (ε, δ)-DP.

    >>> f"{grid_delta(0.0, (SelectionGroup(0.1, False, 100),), 4.31):.2e}"
    '9.86e-06'
    """
    _check.non_negative("mu", mu)
    _check.non_negative("epsilon", epsilon)
    count = sum(group.times for group in groups)
    if count > _MOST:
        return 1.0
    losses, chances = selection_loss(groups)
    shifted = epsilon - losses
    deltas = deltas_of_mu(mu, shifted) if mu > 0 else -np.expm1(np.minimum(shifted, 0.0))
    rounding = 2.0**-50 * (count + 1) * len(losses)  # of convolutions: each sums at most so many products
    return min(1.0, float(chances @ deltas) * (1 + rounding) + _NEGLIGIBLE * (count + 1) * len(losses))


@lru_cache(maxsize=32)
def selection_loss(
    groups: tuple[SelectionGroup, ...],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grid points and their probabilities, for all selections together.

    >>> losses, chances = selection_loss((SelectionGroup(1.0, False, 1),))
    >>> [round(float(x), 3) for x in losses[chances > 0]]
    [-1.0, 1.0]
    """
    count = sum(group.times for group in groups)
    coarsest = math.fsum(group.epsilon * group.times for group in groups) / max(_FINE, _STEPS_EACH * count)
    widest = max(group.epsilon for group in groups)
    # A whole number of steps in the widest selection, so that equal selections are not rounded at all.
    step = widest / math.ceil(widest / coarsest) * (1 + 1e-14)
    chances = np.ones(1)
    for group in groups:
        chances = _convolve(chances, _power(_one_selection(group, step), group.times))
    half = len(chances) // 2
    losses: NDArray[np.float64] = np.arange(-half, half + 1, dtype=np.float64) * step
    losses.flags.writeable = chances.flags.writeable = False  # they are cached
    return losses, chances


def _one_selection(group: SelectionGroup, step: float) -> NDArray[np.float64]:
    """Probabilities of the losses −m·h, …, m·h of one selection, where m·h is its ε rounded up."""
    steps = math.ceil(group.epsilon / step * (1 + 1e-15))
    width = steps * step
    if not group.bounded_range:
        chances = np.zeros(2 * steps + 1)
        chances[-1] = 1 / (1 + math.exp(-width))
        chances[0] = math.exp(-width) * chances[-1]
        return chances
    losses = np.arange(-steps, steps + 1) * step
    end = math.tanh(step / 4) / -math.expm1(-width)
    chances = 2 * end * np.exp((losses - width) / 2)  # 1/sinh(η/2) = 2e^(−η/2)/(1 − e^(−η))
    chances[-1], chances[0] = end, end * math.exp(-width)
    return chances


def _power(chances: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """`count`-fold convolution of a distribution with itself, by repeated squaring."""
    result = np.ones(1)
    while count:
        if count % 2:
            result = _convolve(result, chances)
        count //= 2
        if count:
            chances = _convolve(chances, chances)
    return result


def _convolve(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Direct convolution; a fast Fourier transform would add an absolute error of 1e-16 to every entry."""
    chances = np.convolve(left, right)
    chances[chances < _NEGLIGIBLE] = 0.0  # also keeps the slow subnormal numbers out
    return chances
