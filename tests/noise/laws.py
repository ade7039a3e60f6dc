"""Exact laws of the samplers, and tests of draws against them, at a false-alarm rate of 10⁻⁶ or less."""

from itertools import combinations
from math import factorial

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6
RARELY = 1e-9
"""The rate for fast secure samplers: no seed repeats them, and they can afford the draws."""


def fits_table(draws, law, false_alarm=FALSE_ALARM):
    """Chi-square test of positions 0, 1, … against their probabilities; rare ones are put together."""
    law = np.asarray(law, dtype=np.float64)
    counts = np.bincount(np.asarray(draws), minlength=len(law)).astype(np.float64)
    expected = law / law.sum() * counts.sum()
    rare = expected < 10
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < 10:
            smallest = np.argmin(expected[:-1])
            counts[smallest] += counts[-1]
            expected[smallest] += expected[-1]
            counts, expected = counts[:-1], expected[:-1]
    return bool(stats.chisquare(counts, expected).pvalue > false_alarm)


def fits_integers(draws, log_weight, false_alarm=FALSE_ALARM):
    """Chi-square test of integer draws against probabilities ∝ exp(log_weight(k))."""
    reach = int(np.abs(draws).max()) + 50
    support = np.arange(-reach, reach + 1)
    weights = np.exp(log_weight(support.astype(np.float64)))
    return fits_table(np.asarray(draws).ravel() + reach, weights, false_alarm)


def gaussian_log_weight(scale):
    return lambda k: -(k**2) / (2 * scale**2)


def laplace_log_weight(scale):
    return lambda k: -np.abs(k) / scale


def fits_continuous(draws, distribution, false_alarm=FALSE_ALARM):
    """Kolmogorov-Smirnov test, for noise so wide that its integers are as good as real numbers."""
    values = np.asarray(draws, dtype=np.float64).ravel()
    return bool(stats.kstest(values, distribution.cdf).pvalue > false_alarm)


def spread_fits(draws, scale, false_alarm=FALSE_ALARM):
    """For a normal law Σ(draw ÷ scale)² is chi-square: sharper than KS for a wrong scale."""
    total = float(((draws / scale) ** 2).sum())
    law = stats.chi2(draws.size)
    return bool(min(law.cdf(total), law.sf(total)) > false_alarm / 2)


def exponential_mechanism(scores, scale):
    """P(j) ∝ exp(score ÷ scale)."""
    logits = np.asarray(scores, dtype=np.float64) / scale
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def permute_and_flip(scores, scale):
    """Walk through a random permutation; stop at r with probability exp((score_r − best) ÷ scale).

    j is reached after the set S was passed over: |S|!(n−1−|S|)!/n! of the permutations, each with the
    probability that nobody in S stopped the walk. It is the law of the largest score + exponential noise.
    """
    stop = np.exp((np.asarray(scores, dtype=np.float64) - np.max(scores)) / scale)
    count = len(stop)
    law = np.zeros(count)
    for j in range(count):
        others = [i for i in range(count) if i != j]
        for size in range(count):
            share = factorial(size) * factorial(count - 1 - size) / factorial(count)
            law[j] += share * sum(
                np.prod([1 - stop[i] for i in passed]) for passed in combinations(others, size)
            )
        law[j] *= stop[j]
    return law


def laplace_noisy_max(scores, scale):
    """Position of the largest score + discrete Laplace noise; the smaller position wins a tie."""
    scores = np.asarray(scores, dtype=np.int64) - int(np.min(scores))
    spread = int(scores.max()) + int(60 * scale) + 1
    values = np.arange(-spread, 2 * spread)
    steps = np.arange(-3 * spread, 3 * spread)
    tail = np.exp(-np.abs(steps + (steps >= 0)) / scale) / (1 + np.exp(-1 / scale))
    at_most = np.where(steps < 0, tail, 1 - tail)  # P(noise ≤ step)
    law = np.zeros(len(scores))
    for j, score in enumerate(scores):
        mass = np.tanh(0.5 / scale) * np.exp(-np.abs(values - score) / scale)  # P(noise = value − score)
        for i, other in enumerate(scores):
            if i != j:
                mass = mass * at_most[values - other - (i < j) + 3 * spread]
        law[j] = mass.sum()
    return law
