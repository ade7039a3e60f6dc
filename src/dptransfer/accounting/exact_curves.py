"""Exact (ε, δ) curves, rounded to the safe side: of Gaussian noise, and of one selection.

**Gaussian noise** of standard deviation z·Δ on a query of L2 sensitivity Δ is μ-GDP with μ = 1/z. The privacy
loss of N(μ, 1) against N(0, 1) is itself normal, N(μ²/2, μ²), and integrating (1 − e^(ε − loss))₊ gives

    δ(ε) = Φ(a) − e^ε Φ(−b),        a = μ/2 − ε/μ,   b = μ/2 + ε/μ.

Because b² − a² = 2ε, the second term is e^(−a²/2) erfcx(b/√2)/2, where erfcx(x) = e^(x²) erfc(x) neither
overflows nor underflows; for a ≤ 0 the first is e^(−a²/2) erfcx(−a/√2)/2. So the exponentially small part
is one common factor, and what is subtracted is of ordinary size: no overflow at any ε, full precision at
tiny δ.

**A selection** is pure ε-DP, and perhaps of bounded range too. Two facts carry everything; each is an exact
trade-off curve, so it composes adaptively by dominating pairs (Zhu, Dong and Wang 2022, Theorem 10).

*Pure ε-DP* is dominated by randomised response: loss +ε with probability e^ε/(1 + e^ε), else −ε (Kairouz,
Oh and Viswanath 2015). Hence δ(e) = (e^ε − e^e)/(1 + e^ε).

*η-bounded range* (the losses of one pair of data sets lie in an interval [t − η, t]). (1 − e^(e − loss))₊
is convex in e^(−loss), and E[e^(−loss)] = 1, so for given t the worst case puts all mass on the two ends;
the expectation fixes the mass of t to (e^η − e^t)/(e^η − 1). Then δ = (e^η − e^t)(1 − e^(e−t))/(e^η − 1),
whose derivative in t vanishes at t = (η + e)/2, and the maximum is

    δ(e) = (e^(η/2) − e^(e/2))² / (e^η − 1)        for −η ≤ e ≤ η   (Dong, Durfee and Rogers 2020).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from dptransfer.accounting.safe_search import largest, smallest
from dptransfer.base import checks
from dptransfer.base.types import Floats
from dptransfer.errors import ArgumentError
from dptransfer.privacy.numbers import number

_ROUNDING = 1e-14  # relative error allowed to erfcx and ndtr, whose own is about 1e-15
_ULP = 2.0**-52
_TINY = sys.float_info.min
_MOST_STEPS = 200


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Smallest δ for which μ-GDP implies (ε, δ)-DP, rounded up; never 0, since Gaussian noise is never pure.

    >>> f"{delta_of_mu(1 / 3.7307, 1.0):.4g}"
    '9.997e-06'
    >>> delta_of_mu(1.0, 1e4) == sys.float_info.min
    True
    """
    checks.positive("mu", mu)
    checks.non_negative("epsilon", epsilon)
    return float(deltas_of_mu(mu, np.array([epsilon], dtype=np.float64))[0])


