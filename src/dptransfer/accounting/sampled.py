"""Poisson-subsampled Gaussian mechanism (amplification by subsampling): loss and Rényi moments, worst pair.

The worst pair of `sampled` is P = (1 − q) N(0) + q N(1) against Q = (1 − q) N(0) + q N(−1), with noise z.
With φ the density of N(0),

    A(t) = 1 − q + q e^((t − ½)/z²),   B(t) = A(−t),   M(α) = ∫ P^α Q^(1−α) = ∫ f,   f = φ A^α B^(1−α).

M is the same in both directions, for A and B are mirror images. There is no closed form; the trapezoidal rule
with step h converges so fast that its error can be bounded below what floats resolve:

- **Step.** For a real y with θ = y/z² below π, |φ(t + iy)| = φ(t) e^(y²/2z²), |A(t + iy)| ≤ A(t) and
  |B(t + iy)| ≥ B(t) cos(θ/2), because |a + b e^(iθ)| ≥ (a + b) cos(θ/2) for a, b ≥ 0. A and B keep away from
  the negative axis, so f is analytic there, and ∫|f(t + iy)|dt ≤ M e^(z²θ²/2) cos(θ/2)^(1−α). Hence the rule
  is off by at most a share 2/(e^(2πz²θ/h) − 1) of that bound (Trefethen and Weideman 2014, Theorem 5.1): with
  2πz²θ/h = K + z²θ²/2 − (α − 1) log cos(θ/2), by less than 2.1 e^(−K) of M. Any θ is valid; the one used
  makes the step about as large as it can be.
- **Ends.** d log f/dt lies between −t/z² and (2α − 1 − t)/z². So above U = 2α − 1 the integrand falls at
  least as fast as f(U) e^(−s²/2z²) with s = t − U, and it holds at least f(U) ∫ e^(−(Us + s²/2)/z²) ds, which
  is f(U) z²/3U or more if z ≤ U, and f(U)·z/4 or more otherwise. Beyond U + 12z lies f(U) z √(2π) Φ(−12): a
  share below 10⁻³⁰·(1 + U/z) of M. Below 0, A ≤ B and f ≤ Q, of which 2·10⁻³³ lies under −1 − 12z, and
  M ≥ 1. Sums of the rule beyond the ends are as small, up to the same constants: f is monotone there.
- **Floats.** Each log f is off by a few units of 2⁻⁵³ of its largest part, which is added to the logarithm of
  the sum, with `_QUADRATURE_ROUNDING` for everything else. The result is therefore never below the truth.

One release: every row is in the sample with probability q, a row contributes a vector of norm at most 1, and
noise of standard deviation z is added. Write N(x) for N(x, z²I).

**The worst pair.** Let a row with contribution x be replaced by one with x′ (add/remove: one of them is 0).
Given who else is in the sample, and up to a translation, the two answers have the laws

    P = (1 − q) N(0) + q N(x),        Q = (1 − q) N(0) + q N(x′);

averaging over the others cannot help the attacker, because the hockey-stick divergence H_w(P‖Q) = sup over
S of P(S) − w Q(S), with w = e^ε, is jointly convex. Take w ≥ 1 first. Then

    H_w(P‖Q) = sup_S  q N(x)(S) − w q N(x′)(S) − (1 − q)(w − 1) N(0)(S).

Let α = N(x)(S). By Neyman and Pearson N(y)(S) ≥ Φ(Φ⁻¹(α) − ‖y − x‖/z) for every y, with equality for all y
on one ray at once if S is a half-space across it. Both subtracted terms therefore shrink as distances grow:
the worst are ‖x‖ = 1 and ‖x − x′‖ = 2 (replace-one: x = 1, x′ = −1), or x′ = 0 (remove), and a half-line
attains the supremum. Adding, x = 0, is the same with the N(0) terms joined: (1 − w(1 − q)) α − w q N(x′)(S).
For w < 1, H_w(P‖Q) = 1 − w + w H_{1/w}(Q‖P) exchanges the roles. So one pair of laws on the line is worst at
every ε: it dominates, and dominating pairs compose adaptively (Zhu, Dong and Wang 2022, Theorem 10). Larger
distances cost more, and so does a larger q.

**The loss.** With t the answer of the worst pair, the loss log P/Q increases in t:

    remove:       log(1 − q + q e^((t − ½)/z²)),        so t = ½ + z² log(1 + (e^l − 1)/q),
    replace-one:  log of (1 − q + q e^((t − ½)/z²)) / (1 − q + q e^((−t − ½)/z²)),
                  so t = z² (l/2 + asinh(sinh(l/2) e^(1/2z²) (1 − q)/q));

adding is removing with P and Q exchanged.

**The grid.** Between two neighbouring losses of a grid, P has mass a and Q has mass b. Both are kept, and put
on the two ends l, l′ of the cell, which fixes the shares: x + y = a and x e^(−l) + y e^(−l′) = b. δ(ε) is the
mean under P of (1 − e^(ε − loss))₊, a convex function of e^(−loss) whose mean in the cell is kept, so moving
it to the ends can only raise δ, at every ε and in both directions (these are the "connected dots" of
Doroshenko et al. 2022). Beyond the last loss P and Q are told apart outright. The masses come from normal
tails, so nothing is lost at small q, where differences of δ would be mostly rounding.

**Lattice and sample.** Each component of P and Q that ran is within e^(±a) of its ideal, point by point; so
are the mixtures. The argument of `compose` holds with the same `numeric_epsilon`.

**Without amplification.** The divergences of mixtures with equal weights are at most the average of those of
their components, and N(0) against itself has none: a sampled release costs at most what one without sampling
does, 1/z-GDP and 1/(2z²)-zCDP, or 2/z and 2/z² under replace-one. Add/remove has no better ρ: at high orders
the divergence of a sampled release approaches that of an unsampled one.

**Rényi divergences**, of integer order k. Removing has E_Q[(P/Q)^k] = A_k; since binomial weights add up to
1, A_k − 1 = Σ_{i≥2} C(k, i) q^i (1 − q)^(k−i) (e^(i(i−1)/2z²) − 1), a sum of positive terms; adding has no
more (Mironov, Talwar and Zhang 2019, Theorem 5). Replace-one has no closed form: `replaced_moments`
integrates, to 13 digits and rounded up. Where that would take long (high orders and little noise) or 13
digits are too few (tiny rates), Cauchy and Schwarz with N(0) between the two give log E_Q[(P/Q)^k] ≤
(log A_{2k} + log A_{2k−1})/2, which is up to 30 times too large elsewhere. The logarithm of a moment is
convex in the order and 0 at order 1, so between known orders the chord is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dptransfer.base.types import Floats

_DIGITS = 37.0  # K: the rule is off by 2.1·e^(−37) = 2·10⁻¹⁶
_REACH = 12.0  # standard deviations beyond which nothing is left
_QUADRATURE_ROUNDING = 1e-13
_MOST_POINTS = 2**14  # a rule with more is left to other bounds: it would be of high order and little noise


def replaced_log_moments(z: float, q: float, orders: Sequence[float]) -> Floats:
    """Log M of one release at rate q < 1, at each of the orders, rounded up; all by the highest one's rule.

    Infinity where that would take too many points. A rule for a higher order is one for lower orders too: its
    step is smaller and its ends are further out.

    >>> replaced_log_moments(1.0, 0.5, [2.0]).round(4)  # a release without sampling would have 4
    array([0.8309])
    """
    highest = max(orders)
    theta = min(math.pi / 2, math.sqrt(_DIGITS / (z * z / 2 + (highest - 1) / 8)))
    exponent = _DIGITS + (z * theta) ** 2 / 2 - (highest - 1) * math.log(math.cos(theta / 2))
    step = 2 * math.pi * z * z * theta / exponent
    low, high = -1 - _REACH * z, 2 * highest - 1 + _REACH * z
    points = math.ceil((high - low) / step) + 1
    if points > _MOST_POINTS:
        return np.full(len(orders), math.inf)
    t: Floats = low + step * np.arange(points, dtype=np.float64)
    of_one, of_other = (_log_mixture((side * t - 0.5) / (z * z), q) for side in (1, -1))
    order = np.array(orders)[:, None]
    parts = (-0.5 * (t / z) ** 2)[None, :], order * of_one, (1 - order) * of_other
    lost = 2.0**-50 * np.max([np.abs(part).max(axis=1) for part in np.broadcast_arrays(*parts)], axis=0)
    logs = parts[0] + parts[1] + parts[2]
    top = logs.max(axis=1)
    sums = np.exp(logs - top[:, None]).sum(axis=1) * (step / (z * math.sqrt(2 * math.pi)))
    moments: Floats = np.maximum(top + np.log(sums), 0.0) + lost + _QUADRATURE_ROUNDING
    return moments


def _log_mixture(exponents: Floats, q: float) -> Floats:
    """Log(1 − q + q e^x), without cancellation for small q or for q next to 1, and without overflow."""
    low = np.minimum(exponents, 1.0)
    change = q * np.expm1(low)
    near = np.where(change < -0.5, np.log((1 - q) + q * np.exp(low)), np.log1p(change))
    far = exponents + np.log(q + (1 - q) * np.exp(-np.maximum(exponents, 1.0)))
    mixture: Floats = np.where(exponents < 1, near, far)
    return mixture


_TAIL = 9.7  # standard deviations on the grid; 3e-22 lies outside and is counted as told apart
_ROUNDING = 1e-10  # of a sum of binomial terms, relative; log-gamma is good to 1e-15 of at most 1e5
_SMALLEST = 1e-300
_INTEGER_ORDERS = (*range(2, 32), *(round(32 * 1.15**step) for step in range(24)))  # to 796
_INTEGRATED_ORDERS = (  # each row by one rule
    (1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0),
    *(tuple(4.0 * 2 ** (octave + part / 5) for part in range(1, 6)) for octave in range(7)),  # to 512
)
_INTEGRATED_NOISE = 0.02, 1e3  # outside, squares of z leave what the rule is good for


class SampledGroup(NamedTuple):
    """`times` releases of the same kind."""

    noise_multiplier: float
    rate: float
    replaces: bool
    times: int

    @property
    def whole_mu(self) -> float:
        """μ of one release without amplification."""
        return (2 if self.replaces else 1) / self.noise_multiplier

    @property
    def rho(self) -> float:
        """Zero-concentrated DP of all releases, without amplification."""
        return self.times * (0.5 * self.whole_mu * self.whole_mu)

    @property
    def deviation(self) -> float:
        """About the standard deviation of one release's loss, for choosing a grid."""
        mu = 1 / self.noise_multiplier
        spread = self.rate * math.sqrt(math.expm1(mu * mu)) if mu < 20 else math.inf
        rare = math.sqrt(self.rate) * mu * math.sqrt(1 + mu * mu / 4)
        return (2 if self.replaces else 1) * min(spread, rare)

    @property
    def span(self) -> float:
        """Distance between the smallest and the largest loss on the grid."""
        low, high = self.ends()
        return high - low

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest loss on the grid."""
        z = self.noise_multiplier
        top = self._loss(1 + _TAIL * z)
        return (-top if self.replaces else self._loss(-_TAIL * z)), top

    def _loss(self, answer: float) -> float:
        z, q = self.noise_multiplier, self.rate

        def of_component(shift: float) -> float:
            return float(np.logaddexp(np.log1p(-q) if q < 1 else -math.inf, math.log(q) + shift))

        loss = of_component((answer - 0.5) / z / z)
        return loss - of_component((-answer - 0.5) / z / z) if self.replaces else loss


Samples: TypeAlias = tuple[SampledGroup, ...]


def whole_mu(mu: float, groups: Sequence[SampledGroup]) -> float:
    """μ of Gaussian noise of parameter `mu` and all these releases, without amplification.

    >>> whole_mu(0.0, [SampledGroup(10.0, 0.01, False, 100)])
    1.0
    """
    if not groups:
        return mu
    return math.hypot(mu, math.hypot(*(math.sqrt(group.times) * group.whole_mu for group in groups)))


def loss_distribution(group: SampledGroup, interval: float) -> Any:
    """All of the group's releases as the library's privacy loss distribution on multiples of `interval`.

    >>> one = loss_distribution(SampledGroup(1.0, 1.0, False, 1), 0.01)  # no sampling: the exact Gaussian
    >>> f"{one.get_delta_for_epsilon(1.0):.4f}"
    '0.1269'
    """
    return _one_release(group._replace(times=1), interval).self_compose(group.times)


@lru_cache(maxsize=8)
def _one_release(group: SampledGroup, interval: float) -> Any:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    def dense(first: int, masses: Floats, beyond: float) -> Any:
        return pld_pmf.DensePLDPmf(interval, first, masses, float(beyond), True)

    lowest, highest = group.ends()
    first, last = math.floor(lowest / interval), math.ceil(highest / interval)
    losses: Floats = np.arange(first, last + 1, dtype=np.float64) * interval
    p, q_ = _cell_masses(group, losses)
    low = np.exp(-losses)
    # Shares of each cell between its two ends; the outermost cells have one end only.
    inner_p, inner_q = p[1:-1], q_[1:-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (inner_q - inner_p * low[1:]) / (low[:-1] - low[1:])
    share = np.clip(np.nan_to_num(share), 0.0, inner_p)
    masses = np.zeros(len(losses))
    masses[:-1] += share
    masses[1:] += inner_p - share
    masses[0] += p[0]  # below the grid: raised to its lowest loss
    there = dense(first, masses, p[-1])
    if group.replaces:
        return privacy_loss_distribution.PrivacyLossDistribution(there)
    back = masses * low
    beyond = max(0.0, 1.0 - math.fsum(back)) + 2.0**-52  # of Q, where P has nothing
    return privacy_loss_distribution.PrivacyLossDistribution(there, dense(-last, back[::-1], beyond))


def _cell_masses(group: SampledGroup, losses: Floats) -> tuple[Floats, Floats]:
    """Masses of P and Q below the first loss, between neighbouring losses, and above the last."""
    z, q = group.noise_multiplier, group.rate
    if group.replaces:
        spread = math.exp(0.5 / z / z) * (1 - q) / q
        answers = z * z * (losses / 2 + np.arcsinh(np.sinh(losses / 2) * spread))
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            answers = 0.5 + z * z * np.log1p(np.maximum(np.expm1(losses) / q, -1.0))
    shared = (1 - q) * _masses(answers / z)
    other = -1.0 if group.replaces else 0.0
    return shared + q * _masses((answers - 1.0) / z), shared + q * _masses((answers - other) / z)


def _masses(cuts: Floats) -> Floats:
    """Standard normal masses between increasing cuts, from whichever tail is nearer."""
    from scipy.special import ndtr

    below, above = ndtr(cuts), ndtr(-cuts)
    between = np.where(cuts[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.concatenate([below[:1], between, above[-1:]])


def sampled_divergences(group: SampledGroup, orders: Floats) -> Floats:
    """Upper bounds on the Rényi divergences, at `orders` above 1, of all of the group's releases.

    >>> sampled_divergences(SampledGroup(1.0, 0.01, False, 1), np.array([2.0])).round(6)
    array([0.000172])
    """
    whole = orders * (group.whole_mu * group.whole_mu / 2)
    z, q = group.noise_multiplier, group.rate
    chords = _chords(orders, *_log_moments(z, q, group.replaces))
    if group.replaces:
        chords = np.minimum(chords, _chords(orders, *_integrated_log_moments(z, q)))
    return group.times * np.minimum(whole, chords / (orders - 1))


def _chords(orders: Floats, known: Floats, moments: Floats) -> Floats:
    """Bounds on log moments at any orders from those at some; 0 at order 1, none beyond the last."""
    between: Floats = np.interp(orders, [1.0, *known], [0.0, *moments], right=math.inf)
    return between


@lru_cache(maxsize=256)
def _log_moments(z: float, q: float, replaces: bool) -> tuple[Floats, Floats]:
    """Orders, and sums of binomial terms: exact for add/remove, Cauchy and Schwarz for replace-one."""
    if q == 1 or 1 / z > 1e100:
        return np.zeros(0), np.zeros(0)  # the bound without amplification is exact
    known = np.array(_INTEGER_ORDERS, dtype=np.float64)
    if not replaces:
        return known, _log_a(z, q, _INTEGER_ORDERS)
    doubled = tuple(2 * k for k in _INTEGER_ORDERS)
    return known, (_log_a(z, q, doubled) + _log_a(z, q, tuple(k - 1 for k in doubled))) / 2


@lru_cache(maxsize=256)
def _integrated_log_moments(z: float, q: float) -> tuple[Floats, Floats]:
    """Orders, and moments of the replaced pair by quadrature, as far as that is quick."""
    if q == 1 or not _INTEGRATED_NOISE[0] <= z <= _INTEGRATED_NOISE[1]:
        return np.zeros(0), np.zeros(0)
    moments: list[Floats] = []
    for orders in _INTEGRATED_ORDERS:
        found = replaced_log_moments(z, q, orders)
        if math.isinf(found[0]):  # higher orders take more points still
            break
        moments.append(found)
    known = [order for orders in _INTEGRATED_ORDERS[: len(moments)] for order in orders]
    return np.array(known), np.concatenate([np.zeros(0), *moments])


def _log_a(z: float, q: float, orders: tuple[int, ...]) -> Floats:
    """Log A_k for each k; the terms of all orders lie in one array, order after order."""
    k, i, log_choose, starts = _binomials(orders)
    exponent = i * (i - 1) / (2 * z * z)
    with np.errstate(divide="ignore"):  # noise so large that nothing is left: −∞, and 0 in the sum
        terms = log_choose + i * math.log(q) + (k - i) * math.log1p(-q)
        terms += exponent + np.log(-np.expm1(-exponent))
    largest = np.maximum(np.maximum.reduceat(terms, starts), -1e300)
    sums = np.add.reduceat(np.exp(terms - np.repeat(largest, np.diff([*starts, len(terms)]))), starts)
    with np.errstate(divide="ignore"):
        moments: Floats = np.logaddexp(0.0, largest + np.log(sums)) * (1 + _ROUNDING)
    return moments + _SMALLEST


@lru_cache(maxsize=4)
def _binomials(orders: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    from scipy.special import gammaln

    k = np.repeat(orders, [order - 1 for order in orders]).astype(np.float64)
    i = np.concatenate([np.arange(2, order + 1) for order in orders]).astype(np.float64)
    starts = np.cumsum([0, *(order - 1 for order in orders[:-1])])
    return k, i, gammaln(k + 1) - gammaln(i + 1) - gammaln(k - i + 1), starts
