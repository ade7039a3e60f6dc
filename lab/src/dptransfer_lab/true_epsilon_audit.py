"""Printed mechanisms run on two neighbours many times, and the ε that this proves.

Nothing can be proven beyond the logarithm of the number of runs, so where an output betrays a data set for
certain the bound says so many runs and the exact value says the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dptransfer.audit.lower_bound import counted_epsilon
from dptransfer.privacy import Budget
from dptransfer_lab.printed import printed_mean_deviation, printed_theorem_noise, script_epsilon
from dptransfer_lab.printed_choices import PrintedTopK, ScriptedPublic

FloatArray = NDArray[np.float64]
ERROR = 0.05
"""Probability that a bound is wrong."""
_SEED = 20_253
_CHUNK = 1000


def audited_mean(rho: float, size: int, dimension: int, delta: float, *, runs: int = 6000) -> float:
    """The printed class mean of `size` equal rows, against the same rows and their opposite."""
    means = 1.0, (size - 1.0) / (size + 1.0)  # along the rows, all equal; the extra one is their opposite
    spreads = [float(printed_mean_deviation(rho, np.array([n]))[0]) for n in (size, size + 1)]
    rng = np.random.default_rng(_SEED)

    def losses(place: int) -> FloatArray:
        parts = []
        for start in range(0, runs, _CHUNK):
            noise = rng.standard_normal((min(_CHUNK, runs - start), dimension))
            along = means[place] + spreads[place] * noise[:, 0]
            across = spreads[place] ** 2 * (noise[:, 1:] ** 2).sum(axis=1)
            far = [((along - m) ** 2 + across) / (2 * s * s) for m, s in zip(means, spreads, strict=True)]
            parts.append(far[1] - far[0])
        return np.concatenate(parts)

    return _proven(losses(0), losses(1), delta)


def audited_theorem(epsilon: float, delta: float, *, runs: int = 200_000) -> float:
    """Sum and count of an empty class against those of one row, with the printed theorem's noise."""
    scale = printed_theorem_noise(epsilon, delta)
    rng = np.random.default_rng(_SEED)

    def statistic(rows: int) -> FloatArray:
        released = rows + scale * rng.standard_normal((runs, 2))  # along the row, and the count
        total: FloatArray = released.sum(axis=1)
        return total

    return _proven(statistic(0), statistic(1), delta)


def audited_public(epsilon: float, *, candidates: int = 30, runs: int = 400_000) -> tuple[float, str]:
    """How often one candidate is chosen for an empty class, and for one row that is most similar to it."""
    mechanism, rate = ScriptedPublic(), script_epsilon(Budget.pure(epsilon))
    rng = np.random.default_rng(_SEED)

    def hits(scores: FloatArray) -> FloatArray:
        hit: FloatArray = (mechanism.choose(scores, rate, rng, times=runs) == 0).astype(np.float64)
        return hit

    similar = np.eye(candidates)[0]
    return _proven(hits(np.zeros(candidates)), hits(similar)), f"{candidates} candidates"


def audited_top_k(
    epsilon: float, *, from_zero: bool = False, candidates: int = 30, k: int = 2, runs: int = 400_000
) -> tuple[float, str]:
    """How often one set is chosen among tied candidates, and after all but one of its members rose."""
    mechanism = PrintedTopK(k=k, from_zero=from_zero)
    rng = np.random.default_rng(_SEED)
    tied, risen = np.zeros(candidates), np.ones(candidates)
    risen[k - 1] = 0.0

    def hits(scores: FloatArray) -> FloatArray:
        parts = []
        for start in range(0, runs, 10 * _CHUNK):
            chosen = mechanism.choose(scores, epsilon, rng, times=min(10 * _CHUNK, runs - start))
            parts.append((chosen == np.arange(k)).all(axis=1))
        return np.concatenate(parts).astype(np.float64)

    return _proven(hits(risen), hits(tied)), f"{candidates} candidates, K = {k}"


def _proven(first: FloatArray, second: FloatArray, delta: float = 0.0) -> float:
    return max(0.0, counted_epsilon(first, second, delta, error=ERROR))