def deltas_of_mu(mu: float, epsilons: Floats) -> Floats:
    """`delta_of_mu` for many ε at once, of either sign.

    For ε = −x < 0 splitting ∫(P − e^(−x)Q) into its positive and negative part gives
    δ(−x) = 1 − e^(−x) + e^(−x) δ(x), a sum of positive terms.

    >>> deltas_of_mu(1.0, np.array([-1.0, 0.0, 1.0])).round(4)
    array([0.6788, 0.3829, 0.1269])
    """
    from scipy.special import erf, erfcx, ndtr

    if mu > 1e100:  # far outside anything useful: 1 is an upper bound for every ε
        return np.ones_like(epsilons)
    x = np.abs(epsilons)
    with np.errstate(over="ignore", under="ignore"):
        ratio = np.minimum(x / mu, 1e150)  # its square stays finite; a smaller ε has a larger δ
        a, b = mu / 2 - ratio, mu / 2 + ratio
        rounding = _ROUNDING + 4 * _ULP * b / (1 + np.abs(a))  # of the two terms, from rounding a and b
        tail = erfcx(b / math.sqrt(2))
        # An error of an ulp of b in a moves a²/2 by |a|·b ulps; far out, where all is 0, it may not matter.
        common = 0.5 * np.exp(-a * a / 2 + np.minimum(4 * _ULP * np.abs(a) * b, 1.0))
        near = erfcx(-np.minimum(a, 0) / math.sqrt(2))
        far = common * ((near - tail) + rounding * (near + tail))
        lost = 0.5 * np.exp(-a * a / 2 - np.minimum(4 * _ULP * np.abs(a) * b, 1.0)) * tail
        head = ndtr(np.maximum(a, 0))
        delta = np.where(a <= 0, far, (head - lost) + rounding * (head + lost))
    # At ε = 0 the curve is erf(μ/√8), with no subtraction; it bounds the rest because δ decreases.
    delta = np.maximum(np.minimum(delta, erf(mu / math.sqrt(8)) * (1 + _ROUNDING)), _TINY)
    delta = np.where(epsilons < 0, -np.expm1(-x) + np.exp(-x) * delta, delta)
    capped: Floats = np.minimum(delta, 1.0)
    return capped


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Smallest ε, to one part in 10⁹ and rounded up, at which μ-GDP gives (ε, δ)-DP.

    The returned ε was tried: `delta_of_mu` of it is at most `delta`. At δ = 0 there is none, so infinity.

    >>> round(epsilon_of_mu(1.0, 1e-5), 3)
    4.377
    >>> epsilon_of_mu(1e-6, 1e-5)
    0.0
    """
    checks.positive("mu", mu)
    checks.probability("delta", delta)
    if delta == 0:
        return math.inf
    if delta_of_mu(mu, 0.0) <= delta:
        return 0.0
    # ρ-zCDP with ρ = μ²/2 implies (ρ + 2√(ρ log 1/δ), δ)-DP: above the answer, and close.
    high = (mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))) * (1 + 1e-9)
    if math.isinf(high):
        return high
    found = smallest(lambda e: delta_of_mu(mu, e) <= delta, high * 1e-12, high)
    return math.inf if found is None else found


def mu_for(epsilon: float, delta: float) -> float:
    """Largest μ, to one part in 10⁹ and rounded down, whose curve passes (ε, δ); the value was tried.

    >>> round(1 / mu_for(1.0, 1e-5), 4)
    3.7306
    """
    checks.non_negative("epsilon", epsilon)
    checks.probability("delta", delta)
    if delta == 0:
        raise ArgumentError("Gaussian noise needs delta > 0; got 0. Give one, say 1e-6, or use a selection.")
    found = largest(lambda mu: delta_of_mu(mu, epsilon) <= delta, 1e-300, 1e6)
    if found is None:
        raise ArgumentError(f"delta = {number(delta)} is too small for Gaussian noise; raise it to 1e-290.")
    return found


def mu_with_slack(mu: float, slack: float) -> float:
    """A μ' such that noise within likelihood ratio e^s of μ-GDP noise is μ'-GDP; infinity if none is found.

    If the ideal curve is δ_μ, the curve of what ran is at most e^s δ_μ(ε − s) (s is `slack`). Let s grow
    from 0: that bound moves at rate δ − ∂δ/∂ε = Φ(a), since ∂δ/∂ε = −e^ε Φ(−b), while raising μ lifts δ_μ
    at rate ∂δ/∂μ = φ(a). So δ_μ' stays above it if μ grows at a rate of at least Φ(a)/φ(a), which increases
    in a; over the ε ≥ −s that matter a is at most A = μ/2 + s/μ. A is convex in μ, so its maximum over [μ,
    μ'] is at an end. Hence any μ' ≥ μ + s·Φ(A)/φ(A) will do. A μ below s is raised to s first (a weaker
    statement, hence true), which keeps A small.

    >>> mu_with_slack(0.25, 0.0)
    0.25
    >>> 0.25 < mu_with_slack(0.25, 1e-6) < 0.25 + 2e-6
    True
    """
    checks.positive("mu", mu)
    checks.non_negative("slack", slack)
    if slack == 0:
        return mu
    raised = start = max(mu, slack)
    for _ in range(_MOST_STEPS):
        needed = start + slack * _mills(max(start / 2 + slack / start, raised / 2 + slack / raised))
        if needed <= raised:  # tried, and not only the limit of what was tried
            return raised
        raised = needed * (1 + 1e-12)
    return math.inf


def _mills(a: float) -> float:
    """Φ(a)/φ(a), rounded up; infinity where φ leaves the range of floats."""
    from scipy.special import ndtr

    if a > 37:
        return math.inf
    return float(ndtr(a)) * math.sqrt(2 * math.pi) * math.exp(a * a / 2) * (1 + 1e-12)


class SelectionGroup(NamedTuple):
    """`times` equal selections, or other pure steps: each `epsilon`-DP, and of bounded range or not."""

    epsilon: float
    bounded_range: bool
    times: int

    @property
    def rho(self) -> float:
        """Zero-concentrated DP of all of them."""
        return self.times * selection_rho(self.epsilon, self.bounded_range)


Selections: TypeAlias = tuple[SelectionGroup, ...]


def total_epsilon(groups: Iterable[SelectionGroup]) -> float:
    """Pure ε of all selections together, the sum, to the nearest float.

    >>> total_epsilon([SelectionGroup(0.1, True, 10)])
    1.0
    """
    return math.fsum(group.epsilon * group.times for group in groups)


def selection_delta(step_epsilon: float, bounded_range: bool, epsilon: float) -> float:
    """Exact δ at `epsilon` of one selection that is `step_epsilon`-DP; 0 from `step_epsilon` on.

    >>> selection_delta(1.0, True, 1.0)
    0.0
    >>> round(selection_delta(1.0, True, 0.0), 6) == round(math.tanh(1 / 4), 6)
    True
    >>> round(selection_delta(1.0, False, 0.0), 6) == round(math.tanh(1 / 2), 6)
    True
    """
    checks.positive("step_epsilon", step_epsilon)
    checks.non_negative("epsilon", epsilon)
    if epsilon >= step_epsilon:
        return 0.0
    gap = step_epsilon - epsilon
    if bounded_range:  # both divided by e^η, so that nothing overflows
        delta = math.expm1(-gap / 2) ** 2 / -math.expm1(-step_epsilon)
    else:
        delta = -math.expm1(-gap) / (1 + math.exp(-step_epsilon))
    return min(1.0, delta * (1 + 1e-14))


def selection_rho(step_epsilon: float, bounded_range: bool) -> float:
    """Zero-concentrated DP, ρ, of one selection: η²/8 with bounded range, ε²/2 without.

    With bounded range: the loss lies in an interval of length η, so by Hoeffding's lemma its cumulants grow
    at most like a normal variable's of variance η²/4. Without: the interval is [−ε, ε], of length 2ε.

    >>> selection_rho(2.0, True), selection_rho(2.0, False)
    (0.5, 2.0)
    """
    checks.positive("step_epsilon", step_epsilon)
    return step_epsilon * step_epsilon / (8 if bounded_range else 2)
