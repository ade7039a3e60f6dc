"""Class sizes from noisy counts: post-processing of released values, free in privacy.

Counts n_c ~ LogNormal(log ν, τ), observed with noise; ν and τ by expectation-maximisation, n on a log grid.
The prior keeps the noise of counts from entering a model as a bias of classes.
"""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats

_COUNT_GRID = 64
_LEAST_SPREAD = 0.05  # of log counts; a sharper prior would pretend to know them
_FIRST_SPREAD = 0.2  # starts small and grows where the data ask for it, so that count noise is no class bias
_EM_ROUNDS = 20


def count_estimates(counts: Floats, scale: float) -> Floats:
    """Posterior mean class counts from the noisy counts alone; never negative.

    >>> count_estimates(np.array([1000.0, 1010.0, 990.0]), scale=3.0).round(-1).tolist()
    [1000.0, 1010.0, 990.0]
    """
    grid, log_likelihood = _count_likelihood(counts, scale)
    return _mean_counts(_fitted(log_likelihood, grid, counts), grid, counts, scale)


def _count_likelihood(counts: Floats, scale: float) -> tuple[Floats, Floats]:
    """A log grid of n, and log N(count; n, scale² + (half a grid cell)²) for each class and n."""
    grid = np.geomspace(0.5, max(float(counts.max()), 0.0) + 5 * scale + 2, _COUNT_GRID)
    spread = np.hypot(scale, 0.5 * grid * np.log(grid[1] / grid[0]))
    return grid, -0.5 * ((counts[:, None] - grid) / spread) ** 2 - np.log(spread)


def _mean_counts(chances: Floats, grid: Floats, counts: Floats, scale: float) -> Floats:
    """E[n] of each class, as precise as its count where that is finer than the grid.

    The grid saw the count with extra variance h², half a cell's; moving towards the count by h²/(h² + scale²)
    gives that precision back: nothing for a coarse count, everything for an exact one.
    """
    mean = chances @ grid
    cell = (0.5 * mean * np.log(grid[1] / grid[0])) ** 2
    means: Floats = np.maximum(mean + cell / (cell + scale**2) * (counts - mean), grid[0])
    return means


def _fitted(log_likelihood: Floats, grid: Floats, counts: Floats) -> Floats:
    """(classes, grid) chance of each n, under the log-normal prior that fits all classes best.

    E step: the chance of each n given the class's count. M step: log ν and τ² are mean and variance of log n
    under the average of these chances.
    """
    log_n = np.log(grid)
    centre, spread = np.log(max(float(counts.mean()), 1.0)), _FIRST_SPREAD
    for _ in range(_EM_ROUNDS):
        joint = log_likelihood - 0.5 * ((log_n - centre) / spread) ** 2
        chances: Floats = np.exp(joint - joint.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        pooled = chances.mean(axis=0)
        centre = pooled @ log_n
        spread = np.sqrt(max(pooled @ log_n**2 - centre**2, _LEAST_SPREAD**2))
    return chances
