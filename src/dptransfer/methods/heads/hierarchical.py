"""A hierarchical model of noisy class sums: post-processing of released values, free in privacy.

A map centred at the pool's mean leaves in every private row what all private rows have in common and the pool
has not: of rows of unit norm that part says nothing about classes, and its share of the norm is signal lost.
So a small share of the budget releases a sum of the rows before they are centred, and the map is moved there.

The sum weights classes so that none outweighs the typical one: the mean of all rows of a long tail is nearly
the mean of its largest class, and rows centred there would have lost what tells that class from the others.

The shift is shrunk, axis by axis, by as much as the noise asks for: with b_j the observed shift along axis j
of the map, and v_j the variance of its noise, b_j ~ N(0, t + v_j), t maximises the evidence, and the estimate
is b_j·t/(t + v_j). If all of it may be noise, t is 0 and the pool's mean stays.

What is known: the noisy sum Z_c and the noisy count of every class, the scales of their noise, and L, the
second moment of public mapped rows along each axis. What is assumed, axis by axis:

    class means    m_c ~ N(m₀, t·P),     P = L^γ scaled to sum 1: classes differ where public rows differ
    rows           x | c ~ N(m_c, w·W),  W = L^¼ scaled to sum 1, w = 1 − t − |m₀|²: rows have unit norm
    counts         n_c ~ LogNormal(log ν, τ)

A sum of n rows plus noise s then has mean n·m₀ and variance v(n) = n²tP + nwW + s². The numbers (t, γ, ν, τ)
maximise the evidence

    Σ_c log ∫ N(count_c; n, s_c²) · N(Z_c; n·m₀, v(n)) · p(n) dn

over a grid of (γ, t), with ν and τ by expectation-maximisation and n on a log grid; m₀, with prior N(0, L),
is then m₀ = Σ_c E[n/v]·Z_c ÷ (Σ_c E[n²/v] + 1/L), and the two are alternated. Given them, Gaussian
conditioning yields each class's mean and how uncertain it is. A class with little signal keeps a wide
predictive variance instead of a noisy direction, so small classes are not drowned; and the prior on counts
keeps count noise from entering as a class bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.exact.public_map import FittedPublicMap

# Of the squared shift, all axes together; a shift of mapped rows is hardly longer than the rows.
_ENERGIES = np.array([0.0, *np.geomspace(1e-4, 1.0, 40)])


def class_weights(counts: Floats) -> Floats:
    """1 for classes up to the typical size, the geometric mean of all; less in proportion for larger ones.

    >>> class_weights(np.array([10.0, 100.0, 1000.0]))
    array([1. , 1. , 0.1])
    """
    weights: Floats = np.minimum(1.0, np.exp(np.log(counts).mean()) / counts)
    return weights


def recentre(features: FittedPublicMap, total: Floats, size: float, scale: float) -> FittedPublicMap:
    """Move the centre of a map to total ÷ size, as far as that can be told from noise.

    Args:
        features: the map around the pool's mean.
        total: released sum of rows, each as `features.uncentred_rows` makes them, times its weight.
        size: sum of the weights.
        scale: standard deviation of the noise of each coordinate of the sum.
    """
    axes = features.axis_vectors()
    stretch = np.linalg.norm(axes, axis=0)
    observed = (total / size - features.centre()) @ axes
    noise = (stretch * scale / size) ** 2
    shrunk = observed * _trusted(observed, noise)
    # Axes are orthogonal, so dividing by the squared stretch leads back from them.
    return features.with_mean(features.centre() + axes @ (shrunk / np.maximum(stretch**2, 1e-12)))


def _trusted(observed: Floats, noise: Floats) -> Floats:
    """Which part of each observed shift is likely no noise."""
    energies = _ENERGIES / len(observed)
    variance = energies[:, None] + noise
    evidence = -0.5 * (observed**2 / variance + np.log(variance)).sum(axis=1)
    energy = energies[evidence.argmax()]
    trusted: Floats = energy / (energy + noise)
    return trusted


_WITHIN_POWER = 0.25
_PRIOR_POWERS = (0.5, 1.0, 1.5, 2.0)
_PRIOR_ENERGIES = tuple(float(energy) for energy in np.geomspace(0.01, 0.8, 12))
_LEAST_WITHIN = 0.05  # rows keep some variance of their own, whatever t and m₀ take
_COUNT_GRID = 64
_LEAST_SPREAD = 0.05  # of log counts; a sharper prior would pretend to know them
_FIRST_SPREAD = 0.2  # starts small and grows where the data ask for it, so that count noise is no class bias
_EM_ROUNDS = 20
_MEAN_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of the classes, given the released values.

    Attributes:
        means: (classes, axes) posterior means of the class means.
        uncertainty: (classes, axes) posterior variances of the class means.
        within: (axes,) variance of rows around their class mean.
        counts: (classes,) posterior mean counts.
    """

    means: Floats
    uncertainty: Floats
    within: Floats
    counts: Floats

    def predictive(self) -> tuple[Floats, Floats, Floats]:
        """(linear, offset, precision) of −½ Σ [(x − mean)²/S + log S] with S = within + uncertainty."""
        spread = self.within + self.uncertainty
        offset = -0.5 * (self.means**2 / spread + np.log(spread)).sum(axis=1)
        return self.means / spread, offset, 1 / spread


