"""A lower bound on ε from what a mechanism really does to two neighbours.

For any set of outputs A, (ε, δ)-DP says P(A) ≤ e^ε Q(A) + δ. So counts of A among many runs on each of two
neighbouring data sets bound ε from below: log((P_low − δ)/Q_high), with one-sided Clopper-Pearson limits. A
is a half-line of a statistic of the output; it is chosen on half of the runs and counted on the other half,
so that the choice does not spoil the confidence.
"""

import math

import numpy as np
from scipy import stats

CONFIDENCE = 1e-6
"""Probability that a limit is wrong; two of them make a bound."""


def low_limit(hits, trials):
    return 0.0 if hits == 0 else float(stats.beta.ppf(CONFIDENCE / 2, hits, trials - hits + 1))


def high_limit(hits, trials):
    return 1.0 if hits == trials else float(stats.beta.ppf(1 - CONFIDENCE / 2, hits + 1, trials - hits))


def bound(hits_first, hits_second, trials, delta):
    """ε that the counts of one set prove, with P(first) the larger."""
    surely = low_limit(hits_first, trials) - delta
    return math.log(surely / high_limit(hits_second, trials)) if surely > 0 else 0.0


def audited_epsilon(first, second, delta):
    """Lower bound on ε from a statistic of the outputs on two neighbours, both ways round."""
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    trials = len(first) // 2
    best, proved = -1.0, 0.0
    for one, other in ((first, second), (second, first)):
        for sign in (1.0, -1.0):
            a, b = sign * one, sign * other
            for cut in np.unique(
                np.quantile(np.concatenate([a[:trials], b[:trials]]), np.linspace(0, 0.999, 60))
            ):
                seen = bound((a[:trials] >= cut).sum(), (b[:trials] >= cut).sum(), trials, delta)
                if seen > best:
                    best = seen
                    proved = bound(
                        (a[trials:] >= cut).sum(), (b[trials:] >= cut).sum(), len(a) - trials, delta
                    )
    return proved
