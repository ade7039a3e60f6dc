"""Lower bounds on ε from runs of a method on two neighbouring data sets.

A guarantee is an upper bound that rests on a proof and on code. Here is the other side: run the code many
times on two neighbours, and see how well a statistic of what it shows tells them apart. If that proves more
than the guarantee allows, the guarantee is false. If not, nothing is proven: the pair or the statistic may
be weak. Where persons are protected, neighbours differ in one person with all their rows, and a person with
many rows tells more about the code than one with a single row does.

Three ways to read the same samples, each wrong with probability at most `error`:

- `counted_epsilon`: for any set of outputs A, (ε, δ)-DP says P(A) ≤ e^ε Q(A) + δ, so ε ≥ log((P(A) −
  δ)/Q(A)). Assumes nothing, and needs many runs.
- `gaussian_epsilon`: the two laws are taken to be normal with one standard deviation, as log-likelihood
  ratios of Gaussian steps are when each step is moved by a fixed distance. Needs few runs.
- `excess_over_claim`: compares with the whole curve that the events claim rather than with one point of it.
  Assumes nothing and needs fewer runs than the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.accounting import epsilon_of_mu, rate_ceilings
from dptransfer.base import checks
from dptransfer.base.types import Floats
from dptransfer.errors import ArgumentError
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Event

Run: TypeAlias = Callable[[SeededNoise], ArrayLike]
"""Runs once with this noise; a statistic of what was shown, or an array of independent ones."""

ERROR = 1e-6
"""Probability that a bound is wrong."""

_Counts: TypeAlias = tuple[int, int, int]  # hits in one sample, in the other, size of either
_CUTS = 60


def audited_epsilon(
    run: Run,
    neighbour: Run,
    *,
    trials: int,
    delta: float,
    gaussian: bool = False,
) -> float:
    """Lower bound on ε at `delta` from repeated runs on two neighbours, with seeded noise.

    Args:
        run: the statistic on one data set.
        neighbour: the same on its neighbour.
        trials: how many numbers to collect from each.
        delta: δ of the claim.
        gaussian: whether the statistic is known to be normal on both, with one standard deviation.

    >>> from dptransfer.accounting import epsilon_of_mu, rate_ceilings
    >>> quiet = lambda noise: noise.discrete_gaussian(100.0, (1000,))
    >>> moved = lambda noise: quiet(noise) + 200
    >>> found = audited_epsilon(quiet, moved, trials=2000, delta=1e-5, gaussian=True)
    >>> bool(0.8 * epsilon_of_mu(2.0, 1e-5) < found <= epsilon_of_mu(2.0, 1e-5))
    True
    """
    checks.whole("trials", trials)
    first, second = samples(run, trials, 0), samples(neighbour, trials, 2**32)
    bound = gaussian_epsilon if gaussian else counted_epsilon
    return bound(first, second, delta)


def samples(run: Run, trials: int, seed: int) -> Floats:
    """The first `trials` numbers of as many runs as that takes."""
    found: list[Floats] = []
    while sum(map(len, found)) < trials:
        found.append(np.atleast_1d(np.asarray(run(SeededNoise(seed + len(found))), dtype=np.float64)).ravel())
    return np.concatenate(found)[:trials]


def counted_epsilon(first: ArrayLike, second: ArrayLike, delta: float, *, error: float = ERROR) -> float:
    """Lower bound on ε from counts of a half-line, chosen on half of the samples and counted on the others.

    Both ways round and both tails are tried; 0 if nothing is proven.
    """
    best, proven = -1.0, 0.0
    for choosing, counting in _cuts(first, second):
        seen = _ratio(*choosing, delta, error)
        if seen > best:
            best, proven = seen, _ratio(*counting, delta, error)
    return proven


def gaussian_epsilon(first: ArrayLike, second: ArrayLike, delta: float, *, error: float = ERROR) -> float:
    """Lower bound on ε if both samples are normal with one standard deviation.

    The distance of the means is at least the observed one less a t-quantile of its standard error, the
    standard deviation at most what a χ²-quantile says; each is wrong with half of `error`. Their quotient
    is a lower bound on μ, and ε follows from the exact curve.
    """
    from scipy import stats

    a, b = _as_samples(first, second)
    free = len(a) + len(b) - 2
    squares = float(((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum())
    if squares == 0:
        return math.inf if a.mean() != b.mean() else 0.0
    standard_error = math.sqrt(squares / free * (1 / len(a) + 1 / len(b)))
    apart = abs(float(a.mean() - b.mean())) - float(stats.t.isf(error / 4, free)) * standard_error
    deviation = math.sqrt(squares / float(stats.chi2.ppf(error / 2, free)))
    if apart <= 0:
        return 0.0
    return epsilon_of_mu(apart / deviation, delta) * (1 - 1e-6)  # that one rounds up


def excess_over_claim(
    first: ArrayLike, second: ArrayLike, events: Sequence[Event], *, error: float = ERROR
) -> float:
    """How far the rates that the samples prove lie above what the events claim; above 0 refutes it.

    The true positive rate is bounded from below and the false positive rate from above, for one half-line
    chosen on half of the samples; what the claim allows at the second is subtracted from the first.
    """
    choosing, counting = zip(*_cuts(first, second), strict=True)
    chosen = counting[int(np.argmax(_excess(choosing, events, error)))]
    return float(_excess([chosen], events, error)[0])


def _excess(counts: Sequence[_Counts], events: Sequence[Event], error: float) -> Floats:
    """Of each pair of counts: the surely reached true positive rate less what the claim allows there."""
    reached = np.array([low_limit(hits, size, error / 2) for hits, _, size in counts])
    alarms = np.array([high_limit(alarms, size, error / 2) for _, alarms, size in counts])
    return reached - rate_ceilings(events, alarms)


def low_limit(hits: int, trials: int, error: float) -> float:
    """Clopper and Pearson's: a smaller probability would show so many hits with chance `error` at most.

    >>> round(low_limit(8, 10, 0.025), 4)
    0.4439
    """
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, error))


def high_limit(hits: int, trials: int, error: float) -> float:
    """Clopper and Pearson's: a larger probability would show so few hits with chance `error` at most.

    >>> round(high_limit(8, 10, 0.025), 4)
    0.9748
    """
    return 1.0 - low_limit(trials - hits, trials, error)


def _cuts(first: ArrayLike, second: ArrayLike) -> Iterator[tuple[_Counts, _Counts]]:
    """For each half-line, on the choosing and on the counting half: hits in both samples, and size."""
    first, second = _as_samples(first, second)
    half = min(len(first), len(second)) // 2
    for one, other in ((first, second), (second, first)):
        for sign in (1.0, -1.0):
            a, b = sign * one, sign * other
            pooled = np.concatenate([a[:half], b[:half]])
            for cut in np.unique(np.quantile(pooled, np.linspace(0, 0.999, _CUTS))):
                above = [int((part >= cut).sum()) for part in (a[:half], b[:half])]
                size = min(len(a), len(b)) - half
                beyond = [int((part[half : half + size] >= cut).sum()) for part in (a, b)]
                yield (above[0], above[1], half), (beyond[0], beyond[1], size)


def _ratio(hits: int, alarms: int, trials: int, delta: float, error: float) -> float:
    """ε that the counts prove, with the first probability the larger."""
    surely = low_limit(hits, trials, error / 2) - delta
    return math.log(surely / high_limit(alarms, trials, error / 2)) if surely > 0 else 0.0


def _as_samples(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    a, b = np.asarray(first, dtype=np.float64).ravel(), np.asarray(second, dtype=np.float64).ravel()
    if min(len(a), len(b)) < 2:
        raise ArgumentError("An audit needs at least two numbers from each data set.")
    return a, b
