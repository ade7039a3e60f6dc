"""The true ε of printed mechanisms: exact on a worst pair of neighbours, beside what was claimed.

The pairs:

- *Printed class mean.* n rows of one class whose mean is m, against the same rows and one more, opposite to
  m: N(0, s²) against N(Δ, t²) in d dimensions with s = 2/(n·√(2ρ)), t = 2/((n + 1)·√(2ρ)) and Δ = 2/(n + 1).
  The privacy loss is a quadratic form in the output, a‖x − c‖² + b, so its law is a noncentral χ² with d
  degrees of freedom and δ(ε) is one integral.
- *Printed theorem.* Sums and counts together move by √2: Gaussian noise of deviation σ is μ-GDP with μ =
  √2/σ.
- *Script of DPPL-Public.* An empty class, where all candidates tie, against one row that is most similar to
  one candidate and least similar to the others.
- *Printed weights.* All candidates tie; the neighbour raises every score but that of one member of a set.

The audits run the mechanisms on both neighbours many times. Nothing can be proven beyond the logarithm of the
number of runs: where an output betrays a data set for certain, the exact value says the rest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptransfer.accounting import epsilon_of_mu, mu_for
from dptransfer.audit.lower_bound import counted_epsilon
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import (
    PrintedTopK,
    ScriptedPublic,
    printed_mean_deviation,
    printed_steps,
    printed_theorem_noise,
    script_epsilon,
)

FloatArray = NDArray[np.float64]
MEAN, THEOREM = "as-published-mean", "as-published-mean-estimation"
PUBLIC = "as-published-public"
TOP_K, FROM_ZERO = "as-published-top-k", "as-published-top-k-from-zero"
STEPS = "as-published-noisy-gd"
MECHANISMS = (MEAN, THEOREM, PUBLIC, TOP_K, FROM_ZERO, STEPS)
_NODES = 8001
_REACH = 14  # deviations on either side of the mean; beyond them nothing counts at δ above 1e-15


@dataclass(frozen=True)
class PrintedClaim:
    """What is printed of one mechanism, and what is true.

    Attributes:
        mechanism: its name in studies.
        where: the setting, in words.
        claimed: ε as printed.
        exact: ε on the worst pair given here, from its law; infinite where an outcome is possible on one side
            only.
        audited: lower bound on ε from running the mechanism, at 95 % confidence; None where it was not run.
        audited_where: the setting of the audit, where it is another one.
    """

    mechanism: str
    where: str
    claimed: float
    exact: float
    audited: float | None = None
    audited_where: str = ""

    @property
    def unsafe(self) -> bool:
        """Whether the truth is above the claim."""
        return self.exact > self.claimed * (1 + 1e-9)


def mean_epsilon(rho: float, size: int, dimension: int, delta: float) -> float:
    """True ε of the printed class mean between `size` and `size` + 1 rows, the larger of both directions.

    >>> round(mean_epsilon(0.125, 500, 1280, 1e-5), 2)
    2.07
    """
    wide, narrow = (float(printed_mean_deviation(rho, np.array([n]))[0]) for n in (size, size + 1))
    pairs = [GaussianPair(s, t, 2.0 / (size + 1), dimension) for s, t in ((wide, narrow), (narrow, wide))]
    return max(pair.epsilon(delta) for pair in pairs)


class GaussianPair:
    """The privacy loss of N(0, first²) against N(shift, second²), both spherical, with different deviations.

    With a = 1/2t² − 1/2s² the loss L(x) = d·ln(t/s) + ‖x − v‖²/2t² − ‖x‖²/2s² is a·‖x − c‖² + b, where c =
    v/(2t²a) and b = d·ln(t/s) + ‖v‖²/2t² − a‖c‖². Under the first law ‖x − c‖²/s² is a noncentral χ² with
    noncentrality ‖c‖²/s², whose density is laid on a fine grid once.
    """

    def __init__(self, first: float, second: float, shift: float, dimension: int) -> None:
        from scipy.stats import ncx2

        s, t = first, second
        a = 1 / (2 * t * t) - 1 / (2 * s * s)
        centre = shift / (2 * t * t * a)
        b = dimension * math.log(t / s) + shift**2 / (2 * t * t) - a * centre**2
        away = (centre / s) ** 2
        mean, deviation = dimension + away, math.sqrt(2 * (dimension + 2 * away))
        grid = np.linspace(max(1e-12, mean - _REACH * deviation), mean + _REACH * deviation, _NODES)
        self.loss: FloatArray = a * s * s * grid + b
        self.mass: FloatArray = ncx2.pdf(grid, dimension, away) * (grid[1] - grid[0])

    def delta(self, epsilon: float) -> float:
        """δ(ε) = E[(1 − e^(ε − L))₊]."""
        return float((self.mass * -np.expm1(np.minimum(0.0, epsilon - self.loss))).sum())

    def epsilon(self, delta: float) -> float:
        """The ε at which the falling curve of δ reaches `delta`."""
        from scipy.optimize import brentq

        if self.delta(0.0) <= delta:
            return 0.0
        return float(brentq(lambda epsilon: self.delta(epsilon) - delta, 0.0, 1e6, xtol=1e-12))


def theorem_epsilon(epsilon: float, delta: float) -> float:
    """True ε of sums and counts with the printed theorem's noise, under add/remove.

    >>> round(theorem_epsilon(1.0, 1e-5), 2)
    5.15
    """
    return epsilon_of_mu(math.sqrt(2) / printed_theorem_noise(epsilon, delta), delta)


def public_epsilon(epsilon: float, candidates: int) -> float:
    """Log-ratio that DPPL-Public's script reaches on two neighbours when it is given `epsilon`.

    It weighs by exp(2ε·u). In an empty class each of N candidates has P = 1/N; a row with u = 1 for one of
    them and u = 0 for the others makes that one e^(2ε)/(N − 1 + e^(2ε)). The quotient is e^(2ε) ÷ (1 +
    (e^(2ε) − 1)/N). No pair exceeds e^(2ε): the choice is 2ε-DP.

    >>> round(public_epsilon(1.0, 1_281_167), 4)
    2.0
    """
    rate = 2 * epsilon
    return rate - math.log1p(math.expm1(rate) / candidates)


def top_k_epsilon(epsilon: float, k: int, candidates: int) -> float:
    """Log-ratio that the printed weight C(y, K)·exp(ε·u/2) reaches on two neighbours.

    All N candidates tie and a set S holds the first K. It has the worst rank K, weight C(K, K) and nobody to
    share it with: P(S) = 1/C(N + 1, K + 1). The neighbour raises every score by 1 but that of one member of
    S, which falls to rank N: P'(S) = [C(N, K)/C(N − 1, K − 1)] ÷ [e^(ε/2)·C(N, K + 1) + C(N, K)], and
    C(N, K)/C(N − 1, K − 1) = N/K.

    >>> round(top_k_epsilon(1.0, 5, 1_281_167), 2)
    11.95
    """
    before = -_log_binomial(candidates + 1, k + 1)
    whole = np.logaddexp(epsilon / 2 + _log_binomial(candidates, k + 1), _log_binomial(candidates, k))
    after = math.log(candidates / k) - float(whole)
    return abs(after - before)


def _log_binomial(n: int, k: int) -> float:
    return math.fsum(math.log((n - k + i) / i) for i in range(1, k + 1))


def steps_epsilon(epsilon: float, delta: float, noise_multiplier: float = 20.0) -> tuple[int, int, float]:
    """Steps by the printed ρ = T²/2σ², steps that the budget pays for, and ε that the printed steps spend.

    >>> steps_epsilon(1.0, 1e-5)[:2]
    (5, 28)
    """
    mu = mu_for(epsilon, delta)
    printed = printed_steps(mu**2 / 2, noise_multiplier)
    allowed = math.floor((noise_multiplier * mu) ** 2 * (1 + 1e-12))
    spent = epsilon_of_mu(math.sqrt(max(1, printed)) / noise_multiplier, delta)
    return printed, allowed, spent


def printed_claims(
    only: Collection[str] = MECHANISMS,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    dimension: int = 1280,
    candidates: int = 1_281_167,
    k: int = 5,
) -> Iterator[PrintedClaim]:
    """Printed mechanisms at one claimed ε; classes of 5, 50 and 500 for the one that depends on their size.

    Args:
        only: which mechanisms; default all.
        epsilon: the claim.
        delta: δ of the claim.
        dimension: width of the rows.
        candidates: size of the pool.
        k: prototypes per class.
    """
    pool, rho = f"{candidates:,} candidates", mu_for(epsilon, delta) ** 2 / 2
    for size in (5, 50, 500) if MEAN in only else ():
        true, bound = (law(rho, size, dimension, delta) for law in (mean_epsilon, audited_mean))
        where = f"a class of {size} rows, {dimension} dimensions"
        yield PrintedClaim(MEAN, where, epsilon, true, bound)
    if THEOREM in only:
        true, bound = (law(epsilon, delta) for law in (theorem_epsilon, audited_theorem))
        yield PrintedClaim(THEOREM, "any class", epsilon, true, bound)
    if PUBLIC in only:
        true = public_epsilon(epsilon, candidates)
        yield PrintedClaim(PUBLIC, f"{pool}, pure", epsilon, true, *audited_public(epsilon))
    if TOP_K in only:
        true = top_k_epsilon(epsilon, k, candidates)
        yield PrintedClaim(TOP_K, f"{pool}, K = {k}, pure", epsilon, true, *audited_top_k(epsilon))
    if FROM_ZERO in only:
        audit = audited_top_k(epsilon, from_zero=True, candidates=8, runs=100_000)
        yield PrintedClaim(FROM_ZERO, "any pool, pure", epsilon, math.inf, *audit)
    if STEPS in only:
        printed, allowed, spent = steps_epsilon(epsilon, delta)
        yield PrintedClaim(STEPS, f"{printed} steps where {allowed} are paid for", epsilon, spent)


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