def count_estimates(counts: Floats, scale: float) -> Floats:
    """Posterior mean class counts from the noisy counts alone; never negative.

    >>> count_estimates(np.array([1000.0, 1010.0, 990.0]), scale=3.0).round(-1).tolist()
    [1000.0, 1010.0, 990.0]
    """
    grid, log_likelihood = _count_likelihood(counts, scale)
    _, chances = _fit_counts(log_likelihood[None], grid, counts)
    return _mean_counts(chances[0], grid, counts, scale)


def posterior(
    sums: Floats, counts: Floats, sum_scale: float, count_scale: float, moment: Floats
) -> Posterior:
    """Empirical-Bayes posterior of the class means; see the module docstring for the model.

    Args:
        sums: (classes, axes) noisy class sums.
        counts: (classes,) noisy counts.
        sum_scale: standard deviation of the noise of each sum's coordinate.
        count_scale: standard deviation of the noise of each count.
        moment: (axes,) public second moment of mapped rows, L.
    """
    moment = np.maximum(moment, 1e-12)
    moment = moment / moment.sum()
    grid, log_count = _count_likelihood(counts, count_scale)
    models = [(power, energy) for power in _PRIOR_POWERS for energy in _PRIOR_ENERGIES]
    mean = np.zeros(sums.shape[1])  # m₀

    def variances(power: float, energy: float) -> tuple[Floats, Floats, Floats]:
        """t·P, w·W and v(n) for every n of the grid."""
        between = energy * _to_sum_one(moment**power)
        within = max(1.0 - energy - float(mean @ mean), _LEAST_WITHIN) * _to_sum_one(moment**_WITHIN_POWER)
        return between, within, np.outer(grid**2, between) + np.outer(grid, within) + sum_scale**2

    for _ in range(_MEAN_ROUNDS):
        log_likelihood = np.empty((len(models), len(counts), len(grid)))
        for index, model in enumerate(models):
            precision = 1 / variances(*model)[2]
            square = (sums**2) @ precision.T - 2 * (sums * mean) @ (grid[:, None] * precision).T
            square += grid**2 * (precision @ mean**2)
            log_likelihood[index] = log_count - 0.5 * (square - np.log(precision).sum(axis=1))
        evidence, weights = _fit_counts(log_likelihood, grid, counts)
        best = int(evidence.argmax())
        between, within, total = variances(*models[best])
        chances = weights[best]
        mean = ((chances @ (grid[:, None] / total)) * sums).sum(axis=0)
        mean /= (chances @ (grid[:, None] ** 2 / total)).sum(axis=0) + 1 / moment
    estimates = _mean_counts(chances, grid, counts, count_scale)
    n = estimates[:, None]
    total = n**2 * between + n * within + sum_scale**2
    means = mean + n * between * (sums - n * mean) / total
    return Posterior(means, between * (sum_scale**2 + n * within) / total, within, estimates)


def _to_sum_one(values: Floats) -> Floats:
    scaled: Floats = values / values.sum()
    return scaled


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


def _fit_counts(log_likelihood: Floats, grid: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Fit the log-normal prior of counts for a stack of (models, classes, grid) log-likelihoods.

    E step: the chance of each n given the class's data. M step: log ν and τ² are mean and variance of log n
    under the average of these chances. Returns the log evidence of each model and the chances.
    """
    log_n = np.log(grid)
    centre = np.full(len(log_likelihood), np.log(max(float(counts.mean()), 1.0)))
    spread = np.full(len(log_likelihood), _FIRST_SPREAD)
    for _ in range(_EM_ROUNDS):
        log_prior = -0.5 * ((log_n - centre[:, None]) / spread[:, None]) ** 2 - np.log(spread)[:, None]
        joint = log_likelihood + log_prior[:, None, :]
        peak = joint.max(axis=2, keepdims=True)
        chances = np.exp(joint - peak)
        mass = chances.sum(axis=2, keepdims=True)
        chances /= mass
        pooled = chances.mean(axis=1)
        centre = pooled @ log_n
        spread = np.sqrt(np.maximum(pooled @ log_n**2 - centre**2, _LEAST_SPREAD**2))
    return (peak + np.log(mass)).sum(axis=(1, 2)), chances
